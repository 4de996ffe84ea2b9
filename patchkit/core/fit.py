"""Where hunks fit, strictly: no fuzz, no guess.

A hunk fits where the file's lines are the hunk's old lines, byte for byte. The stated line number
decides; if the lines are elsewhere, they must be there exactly once. As in git, a hunk that starts
at line 1 is anchored to the file's beginning and one without trailing context to its end, unless
the whole diff was made without context (`-U0`): then the line number is the only anchor of a pure
insertion. (git, apply.c, apply_one_fragment; facts on wrong landings in ../shared/patching.md, 1-3.)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from patchkit.core.diffs import Hunk


@dataclass(frozen=True, slots=True, kw_only=True)
class Fit:
    """How one hunk fits: at `index` (0-based line; None where it does not), `offset` lines from
    where it says. `why` and `found` explain a misfit: the reason, and what stands at the stated place."""

    hunk: Hunk
    index: int | None
    offset: int = 0
    why: str = ""
    found: tuple[bytes, ...] = ()


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
    fits: list[Fit] = []
    floor, exact_so_far = 0, True
    for hunk in hunks:
        fit = _place_one(hunk, lines, floor, exact_so_far, context_free, same_file)
        fits.append(fit)
        if fit.index is not None:
            floor = fit.index + len(hunk.old)
            exact_so_far = exact_so_far and fit.offset == 0
    return fits


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


def _place_one(
    hunk: Hunk, lines: list[bytes], floor: int, exact_so_far: bool, context_free: bool, same_file: bool | None
) -> Fit:
    old = hunk.old
    stated = max(hunk.old_start - 1 if old else hunk.old_start, 0)
    if context_free and not old:
        vouched = same_file if same_file is not None else (stated > 0 or not lines)
        places = [stated] if vouched and exact_so_far and floor <= stated <= len(lines) else []
        why = "an insertion without context has only its line number, which nothing here confirms"
    else:
        places = _places(old, lines, floor, *_anchors(hunk, context_free))
        why = "the lines that it expects are not in the file"
    if stated in places and (exact_so_far or len(places) == 1):
        index = stated
    elif len(places) == 1:
        index = places[0]
    else:
        if places:
            numbers = ", ".join(str(place + 1) for place in places[:5])
            why = f"it fits in {len(places)} places (lines {numbers}) and its line number decides none"
        return Fit(hunk=hunk, index=None, why=why, found=tuple(lines[stated : stated + max(len(old), 1)]))
    if _cuts_a_line(hunk, index + len(old), lines):
        why = "it leaves a line without a line end in the middle of the file"
        return Fit(hunk=hunk, index=None, why=why, found=tuple(lines[stated : stated + max(len(old), 1)]))
    return Fit(hunk=hunk, index=index, offset=index - stated)


def _anchors(hunk: Hunk, context_free: bool) -> tuple[bool, bool]:
    if context_free:
        return False, False
    return hunk.old_start <= 1, hunk.lines[-1][0] != b" "


def _places(old: list[bytes], lines: list[bytes], floor: int, at_start: bool, at_end: bool) -> list[int]:
    size = len(old)
    last = len(lines) - size
    if at_start or at_end:
        candidates = [0] if at_start else [last]
        if at_start and at_end and last != 0:
            return []
        return [i for i in candidates if floor <= i <= last and lines[i : i + size] == old]
    if not old:
        return []
    first, found, i = old[0], [], floor
    while i <= last:
        try:
            i = lines.index(first, i, last + 1)
        except ValueError:
            break
        if lines[i : i + size] == old:
            found.append(i)
        i += 1
    return found


def _cuts_a_line(hunk: Hunk, end: int, lines: list[bytes]) -> bool:
    """Whether a line without a line end would stand before other lines: either the hunk's own
    last line before what follows, or the file's unterminated last line before an insertion."""
    new = hunk.new
    open_inside = any(not line.endswith(b"\n") for line in new[:-1])
    open_last = bool(new) and not new[-1].endswith(b"\n") and end < len(lines)
    start = end - len(hunk.old)
    before = start > 0 and bool(new) and not lines[start - 1].endswith(b"\n")
    return open_inside or open_last or before
