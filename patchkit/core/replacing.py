"""An exact replacement of text: what of it is still to do in a file, and what is done already."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


@dataclass(frozen=True, slots=True, kw_only=True)
class Counted:
    """`places` are where the text stands and is to be replaced; `done` counts the replacement;
    `overlap` says that occurrences overlap, so that no count means anything."""

    places: tuple[int, ...]
    done: int
    overlap: bool = False

    @property
    def todo(self) -> int:
        """How often the text is still to be replaced."""
        return len(self.places)


def count_both(data: bytes, find: bytes, put: bytes) -> Counted:
    """Where `find` stands in `data`, and how often `put` does.

    A replacement may contain the text it replaces, or be contained in it: of two occurrences, one
    inside the other, only the outer one counts. Occurrences that overlap otherwise tell nothing.
    """
    if not find or find == put:
        return Counted(places=(), done=data.count(find) if find else 0)
    todo, done = list(_occurrences(data, find)), list(_occurrences(data, put)) if put else []
    if put and find in put:
        todo = _outside(todo, len(find), done, len(put))
    elif put and put in find:
        done = _outside(done, len(put), todo, len(find))
    spans = sorted([(i, i + len(find)) for i in todo] + [(i, i + len(put)) for i in done])
    overlap = any(second[0] < first[1] for first, second in itertools.pairwise(spans))
    return Counted(places=tuple(todo), done=len(done), overlap=overlap)


def replaced(data: bytes, counted: Counted, find: bytes, put: bytes) -> bytes:
    """`data` with `put` in every place where `find` is to be replaced."""
    parts, at = [], 0
    for place in counted.places:
        parts.append(data[at:place])
        at = place + len(find)
    parts.append(data[at:])
    return put.join(parts)


def _occurrences(data: bytes, text: bytes) -> Iterator[int]:
    """Every index of `text`, also of occurrences that overlap."""
    at = data.find(text)
    while at != -1:
        yield at
        at = data.find(text, at + 1)


def _outside(inner: list[int], inner_size: int, outer: list[int], outer_size: int) -> list[int]:
    """The occurrences of `inner` that lie inside no occurrence of `outer`; both lists ascend."""
    kept, j = [], 0
    for i in inner:
        while j < len(outer) and outer[j] + outer_size < i + inner_size:
            j += 1
        if j == len(outer) or i < outer[j]:
            kept.append(i)
    return kept
