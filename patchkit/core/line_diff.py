"""Which lines two texts share: by the lines that are unique in both (patience diff), so that the time
grows with the texts and not with their square."""

from __future__ import annotations

import difflib
import itertools
from bisect import bisect_left
from collections import Counter

_SMALL = 40_000


def changed_ranges(old: list[bytes], new: list[bytes]) -> list[tuple[int, int, int, int]]:
    """The changes from `old` to `new`: `old[i1:i2]` became `new[j1:j2]`; ascending, never touching."""
    kept = _kept(old, new)
    changes: list[tuple[int, int, int, int]] = []
    i = j = 0
    for at, to in [*kept, (len(old), len(new))]:
        if (i, j) != (at, to):
            changes.append((i, at, j, to))
        i, j = at + 1, to + 1
    return changes


def _kept(old: list[bytes], new: list[bytes]) -> list[tuple[int, int]]:
    """The pairs of lines that stay, ascending in both."""
    kept: list[tuple[int, int]] = []
    pending = [(0, len(old), 0, len(new))]
    while pending:
        i1, i2, j1, j2 = pending.pop()
        while i1 < i2 and j1 < j2 and old[i1] == new[j1]:
            kept.append((i1, j1))
            i1, j1 = i1 + 1, j1 + 1
        while i1 < i2 and j1 < j2 and old[i2 - 1] == new[j2 - 1]:
            i2, j2 = i2 - 1, j2 - 1
            kept.append((i2, j2))
        if i1 == i2 or j1 == j2:
            continue
        anchors = _anchors(old, new, i1, i2, j1, j2)
        if anchors:
            kept += anchors
            edges = [(i1 - 1, j1 - 1), *anchors, (i2, j2)]
            pending += [(a + 1, c, b + 1, d) for (a, b), (c, d) in itertools.pairwise(edges)]
        elif (i2 - i1) * (j2 - j1) <= _SMALL:
            matcher = difflib.SequenceMatcher(None, old[i1:i2], new[j1:j2], autojunk=False)
            kept += [(i1 + a + n, j1 + b + n) for a, b, size in matcher.get_matching_blocks() for n in range(size)]
    return sorted(kept)


def _anchors(old: list[bytes], new: list[bytes], i1: int, i2: int, j1: int, j2: int) -> list[tuple[int, int]]:
    """The longest ascending run of lines that are unique in both ranges."""
    once_old, once_new = Counter(old[i1:i2]), Counter(new[j1:j2])
    where = {new[j]: j for j in range(j1, j2) if once_new[new[j]] == 1}
    pairs = [(i, where[old[i]]) for i in range(i1, i2) if once_old[old[i]] == 1 and old[i] in where]
    tops: list[int] = []
    last: list[int] = []
    before: list[int] = []
    for at, (_, j) in enumerate(pairs):
        row = bisect_left(tops, j)
        before.append(last[row - 1] if row else -1)
        tops[row : row + 1] = [j]
        last[row : row + 1] = [at]
    run: list[tuple[int, int]] = []
    at = last[-1] if last else -1
    while at != -1:
        run.append(pairs[at])
        at = before[at]
    return run[::-1]
