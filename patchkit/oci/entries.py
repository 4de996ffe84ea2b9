"""What stands in a layer: one entry a path, written as a tar header that is the same everywhere.

The headers are made here rather than by `tarfile`, whose bytes differ from one Python to the next.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

BLOCK = 512
WHITEOUT = ".wh."
OPAQUE = ".wh..wh..opq"
_NAME_BYTES, _PREFIX_BYTES = 100, 155
_OCTAL_7, _OCTAL_11 = 8**7 - 1, 8**11 - 1
XATTR = "SCHILY.xattr."


class Kind(Enum):
    """What an entry is; the values are tar's type flags."""

    FILE = b"0"
    HARD_LINK = b"1"
    LINK = b"2"
    CHARACTER_DEVICE = b"3"
    BLOCK_DEVICE = b"4"
    DIRECTORY = b"5"
    FIFO = b"6"


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One path of a root file system, relative to it, without a slash at either end.

    `target` is where a link leads (a symbolic one: as it is written; a hard one: a path of this kind). `data` is a
    file's content where it is known, `size` its length, `offset` where it begins in the layer's archive.
    `split` says that it was a hard link to `target`, whose content and mode it shows.
    """

    path: str
    kind: Kind = Kind.FILE
    mode: int = 0o644
    uid: int = 0
    gid: int = 0
    mtime: int = 0
    xattrs: tuple[tuple[str, bytes], ...] = ()
    target: str = ""
    size: int = 0
    offset: int = 0
    data: bytes | None = field(default=None, repr=False)
    split: bool = False


def check_path(path: str) -> str:
    """Return `path` if it can stand in a layer. Raises ValueError."""
    parts = path.split("/")
    if not path or "\0" in path or any(part in ("", ".", "..") for part in parts):
        raise ValueError(f"{path!r}: expected a path relative to the root, without empty parts, '.' and '..'")
    if any(part.startswith(WHITEOUT) for part in parts):
        raise ValueError(f"{path!r}: a name that begins with {WHITEOUT} would delete what it names")
    return path


def parents_of(path: str) -> Iterator[str]:
    """Yield the directories above `path`, the uppermost first."""
    at = path.find("/")
    while at >= 0:
        yield path[:at]
        at = path.find("/", at + 1)


def archived(entry: Entry) -> bytes:
    """Return an entry with its content, as an archive has it."""
    data = (entry.data or b"") if entry.kind is Kind.FILE else b""
    return header_of(entry, len(data)) + _padded(data)


def header_of(entry: Entry, size: int = 0) -> bytes:
    """Return the header of an entry with `size` bytes of content, before it an extended one where it takes one."""
    name = _bytes(entry.path) + (b"/" if entry.kind is Kind.DIRECTORY else b"")
    target = _bytes(entry.target) if entry.kind in (Kind.LINK, Kind.HARD_LINK) else b""
    records = [(XATTR + key, value) for key, value in entry.xattrs]
    prefix, short = _split(name)
    if short is None:
        records.append(("path", name))
        prefix, short = b"", name[:_NAME_BYTES]
    if len(target) > _NAME_BYTES or not target.isascii():
        records.append(("linkpath", target))
    numbers = {}
    for key, value, most in (
        ("uid", entry.uid, _OCTAL_7),
        ("gid", entry.gid, _OCTAL_7),
        ("mtime", entry.mtime, _OCTAL_11),
        ("size", size, _OCTAL_11),
    ):
        numbers[key] = value if 0 <= value <= most else 0
        if numbers[key] != value:
            records.append((key, str(value).encode()))
    header = _header(short, prefix, entry.kind.value, entry.mode, **numbers, target=target[:_NAME_BYTES])
    if not records:
        return header
    body = b"".join(_record(key, value) for key, value in sorted(records))
    extended = _header(b"pax/" + short[:90], b"", b"x", 0o644, uid=0, gid=0, mtime=0, size=len(body), target=b"")
    return extended + _padded(body) + header


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def _split(name: bytes) -> tuple[bytes, bytes | None]:
    """Return prefix and name of a plain header; None for a name that does not fit in one."""
    if not name.isascii():
        return b"", None
    if len(name) <= _NAME_BYTES:
        return b"", name
    at = name.rfind(b"/", 0, min(_PREFIX_BYTES, len(name) - 2) + 1)
    if at <= 0 or len(name) - at - 1 > _NAME_BYTES:
        return b"", None
    return name[:at], name[at + 1 :]


def _record(key: str, value: bytes) -> bytes:
    """Return a record of an extended header: its own length, in digits, is a part of it."""
    rest = b" " + key.encode() + b"=" + value + b"\n"
    length = len(rest)
    while len(str(length)) + len(rest) != length:
        length = len(str(length)) + len(rest)
    return str(length).encode() + rest


def _header(
    name: bytes, prefix: bytes, flag: bytes, mode: int, *, uid: int, gid: int, mtime: int, size: int, target: bytes
) -> bytes:
    fields = b"".join(
        (
            name.ljust(100, b"\0"),
            b"%07o\0" % (mode & 0o7777),
            b"%07o\0" % uid,
            b"%07o\0" % gid,
            b"%011o\0" % size,
            b"%011o\0" % mtime,
            b" " * 8,
            flag,
            target.ljust(100, b"\0"),
            b"ustar\x0000",
            b"\0" * 64,  # no names of user and group
            b"%07o\0" % 0 * 2,
            prefix.ljust(155, b"\0"),
        )
    ).ljust(BLOCK, b"\0")
    return fields[:148] + b"%06o\0 " % sum(fields) + fields[156:]


def _padded(data: bytes) -> bytes:
    return data + b"\0" * (-len(data) % BLOCK)
