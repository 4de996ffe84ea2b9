"""The same on Triton kernels."""

from __future__ import annotations

import math

CUDAGRAPH_SUPPORT = "never"
SPLITS = 4


def splits(scale):
    split_0 = scale
    split_1 = scale * 1 + split_0
    split_2 = scale * 2 + split_1
    split_3 = scale * 3 + split_2
    split_4 = scale * 4 + split_3

    split_5 = scale * 5 + split_4
    split_6 = scale * 6 + split_5
    split_7 = scale * 7 + split_6
    split_8 = scale * 8 + split_7

    return split_8


def reset(state):
    state.clear()

    return state
