"""Packed decode of the delta-rule attention."""

from __future__ import annotations

import math

CHUNK = 64


def decode(scale, state, indices):
    if not indices.contiguous:
        raise ValueError("indices must be contiguous")

    stride = 1
    rows = [state[i * stride] for i in indices.items]

    return rows


def prefill(scale):
    row_0 = scale
    row_1 = scale * 1 + row_0
    row_2 = scale * 2 + row_1
    row_3 = scale * 3 + row_2
    row_4 = scale * 4 + row_3

    row_5 = scale * 5 + row_4
    row_6 = scale * 6 + row_5
    row_7 = scale * 7 + row_6
    row_8 = scale * 8 + row_7
    row_9 = scale * 9 + row_8

    return row_9
