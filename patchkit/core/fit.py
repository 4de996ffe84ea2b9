"""Where hunks fit, strictly: no fuzz, no guess.

A hunk fits where the file's lines are the hunk's old lines, byte for byte. The stated line number
decides; if the lines are elsewhere, they must be there exactly once. As in git, a hunk that starts
at line 1 is anchored to the file's beginning and one without trailing context to its end. Where the
whole diff was made without context (`-U0`) nothing is anchored to the end, and the line number is the
only anchor of a pure insertion. (git, apply.c, apply_one_fragment.)
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from patchkit.core.hunks import Hunk

_SHOWN = 5
_BUDGET = 20_000_000
_ELSEWHERE = "the lines that it expects are not in the file"
_UNANCHORED = "an insertion without context has only its line number, which nothing here confirms"
_NOT_EMPTY = "it fills an empty file, and this one is not empty"
_COSTLY = "the lines that it expects occur in too many places to try them all"
_OPEN_LINE = "it leaves a line without a line end in the middle of the file"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fit:
    """How one hunk fits: at `index` (0-based line; None where it does not), `offset` lines from
    where it says. `why` and `found` explain a misfit: the reason, and what stands at the stated place."""

    hunk: Hunk
    index: int | None
    offset: int = 0
    why: str = ""
    found: tuple[bytes, ...] = ()

    @property
    def unproven(self) -> bool:
        """Whether the misfit proves nothing: the hunk was not tried, as nothing vouches for its place."""
        return self.why in (_UNANCHORED, _COSTLY)


def split_lines(data: bytes) -> list[bytes]:
    """Lines with their ends; only a line feed ends a line. A missing final newline stays missing."""
    lines = data.split(b"\n")
    last = lines.pop()
    out = [line + b"\n" for line in lines]
    if last:
        out.append(last)
    return out


def place(
    hunks: tuple[Hunk, ...], lines: list[bytes], *, context_free: bool = False, same_file: bool | None = None
) -> list[Fit]:
    """Find each hunk's place in `lines`.

    `context_free` says that the diff was made with -U0; `same_file` whether the file is byte for
    byte the one that the diff was made from (None: unknown), which then vouches for line numbers.
    """
    placer = _Placer(hunks, lines, context_free, same_file)
    return [placer.fit(hunk) for hunk in hunks]


def merge(fits: list[Fit], lines: list[bytes]) -> bytes:
    """The content after all of `fits`, each of which has a place."""
    out: list[bytes] = []
    at = 0
    for fit in fits:
        assert fit.index is not None
        out += lines[at : fit.index]
        out += fit.hunk.new
        at = fit.index + len(fit.hunk.old)
    out += lines[at:]
    return b"".join(out)


class _Placer:
    """Finds the places of one section's hunks, in order. The search is by each hunk's rarest line, and
    bounded: a file and a diff made to be slow are refused, not searched for hours."""

    def __init__(self, hunks: tuple[Hunk, ...], lines: list[bytes], context_free: bool, same_file: bool | None) -> None:
        self.hunks, self.lines = hunks, lines
        self.context_free, self.same_file = context_free, same_file
        self.floor, self.exact_so_far = 0, True
        self.budget = _BUDGET
        self.index: dict[bytes, list[int]] | None = None

    def fit(self, hunk: Hunk) -> Fit:
        old = hunk.old
        stated = max(hunk.old_start - 1 if old else hunk.old_start, 0)
        index, why = self.choose(hunk, old, stated)
        if index is not None and _cuts_a_line(hunk, index, len(old), self.lines):
            index, why = None, _OPEN_LINE
        if index is None:
            found = tuple(self.lines[stated : stated + max(len(old), 1)])
            return Fit(hunk=hunk, index=None, why=why, found=found)
        self.floor = index + len(old)
        self.exact_so_far = self.exact_so_far and index == stated
        return Fit(hunk=hunk, index=index, offset=index - stated)

    def choose(self, hunk: Hunk, old: list[bytes], stated: int) -> tuple[int | None, str]:
        """The index where the hunk goes, or None and why."""
        if self.context_free and not old:
            # at line 0 alone it may mean to fill an empty file; with other hunks it does not
            unsaid = stated > 0 or not self.lines or len(self.hunks) > 1
            vouched = unsaid if self.same_file is None else self.same_file
            fits = vouched and self.exact_so_far and self.floor <= stated <= len(self.lines)
            if fits:
                return stated, ""
            return None, _UNANCHORED if stated or self.same_file is False else _NOT_EMPTY
        last = len(self.lines) - len(old)
        anchors = self.anchors(hunk, last)
        if self.exact_so_far and (anchors is None or stated in anchors) and self.stands(old, stated):
            return stated, ""
        places = self.search(old) if anchors is None else [i for i in anchors if self.stands(old, i)]
        if self.budget < 0:
            return None, _COSTLY
        if len(places) == 1:
            return places[0], ""
        if not places:
            return None, _ELSEWHERE
        numbers = ", ".join(str(i + 1) for i in places[:_SHOWN])
        if len(places) > _SHOWN:
            return None, f"it fits in more than {_SHOWN} places (lines {numbers}, …) and its line number decides none"
        return None, f"it fits in {len(places)} places (lines {numbers}) and its line number decides none"

    def anchors(self, hunk: Hunk, last: int) -> tuple[int, ...] | None:
        """The indices that the hunk is tied to, the file's beginning or end; None where it is not."""
        at_start = hunk.old_start <= 1
        at_end = not self.context_free and not hunk.marks.endswith(b" ")
        if at_start and at_end:
            return (0,) if last == 0 else ()
        if at_start:
            return (0,)
        return (last,) if at_end else None

    def stands(self, old: list[bytes], i: int) -> bool:
        """Whether `old` stands at index `i`, behind the hunks before."""
        return self.floor <= i <= len(self.lines) - len(old) and self.lines[i : i + len(old)] == old

    def search(self, old: list[bytes]) -> list[int]:
        """Where `old` stands, searched by its rarest line; no more than `_SHOWN` + 1 places."""
        if not old:
            return []
        if self.index is None:
            self.index = {text: [] for hunk in self.hunks for text in hunk.old}
            for i, line in enumerate(self.lines):
                if line in self.index:
                    self.index[line].append(i)
        counts = [len(self.index[text]) for text in old]
        rarest = min(range(len(old)), key=counts.__getitem__)
        rows = self.index[old[rarest]]
        found: list[int] = []
        for at in range(bisect_left(rows, self.floor + rarest), len(rows)):
            i = rows[at] - rarest
            self.budget -= 1
            if i + len(old) > len(self.lines) or self.budget < 0:
                break
            if self.lines[i] != old[0] or self.lines[i + len(old) - 1] != old[-1]:
                continue
            self.budget -= len(old)
            if self.lines[i : i + len(old)] == old:
                found.append(i)
                if len(found) > _SHOWN:
                    break
        return found


def _cuts_a_line(hunk: Hunk, start: int, size: int, lines: list[bytes]) -> bool:
    """Whether a line without a line end would stand before other lines: either the hunk's own
    last line before what follows, or the file's unterminated last line before an insertion."""
    new = hunk.new
    open_inside = any(not line.endswith(b"\n") for line in new[:-1])
    open_last = bool(new) and not new[-1].endswith(b"\n") and start + size < len(lines)
    before = start > 0 and bool(new) and not lines[start - 1].endswith(b"\n")
    return open_inside or open_last or before
