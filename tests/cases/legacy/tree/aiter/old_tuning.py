"""Tables that nothing reads any more."""

from __future__ import annotations

import math

TABLE = {16: 4, 32: 8}


def lookup(heads):
    return TABLE[heads]
