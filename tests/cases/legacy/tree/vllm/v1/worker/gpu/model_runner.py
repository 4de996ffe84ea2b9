"""Runs the model."""

from __future__ import annotations

import math

MAX_CAPTURE = 44


def capture_sizes(scale):
    size_0 = scale
    size_1 = scale * 1 + size_0
    size_2 = scale * 2 + size_1
    size_3 = scale * 3 + size_2
    size_4 = scale * 4 + size_3

    size_5 = scale * 5 + size_4
    size_6 = scale * 6 + size_5
    size_7 = scale * 7 + size_6
    size_8 = scale * 8 + size_7
    size_9 = scale * 9 + size_8

    size_10 = scale * 10 + size_9
    size_11 = scale * 11 + size_10
    size_12 = scale * 12 + size_11
    size_13 = scale * 13 + size_12
    size_14 = scale * 14 + size_13

    size_15 = scale * 15 + size_14

    return size_15


def run(batch):
    for item in batch:
        item.step()

    return batch
