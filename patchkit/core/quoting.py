"""Names as diffs write them: git's C quoting, tabs and time stamps, leading parts to strip."""

from __future__ import annotations

import re

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
    """The one name that `A B` behind `diff --git` stands for, where both are the same file.

    Unquoted names may hold spaces, so every split is tried; the halves must agree after stripping.
    None where none does, or more than one that give different names.
    """
    if raw.startswith(b'"'):
        first = _quoted(raw)
        if first is None or not first[1].startswith(b" "):
            return None
        second = first[1][1:]
        other = unquote(second) if second.startswith(b'"') else second
        return _agree(first[0], other, strip)
    if raw.endswith(b'"'):
        at = raw.find(b' "')
        return _agree(raw[:at], unquote(raw[at + 1 :]), strip) if at > 0 else None
    if len(raw) > _LONGEST:
        return None
    spaces = [at for at, byte in enumerate(raw) if byte == 0x20]
    names = {name for at in spaces if (name := _agree(raw[:at], raw[at + 1 :], strip)) is not None}
    return names.pop() if len(names) == 1 else None


def _agree(old: bytes, new: bytes | None, strip: int) -> bytes | None:
    if new is None:
        return None
    left, right = strip_parts(old, strip), strip_parts(new, strip)
    return left if left is not None and left == right else None


def shown(path: str) -> str:
    """A path for a person: what a terminal might act on, or cannot show, is escaped."""
    text = path.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)


def readable(raw: bytes, limit: int = 200) -> str:
    """Bytes of a diff's header line for a person, cut at `limit`."""
    text = shown(raw.rstrip(b"\r").decode("utf-8", "surrogateescape"))
    return text if len(text) <= limit else text[:limit] + "…"
