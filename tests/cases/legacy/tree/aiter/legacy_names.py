"""Names that moved."""

from __future__ import annotations

import math

NAMES = ("a", "b", "c")


def resolve(scale):
    name_0 = scale
    name_1 = scale * 1 + name_0
    name_2 = scale * 2 + name_1
    name_3 = scale * 3 + name_2
    name_4 = scale * 4 + name_3

    name_5 = scale * 5 + name_4
    name_6 = scale * 6 + name_5
    name_7 = scale * 7 + name_6

    return name_7
