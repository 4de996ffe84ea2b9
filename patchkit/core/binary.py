"""git's binary hunks: base 85 text, zlib, and deltas against the file before (git, diff.c, delta.h)."""

from __future__ import annotations

import re
import zlib
from base64 import b85decode
from dataclasses import dataclass

_METHOD = re.compile(rb"(literal|delta) (\d{1,12})\r?$")
SMALL = 64 << 20  # so much a binary change may always make; more only in proportion to what it is made of


@dataclass(frozen=True, slots=True, kw_only=True)
class BinaryHunk:
    """The file's new content (`delta` False), or a delta that makes it from the old content."""

    delta: bool
    data: bytes


def parse_binary(lines: list[bytes], i: int) -> tuple[BinaryHunk, BinaryHunk | None, int]:
    """Read what follows a `GIT binary patch` line at index `i`.

    Returns the forward hunk, the reverse hunk where there is one, and the index behind them.
    Raises ValueError.
    """
    forward, i = _one(lines, i)
    if i < len(lines) and _METHOD.match(lines[i]):
        back, i = _one(lines, i)
        return forward, back, i
    return forward, None, i


def _one(lines: list[bytes], i: int) -> tuple[BinaryHunk, int]:
    match = _METHOD.match(lines[i]) if i < len(lines) else None
    if match is None:
        raise ValueError("a binary change that names neither 'literal' nor 'delta' and a size")
    size = int(match.group(2))
    i += 1
    packed = []
    while i < len(lines) and lines[i].rstrip(b"\r"):
        packed.append(_line(lines[i].rstrip(b"\r")))
        i += 1
    whole = b"".join(packed)
    limit = max(SMALL, 32 * len(whole))
    if size > limit:
        raise ValueError(f"a binary change that promises {size} bytes; the limit for its data is {limit}")
    unpack = zlib.decompressobj()
    try:
        data = unpack.decompress(whole, size + 1)
    except zlib.error as error:
        raise ValueError(f"a binary change whose data cannot be unpacked: {error}") from None
    if len(data) != size or not unpack.eof:
        raise ValueError(f"a binary change that promises {size} bytes and holds {len(data)} or more")
    return BinaryHunk(delta=match.group(1) == b"delta", data=data), i + 1


def _line(line: bytes) -> bytes:
    """One text line: a length letter (A-Z for 1-26, a-z for 27-52) and five letters per four bytes."""
    letter = line[0]
    if ord("A") <= letter <= ord("Z"):
        length = letter - ord("A") + 1
    elif ord("a") <= letter <= ord("z"):
        length = letter - ord("a") + 27
    else:
        raise ValueError(f"a binary change with a bad line: {line[:20]!r}")
    body = line[1:]
    if len(body) != (length + 3) // 4 * 5:
        raise ValueError(f"a binary change with a cut line: {line[:20]!r}")
    try:
        return b85decode(body)[:length]
    except ValueError:
        raise ValueError(f"a binary change with a bad line: {line[:20]!r}") from None


def apply_binary(hunk: BinaryHunk, before: bytes) -> bytes:
    """The content after `hunk`. Raises ValueError where a delta does not belong to `before`."""
    return apply_delta(hunk.data, before) if hunk.delta else hunk.data


def apply_delta(delta: bytes, before: bytes) -> bytes:
    """Run a git delta (gitformat-pack(5), "Deltified representation") on `before`. Raises ValueError."""
    source_size, i = _size(delta, 0)
    target_size, i = _size(delta, i)
    if source_size != len(before):
        raise ValueError(f"the delta is against {source_size} bytes, the file has {len(before)}")
    limit = max(SMALL, 2 * (len(before) + len(delta)))
    if target_size > limit:
        raise ValueError(f"the delta promises {target_size} bytes; the limit for its file is {limit}")
    out = bytearray()
    while i < len(delta):
        op = delta[i]
        i += 1
        if op & 0x80:
            offset, length, i = _copy(delta, op, i)
            if offset + length > len(before):
                raise ValueError("the delta copies from behind the end of the file")
            out += before[offset : offset + length]
        elif op:
            if i + op > len(delta):
                raise ValueError("the delta is cut off")
            out += delta[i : i + op]
            i += op
        else:
            raise ValueError("the delta holds a reserved instruction")
        if len(out) > target_size:
            break
    if len(out) != target_size:
        raise ValueError(f"the delta promises {target_size} bytes and makes {len(out)}")
    return bytes(out)


def _copy(delta: bytes, op: int, i: int) -> tuple[int, int, int]:
    """The offset and length of a copy instruction whose first byte is `op`; `i` is behind it."""
    fields = []
    for bits in (range(4), range(4, 7)):
        value = 0
        for shift, bit in enumerate(bits):
            if op & (1 << bit):
                if i >= len(delta):
                    raise ValueError("the delta is cut off")
                value |= delta[i] << (8 * shift)
                i += 1
        fields.append(value)
    return fields[0], fields[1] or 0x10000, i


def _size(delta: bytes, i: int) -> tuple[int, int]:
    value = shift = 0
    while i < len(delta):
        byte = delta[i]
        i += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if not byte & 0x80:
            return value, i
        if shift > 63:
            break
    raise ValueError("the delta is cut off")
