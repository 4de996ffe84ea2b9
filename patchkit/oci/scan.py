"""Layers read: one pass over the stream of a layer gives what stands in it, and the content of the files asked for."""

from __future__ import annotations

import hashlib
import tarfile
import zlib
from dataclasses import dataclass, replace
from itertools import chain
from typing import IO, TYPE_CHECKING, Any, cast

from patchkit.oci.documents import MalformedError
from patchkit.oci.entries import BLOCK, OPAQUE, WHITEOUT, XATTR, Entry, Kind, parents_of

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Iterator, Mapping

_CHUNK = 1 << 18
_GZIP, _ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"
_KINDS = {kind.value: kind for kind in Kind} | {tarfile.AREGTYPE: Kind.FILE, tarfile.CONTTYPE: Kind.FILE}
_FILE_LIMIT = 256 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerIndex:
    """What one layer says: its entries by path, the paths it deletes, the directories it empties first.

    `implied` are directories that have no entry but something in them.
    `digest` and `diff_id` are those of the bytes that were read; `packed` says whether the archive was compressed.
    """

    digest: str
    diff_id: str
    size: int
    packed: bool
    entries: Mapping[str, Entry]
    deleted: frozenset[str] = frozenset()
    opaque: frozenset[str] = frozenset()
    implied: frozenset[str] = frozenset()


def scan(chunks: Iterable[bytes], wanted: Container[str] = ()) -> LayerIndex:
    """Read a layer to its end: its content can be trusted only once its digest is known.

    The entries of the files in `wanted` carry their content. A hard link shows its target's, if that is wanted as well.
    Raises MalformedError for what is no layer, for zstd, and for a wanted file over 256 MiB.
    """
    outer, inner = _Hashed(chunks), None
    inner = _Hashed(_unpacked(outer))
    reader = _Reader(inner)
    found = _Found(wanted)
    try:
        with tarfile.open(fileobj=cast("IO[bytes]", reader), mode="r|", bufsize=_CHUNK) as archive:
            while (member := archive.next()) is not None:
                cast("Any", archive).members = []  # or each of them is kept
                found.take(archive, member)
    except (tarfile.TarError, EOFError, zlib.error, ValueError, OverflowError) as error:
        if isinstance(error, MalformedError):
            raise
        raise MalformedError(f"expected a layer's archive, found one that cannot be read: {error}") from None
    for _ in inner:
        pass
    for _ in outer:
        pass
    if found.end > inner.size:
        raise MalformedError(f"expected {found.end} bytes of an archive, found {inner.size}: it ends early")
    return LayerIndex(
        digest=outer.digest,
        diff_id=inner.digest,
        size=outer.size,
        packed=outer.begins_with == _GZIP,
        entries=found.entries,
        deleted=frozenset(found.deleted),
        opaque=frozenset(found.opaque),
        implied=frozenset(found.above - found.entries.keys()),
    )


class _Found:
    """The entries of a layer as they come."""

    def __init__(self, wanted: Container[str]) -> None:
        self.entries: dict[str, Entry] = {}
        self.deleted: set[str] = set()
        self.opaque: set[str] = set()
        self.above: set[str] = set()
        self.end = 0  # where the last file's content ends
        self._wanted = wanted

    def take(self, archive: tarfile.TarFile, member: tarfile.TarInfo) -> None:
        path = _clean(member.name)
        folder, _, name = path.rpartition("/")
        if folder not in self.above:
            self.above.update(parents_of(path))
        if name == OPAQUE:
            self.opaque.add(folder)
        elif name.startswith(WHITEOUT):
            if not name.startswith(WHITEOUT * 2):  # else it is one storage driver's own
                self.deleted.add(f"{folder}/{name[len(WHITEOUT) :]}" if folder else name[len(WHITEOUT) :])
        elif path:
            self._add(archive, member, path)

    def _add(self, archive: tarfile.TarFile, member: tarfile.TarInfo, path: str) -> None:
        kind = _KINDS.get(member.type)
        if kind is None:
            if not member.isreg():
                raise MalformedError(f"{path}: expected a file, link, directory or device, found type {member.type!r}")
            kind = Kind.FILE  # a sparse one
        entry = Entry(
            path=path,
            kind=kind,
            mode=member.mode & 0o7777,
            uid=member.uid,
            gid=member.gid,
            mtime=int(member.mtime),
            xattrs=tuple(
                (name[len(XATTR) :], value.encode("utf-8", "surrogateescape"))
                for name, value in sorted(member.pax_headers.items())
                if name.startswith(XATTR)
            ),
            target=_clean(member.linkname) if kind is Kind.HARD_LINK else member.linkname,
            size=member.size if kind is Kind.FILE else 0,
            offset=member.offset_data if kind is Kind.FILE else 0,
        )
        if kind is Kind.FILE and not member.issparse():
            self.end = entry.offset + entry.size
        if path in self._wanted and kind is Kind.FILE:
            entry = replace(entry, data=_content(archive, member, path))
        if kind is Kind.HARD_LINK:
            target = self.entries.get(entry.target)
            if target is not None and target.kind is Kind.FILE:
                entry = replace(target, path=path, target=target.target or target.path, split=True)
        old = self.entries.get(path)
        if old is not None and old.kind is Kind.DIRECTORY and kind is not Kind.DIRECTORY:
            for below in [other for other in self.entries if other.startswith(f"{path}/")]:
                del self.entries[below]
        self.entries[path] = entry


def _content(archive: tarfile.TarFile, member: tarfile.TarInfo, path: str) -> bytes:
    if member.size > _FILE_LIMIT:
        raise MalformedError(f"{path}: expected a file of at most {_FILE_LIMIT} bytes, found {member.size}")
    stream = archive.extractfile(member)
    data = stream.read() if stream else b""
    if len(data) != member.size:
        raise MalformedError(f"{path}: expected {member.size} bytes, found {len(data)}: the archive ends early")
    return data


def _clean(name: str) -> str:
    """Return a name as a path relative to the root. Raises MalformedError for one that leaves it."""
    parts = [part for part in name.split("/") if part not in ("", ".")]
    if ".." in parts:
        raise MalformedError(f"{name!r}: expected a path inside the root, found '..'")
    return "/".join(parts)


class _Hashed:
    """Chunks on their way, hashed and counted."""

    def __init__(self, chunks: Iterable[bytes]) -> None:
        self.size, self.begins_with = 0, b""
        self._chunks = iter(chunks)
        self._hash = hashlib.sha256()

    @property
    def digest(self) -> str:
        """The digest of all that went by."""
        return "sha256:" + self._hash.hexdigest()

    def __iter__(self) -> Iterator[bytes]:
        for chunk in self._chunks:
            if len(self.begins_with) < 2:
                self.begins_with = (self.begins_with + chunk)[:2]
            self._hash.update(chunk)
            self.size += len(chunk)
            yield chunk


def _unpacked(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the archive: as it is, or out of gzip."""
    source = iter(chunks)
    head = b""
    while len(head) < 4 and (more := next(source, b"")):
        head += more
    if head.startswith(_ZSTD):
        raise MalformedError("expected a layer as tar or tar+gzip, found zstd, which cannot be read here")
    if head.startswith(_GZIP):
        yield from _inflated(head, source)
        return
    while head:
        yield head
        head = next(source, b"")


def _inflated(head: bytes, source: Iterator[bytes]) -> Iterator[bytes]:
    """Yield what gzip holds, any number of members of it, in pieces of bounded size."""
    decoder = zlib.decompressobj(31)
    while head:
        try:
            data = decoder.decompress(head, _CHUNK)
        except zlib.error as error:
            raise MalformedError(f"expected gzip, found bytes that are none: {error}") from None
        if data:
            yield data
        if not decoder.eof:
            head = decoder.unconsumed_tail or next(source, b"")
            continue
        head = decoder.unused_data.lstrip(b"\0")  # padding
        while not head and (more := next(source, b"")):
            head = more.lstrip(b"\0")
        if head:
            decoder = zlib.decompressobj(31)
    if not decoder.eof:
        raise MalformedError("expected gzip, found one that ends early")


class _Reader:
    """Chunks as a file to read from, and the end of an archive behind them: some writers (umoci) leave it out."""

    def __init__(self, chunks: Iterable[bytes]) -> None:
        self._chunks = chain(chunks, [b"\0" * 3 * BLOCK])
        self._held = memoryview(b"")

    def read(self, size: int) -> bytes:
        """Return `size` bytes, fewer only at the end."""
        parts: list[bytes | memoryview] = []
        while size:
            if not self._held:
                self._held = memoryview(next(self._chunks, b""))
                if not self._held:
                    break
            part = self._held[:size]
            self._held = self._held[len(part) :]
            size -= len(part)
            parts.append(part)
        return b"".join(parts)
