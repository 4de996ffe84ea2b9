"""Layers made here: the same entries give the same bytes, on every machine and Python."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING

from patchkit.oci.entries import BLOCK, WHITEOUT, Entry, Kind, archived, check_path, parents_of
from patchkit.oci.types import DOCKER_LAYER_GZIP, DOCKER_MANIFEST, OCI_LAYER_GZIP, Descriptor, Layer, digest_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

_STORED_BYTES = 0xFFFF
_WRITTEN = (Kind.FILE, Kind.HARD_LINK, Kind.LINK, Kind.DIRECTORY)
#: magic, deflate, no flags, no time, no level, no system
_GZIP_HEAD = b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff"


def make_layer(
    entries: Iterable[Entry], *, deleted: Iterable[str] = (), parents: Mapping[str, Entry], like: str = OCI_LAYER_GZIP
) -> Layer:
    """Return the layer that puts `entries` over a base and takes the paths `deleted` away.

    Every directory above them is written too, as `parents` (path to entry) has it in the base: an engine would reset
    one that is left out. Paths are those of the base with no link on the way. `like` is the media type of the base's
    manifest or layers: a docker image gets a docker layer. Raises ValueError for a path that cannot stand in a layer,
    comes twice, or has a parent that is not in `parents` or is no directory.
    """
    wanted: dict[str, Entry] = {}
    for entry in entries:
        if check_path(entry.path) in wanted:
            raise ValueError(f"{entry.path}: expected once in a layer, found twice")
        if entry.kind is Kind.FILE and entry.data is None:
            raise ValueError(f"{entry.path}: a file without content")
        if entry.kind not in _WRITTEN:
            raise ValueError(f"{entry.path}: expected a file, link or directory, found {entry.kind.name.lower()}")
        wanted[entry.path] = entry
    gone = {check_path(path) for path in deleted}
    for path in sorted(gone & wanted.keys()):
        raise ValueError(f"{path}: both written and deleted in one layer")
    for path in sorted(wanted.keys() | gone):
        _add_parents(path, wanted, gone, parents)
    archive = _archive([*wanted.values(), *map(_whiteout, gone)])
    return packed(archive, like)


def _add_parents(path: str, wanted: dict[str, Entry], gone: set[str], parents: Mapping[str, Entry]) -> None:
    for parent in parents_of(path):
        if parent in gone:
            raise ValueError(f"{path}: its directory {parent} is deleted in the same layer")
        found = wanted.get(parent) or parents.get(parent)
        if found is None:
            raise ValueError(f"{path}: mode and owner of its directory {parent} are not known")
        if found.kind is not Kind.DIRECTORY:
            raise ValueError(f"{path}: expected the directory {parent} above it, found {found.kind.name.lower()}")
        wanted[parent] = found


def _whiteout(path: str) -> Entry:
    folder, _, name = path.rpartition("/")
    return Entry(path=f"{folder}/{WHITEOUT}{name}" if folder else WHITEOUT + name, mode=0, data=b"")


def _order(entry: Entry) -> tuple[tuple[int, bytes], ...]:
    """Directories before what is in them; deletions before their siblings."""
    parts = entry.path.encode("utf-8", "surrogateescape").split(b"/")
    return tuple((0 if part.startswith(WHITEOUT.encode()) else 1, part) for part in parts)


def _archive(entries: list[Entry]) -> bytes:
    links = [entry for entry in entries if entry.kind is Kind.HARD_LINK]
    others = [entry for entry in entries if entry.kind is not Kind.HARD_LINK]
    ordered = [*sorted(others, key=_order), *sorted(links, key=_order)]  # what a hard link leads to comes before it
    return b"".join(map(archived, ordered)) + b"\0" * (2 * BLOCK)


def packed(archive: bytes, like: str = OCI_LAYER_GZIP) -> Layer:
    """Return an archive as a layer: gzip with stored blocks, which no library's version alters."""
    data = b"".join(_gzip(archive))
    media_type = DOCKER_LAYER_GZIP if like == DOCKER_MANIFEST or ".docker." in like else OCI_LAYER_GZIP
    descriptor = Descriptor(media_type=media_type, digest=digest_of(data), size=len(data))
    return Layer(descriptor=descriptor, diff_id=digest_of(archive), data=data)


def _gzip(data: bytes) -> Iterator[bytes]:
    yield _GZIP_HEAD
    for start in range(0, len(data) or 1, _STORED_BYTES):
        block = data[start : start + _STORED_BYTES]
        last = start + _STORED_BYTES >= len(data)
        yield bytes([last]) + len(block).to_bytes(2, "little") + (len(block) ^ 0xFFFF).to_bytes(2, "little")
        yield block
    yield zlib.crc32(data).to_bytes(4, "little") + (len(data) & 0xFFFFFFFF).to_bytes(4, "little")
