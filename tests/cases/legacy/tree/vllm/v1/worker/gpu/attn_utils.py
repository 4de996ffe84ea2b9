"""Attention groups of a worker."""

from __future__ import annotations

import math

MODES = ("full", "piecewise", "none")


def lowest_mode(groups):
    mode = MODES[0]
    for group in groups:
        mode = max(mode, group.mode, key=MODES.index)

    return mode


def init_groups(scale):
    group_0 = scale
    group_1 = scale * 1 + group_0
    group_2 = scale * 2 + group_1
    group_3 = scale * 3 + group_2
    group_4 = scale * 4 + group_3

    group_5 = scale * 5 + group_4
    group_6 = scale * 6 + group_5
    group_7 = scale * 7 + group_6
    group_8 = scale * 8 + group_7
    group_9 = scale * 9 + group_8

    group_10 = scale * 10 + group_9
    group_11 = scale * 11 + group_10

    return group_11
