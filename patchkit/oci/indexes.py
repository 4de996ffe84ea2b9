"""Indexes of layers, kept by the layer's digest: a base layer that many images share is read once."""

from __future__ import annotations

import hashlib
import json
import os
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from patchkit.core.errors import UnreachableError
from patchkit.oci.documents import MalformedError
from patchkit.oci.entries import Entry, Kind
from patchkit.oci.scan import LayerIndex, scan

if TYPE_CHECKING:
    from patchkit.oci.transfer import Blobs
    from patchkit.oci.types import Descriptor, Image

_FORMAT = 1


class ImageIndexes:
    """The indexes of an image's layers, out of `folder` where they are kept, else out of `source`; for `RootFs`.

    `scanned` has the layers that were read. Raises UnreachableError for a layer that is none, or not that of its
    diff_id.
    """

    def __init__(self, image: Image, source: Blobs, folder: str) -> None:
        self.scanned: list[str] = []
        layers = [layer.digest for layer in image.manifest.layers]
        self._diff_ids = dict(zip(layers, image.config.diff_ids, strict=True))
        self._source, self._folder = source, folder

    def __call__(self, layer: Descriptor, wanted: frozenset[str]) -> LayerIndex:
        """Return the index of a layer, with the content of the wanted files that are in it."""
        kept = self._kept(layer)
        if kept is not None and not any(
            (entry := kept.entries.get(path)) is not None and entry.kind is Kind.FILE for path in wanted
        ):
            return kept
        where = f"{self._source}@{layer.digest}"
        self.scanned.append(layer.digest)
        try:
            index = scan(self._source.chunks(layer), wanted)
        except MalformedError as error:
            raise UnreachableError(f"{where}: {error}", hint="this image cannot be derived from") from None
        expected = self._diff_ids.get(layer.digest, index.diff_id)
        if index.diff_id != expected:
            raise UnreachableError(
                f"{where}: expected diff_id {expected}, found {index.diff_id}", hint="this image would not run"
            )
        if kept is None:
            self._keep(layer, index)
        return index

    def _path(self, layer: Descriptor) -> str:
        return os.path.join(self._folder, layer.digest.replace(":", "-") + ".json")

    def _kept(self, layer: Descriptor) -> LayerIndex | None:
        try:
            with open(self._path(layer), "rb") as stream:
                index = parse_index(stream.read())
        except (OSError, ValueError):
            return None
        return index if index.digest == layer.digest else None

    def _keep(self, layer: Descriptor, index: LayerIndex) -> None:
        """Keep an index. That is for speed only: a full disk is no failure."""
        path = self._path(layer)
        temporary = f"{path}.part-{os.getpid()}-{os.urandom(4).hex()}"
        with suppress(OSError):
            os.makedirs(self._folder, exist_ok=True)
            try:
                with open(temporary, "xb") as stream:
                    stream.write(render_index(index))
                os.replace(temporary, path)
            finally:
                with suppress(FileNotFoundError):
                    os.unlink(temporary)


def render_index(index: LayerIndex) -> bytes:
    """Return an index as text, without content; its first line is the digest of the rest."""
    document = {
        "format": _FORMAT,
        "digest": index.digest,
        "diff_id": index.diff_id,
        "size": index.size,
        "packed": index.packed,
        "deleted": sorted(index.deleted),
        "opaque": sorted(index.opaque),
        "implied": sorted(index.implied),
        "entries": [_row(entry) for entry in index.entries.values()],
    }
    body = json.dumps(document, separators=(",", ":"), ensure_ascii=True).encode("ascii")
    return hashlib.sha256(body).hexdigest().encode("ascii") + b"\n" + body


def parse_index(text: bytes) -> LayerIndex:
    """Return the index in `text`. Raises ValueError where it is not whole, or of another version's making."""
    digest, _, body = text.partition(b"\n")
    if hashlib.sha256(body).hexdigest().encode("ascii") != digest:
        raise ValueError("the index is damaged")
    document = json.loads(body)
    if document["format"] != _FORMAT:
        raise ValueError(f"expected format {_FORMAT}, found {document['format']}")
    entries = map(_entry, document["entries"])
    return LayerIndex(
        digest=document["digest"],
        diff_id=document["diff_id"],
        size=document["size"],
        packed=document["packed"],
        entries={entry.path: entry for entry in entries},
        deleted=frozenset(document["deleted"]),
        opaque=frozenset(document["opaque"]),
        implied=frozenset(document["implied"]),
    )


def _row(entry: Entry) -> list[Any]:
    row: list[Any] = [entry.path, entry.kind.value.decode("ascii"), entry.mode, entry.uid, entry.gid, entry.mtime]
    xattrs = [[name, value.hex()] for name, value in entry.xattrs]
    return [*row, entry.size, entry.offset, entry.target, entry.split, xattrs]


def _entry(row: list[Any]) -> Entry:
    path, kind, mode, uid, gid, mtime, size, offset, target, split, xattrs = row
    return Entry(
        path=path,
        kind=Kind(kind.encode("ascii")),
        mode=mode,
        uid=uid,
        gid=gid,
        mtime=mtime,
        size=size,
        offset=offset,
        target=target,
        split=split,
        xattrs=tuple((name, bytes.fromhex(value)) for name, value in xattrs),
    )
