"""Names as diffs write them: git's C quoting, tabs and time stamps, leading parts to strip."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_SIMPLE = {
    ord("a"): 7,
    ord("b"): 8,
    ord("t"): 9,
    ord("n"): 10,
    ord("v"): 11,
    ord("f"): 12,
    ord("r"): 13,
    ord('"'): ord('"'),
    ord("\\"): ord("\\"),
}
_LONGEST = 2 * 4096 + 64  # two paths as long as any system takes
_STAMP = re.compile(rb" \d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:\.\d+)?(?: [+-]\d{4})?$")


def unquote(raw: bytes) -> bytes | None:
    """The name inside a C-quoted string that `raw` is; None where it is none (git, quote.c)."""
    parsed = _quoted(raw)
    return None if parsed is None or parsed[1].strip() else parsed[0]


def _quoted(raw: bytes) -> tuple[bytes, bytes] | None:
    """The unquoted name at the head of `raw`, and what follows the closing quote."""
    out = bytearray()
    i = 1
    while i < len(raw):
        byte = raw[i]
        if byte == ord('"'):
            return bytes(out), raw[i + 1 :]
        if byte != ord("\\"):
            out.append(byte)
            i += 1
            continue
        following = raw[i + 1 : i + 2]
        octal = re.match(rb"[0-3][0-7]{2}", raw[i + 1 : i + 4])
        if octal:
            out.append(int(octal.group(), 8))
            i += 4
        elif following and following[0] in _SIMPLE:
            out.append(_SIMPLE[following[0]])
            i += 2
        else:
            return None
    return None


def cut_name(raw: bytes) -> bytes:
    """The name on a `---` or `+++` line, without the tab or time stamp behind it."""
    if raw.startswith(b'"'):
        end = raw.rfind(b'"')
        return raw[: end + 1] if end else raw
    if b"\t" in raw:
        return raw.split(b"\t", 1)[0]
    return _STAMP.sub(b"", raw)


def strip_parts(name: bytes, strip: int) -> bytes | None:
    """`name` without its first `strip` parts (runs of slashes count once); None if it has fewer.

    An absolute name loses its root as a first part, as in GNU patch; with strip 0 it stays
    absolute, and is refused later.
    """
    for _ in range(strip):
        cut = re.match(rb"[^/]*/+", name)
        if cut is None:
            return None
        name = name[cut.end() :]
    return re.sub(rb"//+", b"/", name) or None


def split_git_header(raw: bytes, strip: int) -> bytes | None:
    """The one name that `A B` behind `diff --git` stands for, where both are the same file. None where
    no split of it gives one name twice, or several splits give different names."""
    names = {old for old, new in _splits(raw, strip) if old == new}
    return names.pop() if len(names) == 1 else None


def split_git_pair(raw: bytes, strip: int, old: bytes, new: bytes) -> tuple[bytes, bytes] | None:
    """The two names of `A B` behind `diff --git` after stripping, where they are the rename or copy of
    `old` to `new`. Those are written without the prefixes (a/, b/) that `strip` may count."""
    pairs = {(a, b) for a, b in _splits(raw, strip) if _ends_with(old, a) and _ends_with(new, b)}
    return pairs.pop() if len(pairs) == 1 else None


def _ends_with(path: bytes, end: bytes) -> bool:
    return path == end or path.endswith(b"/" + end)


def _splits(raw: bytes, strip: int) -> Iterator[tuple[bytes, bytes]]:
    """Every way to read `A B` as two names, stripped. Unquoted names may hold spaces."""
    if raw.startswith(b'"'):
        first = _quoted(raw)
        halves = [] if first is None or not first[1].startswith(b" ") else [(first[0], first[1][1:])]
    elif raw.endswith(b'"'):
        at = raw.find(b' "')
        halves = [(raw[:at], raw[at + 1 :])] if at > 0 else []
    else:
        spaces = [at for at, byte in enumerate(raw) if byte == 0x20] if len(raw) <= _LONGEST else []
        halves = [(raw[:at], raw[at + 1 :]) for at in spaces]
    for left, right in halves:
        second = unquote(right) if right.startswith(b'"') else right
        old, new = strip_parts(left, strip), None if second is None else strip_parts(second, strip)
        if old is not None and new is not None:
            yield old, new


def shown(path: str) -> str:
    """A path for a person: what a terminal might act on, or cannot show, is escaped."""
    text = path.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)


def readable(raw: bytes, limit: int = 200) -> str:
    """Bytes of a diff's header line for a person, cut at `limit`."""
    text = shown(raw.rstrip(b"\r").decode("utf-8", "surrogateescape"))
    return text if len(text) <= limit else text[:limit] + "…"
