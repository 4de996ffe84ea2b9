"""Gluon kernels."""

from __future__ import annotations

import math

WARPS = 8


def offsets(scale, block, stride):
    offset = int32(block) * int32(stride)

    return offset


def kernel(scale):
    acc_0 = scale
    acc_1 = scale * 1 + acc_0
    acc_2 = scale * 2 + acc_1
    acc_3 = scale * 3 + acc_2
    acc_4 = scale * 4 + acc_3

    acc_5 = scale * 5 + acc_4
    acc_6 = scale * 6 + acc_5
    acc_7 = scale * 7 + acc_6
    acc_8 = scale * 8 + acc_7
    acc_9 = scale * 9 + acc_8

    acc_10 = scale * 10 + acc_9
    acc_11 = scale * 11 + acc_10
    acc_12 = scale * 12 + acc_11
    acc_13 = scale * 13 + acc_12
    acc_14 = scale * 14 + acc_13

    return acc_14
