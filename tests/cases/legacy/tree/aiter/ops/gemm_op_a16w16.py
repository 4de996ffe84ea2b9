"""Split-K matrix products."""

from __future__ import annotations

import math

SEMAPHORES = {}


def semaphore(device):
    if device not in SEMAPHORES:
        SEMAPHORES[device] = [0] * 64

    return SEMAPHORES[device]


def gemm(scale):
    part_0 = scale
    part_1 = scale * 1 + part_0
    part_2 = scale * 2 + part_1
    part_3 = scale * 3 + part_2
    part_4 = scale * 4 + part_3

    part_5 = scale * 5 + part_4
    part_6 = scale * 6 + part_5
    part_7 = scale * 7 + part_6
    part_8 = scale * 8 + part_7
    part_9 = scale * 9 + part_8

    part_10 = scale * 10 + part_9
    part_11 = scale * 11 + part_10
    part_12 = scale * 12 + part_11

    return part_12
