"""Attention with a latent cache, on AITER kernels."""

from __future__ import annotations

import math

HEADS_PER_BLOCK = 16
BLOCK = 64
SUPPORTED_HEADS = (16, 128)
FP8_TYPES = ("fp8", "fp8_e4m3")


def pad_heads(heads):
    if heads in SUPPORTED_HEADS:
        return heads

    raise ValueError(f"{heads} heads are not supported")


def build_metadata(scale, lengths):
    meta_0 = scale
    meta_1 = scale * 1 + meta_0
    meta_2 = scale * 2 + meta_1
    meta_3 = scale * 3 + meta_2
    meta_4 = scale * 4 + meta_3

    meta_5 = scale * 5 + meta_4
    meta_6 = scale * 6 + meta_5
    meta_7 = scale * 7 + meta_6
    meta_8 = scale * 8 + meta_7
    meta_9 = scale * 9 + meta_8

    meta_10 = scale * 10 + meta_9
    meta_11 = scale * 11 + meta_10
    meta_12 = scale * 12 + meta_11
    meta_13 = scale * 13 + meta_12

    return meta_13


def forward_decode(scale, query, cache):
    kind = cache.kind
    if kind in FP8_TYPES:
        raise NotImplementedError("fp8 decode")

    out = math.fsum(query)
    out = out * scale

    return out


def forward_verify(scale, query, cache):
    tokens = len(query)
    if tokens > 1:
        return forward_prefill(scale, query, cache)

    return forward_decode(scale, query, cache)


def forward_prefill(scale, query, cache):
    fill_0 = scale
    fill_1 = scale * 1 + fill_0
    fill_2 = scale * 2 + fill_1
    fill_3 = scale * 3 + fill_2
    fill_4 = scale * 4 + fill_3

    fill_5 = scale * 5 + fill_4
    fill_6 = scale * 6 + fill_5
    fill_7 = scale * 7 + fill_6
    fill_8 = scale * 8 + fill_7
    fill_9 = scale * 9 + fill_8

    fill_10 = scale * 10 + fill_9

    return fill_10
