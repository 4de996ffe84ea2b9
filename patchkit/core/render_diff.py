"""Writes a change of files as a diff in git's form, which `git apply` and `core.diffs` read back.

Text becomes unified hunks with three lines of context; bytes with a NUL become a binary literal.
"""

from __future__ import annotations

import zlib
from base64 import b85encode
from typing import TYPE_CHECKING

from patchkit.core.fit import split_lines
from patchkit.core.line_diff import changed_ranges
from patchkit.core.sections import blob_id
from patchkit.core.tree import LINK, FileState

if TYPE_CHECKING:
    from collections.abc import Iterator

_PLAIN = frozenset(range(0x20, 0x7F)) - {ord('"'), ord("\\")}
_ESCAPES = {7: "a", 8: "b", 9: "t", 10: "n", 11: "v", 12: "f", 13: "r", 34: '"', 92: "\\"}
_CONTEXT = 3
_ZERO = "0" * 40


def render_diff(changed: dict[str, tuple[FileState | None, FileState | None]]) -> bytes:
    """The diff from the first to the second state of each path; paths in order, equal states left out."""
    return b"".join(
        part
        for path in sorted(changed, key=lambda p: p.encode("utf-8", "surrogateescape"))
        for part in _file(path, *changed[path])
    )


def _file(path: str, old: FileState | None, new: FileState | None) -> Iterator[bytes]:
    if old == new:
        return
    if old is not None and new is not None and old.kind != new.kind:
        yield from _file(path, old, None)
        yield from _file(path, None, new)
        return
    before, after = _mode(old), _mode(new)
    a, b = _name("a/" + path), _name("b/" + path)
    if before == after and old is not None and new is not None and old.data == new.data:
        return
    yield f"diff --git {a} {b}\n".encode()
    if old is None:
        yield f"new file mode {after}\n".encode()
    elif new is None:
        yield f"deleted file mode {before}\n".encode()
    elif before != after:
        yield f"old mode {before}\nnew mode {after}\n".encode()
    old_data = b"" if old is None else old.data
    new_data = b"" if new is None else new.data
    if old is not None and new is not None and old_data == new_data:
        return
    same_mode = f" {before}" if before == after else ""
    old_blob = _ZERO if old is None else blob_id(old_data)
    new_blob = _ZERO if new is None else blob_id(new_data)
    yield f"index {old_blob}..{new_blob}{same_mode}\n".encode()
    if b"\0" in old_data or b"\0" in new_data:
        yield b"GIT binary patch\n" + _literal(new_data) + _literal(old_data)
    elif old_data != new_data:
        yield f"--- {'/dev/null' if old is None else _tabbed(a)}\n".encode()
        yield f"+++ {'/dev/null' if new is None else _tabbed(b)}\n".encode()
        yield from _hunks(split_lines(old_data), split_lines(new_data))


def _mode(state: FileState | None) -> str:
    if state is None:
        return ""
    if state.kind == LINK:
        return "120000"
    return "100755" if state.mode & 0o100 else "100644"


def _name(path: str) -> str:
    raw = path.encode("utf-8", "surrogateescape")
    if all(byte in _PLAIN for byte in raw):
        return path
    quoted = (chr(b) if b in _PLAIN else f"\\{_ESCAPES[b]}" if b in _ESCAPES else f"\\{b:03o}" for b in raw)
    return f'"{"".join(quoted)}"'


def _tabbed(name: str) -> str:
    return name + "\t" if " " in name and not name.startswith('"') else name


def _hunks(old: list[bytes], new: list[bytes]) -> Iterator[bytes]:
    group: list[tuple[int, int, int, int]] = []
    for change in changed_ranges(old, new):
        if group and change[0] - group[-1][1] > 2 * _CONTEXT:
            yield from _hunk(group, old, new)
            group = []
        group.append(change)
    if group:
        yield from _hunk(group, old, new)


def _hunk(group: list[tuple[int, int, int, int]], old: list[bytes], new: list[bytes]) -> Iterator[bytes]:
    """One hunk of neighbouring changes, with context around them."""
    ahead = min(_CONTEXT, group[0][0])
    behind = min(_CONTEXT, len(old) - group[-1][1])
    first, last = group[0][0] - ahead, group[-1][1] + behind
    yield f"@@ -{_range(first, last)} +{_range(group[0][2] - ahead, group[-1][3] + behind)} @@\n".encode()
    at = first
    for i1, i2, j1, j2 in group:
        yield from _lines(b" ", old[at:i1])
        yield from _lines(b"-", old[i1:i2])
        yield from _lines(b"+", new[j1:j2])
        at = i2
    yield from _lines(b" ", old[at:last])


def _range(start: int, stop: int) -> str:
    length = stop - start
    first = start + 1 if length else start
    return f"{first}" if length == 1 else f"{first},{length}"


def _lines(mark: bytes, lines: list[bytes]) -> Iterator[bytes]:
    for line in lines:
        yield mark + line if line.endswith(b"\n") else mark + line + b"\n\\ No newline at end of file\n"


def _literal(data: bytes) -> bytes:
    packed = zlib.compress(data)
    out = [f"literal {len(data)}\n".encode()]
    for start in range(0, len(packed), 52):
        chunk = packed[start : start + 52]
        size = len(chunk)
        letter = chr(size + 64) if size <= 26 else chr(size - 26 + 96)
        out.append(letter.encode() + b85encode(chunk, pad=True) + b"\n")
    out.append(b"\n")
    return b"".join(out)
