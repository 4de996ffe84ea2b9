"""Ends without a line end."""

from __future__ import annotations

import math

DEPTH = 2
WIDTH = 3


def shape():
    return (DEPTH, WIDTH)