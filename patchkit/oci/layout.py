"""OCI layouts: images in a directory, or in one archive, as `skopeo copy oci:DIR:TAG` and `oci-archive:FILE:TAG` read them."""

from __future__ import annotations

import hashlib
import io
import json
import os
import tarfile
from contextlib import contextmanager
from dataclasses import replace
from typing import IO, TYPE_CHECKING, Protocol

from patchkit.core.errors import ConfigError, RefusedByMachineError
from patchkit.oci.documents import MalformedError, parse_manifest, render
from patchkit.oci.entries import BLOCK, Entry, archived, header_of
from patchkit.oci.types import INDEXES, MANIFESTS, REF_NAME, Descriptor, Index, pairs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_CHUNK = 1 << 20
_MARK = b'{"imageLayoutVersion":"1.0.0"}'
_DOCUMENT_LIMIT = 16 << 20


class _Files(Protocol):
    """Where the files of a layout are."""

    def open(self, name: str) -> IO[bytes] | None:
        """Return a file to read, or None where there is none."""
        ...


class _Folder:
    def __init__(self, path: str) -> None:
        self.path = path

    def open(self, name: str) -> IO[bytes] | None:
        try:
            return open(os.path.join(self.path, name), "rb")
        except (FileNotFoundError, NotADirectoryError):
            return None


class _Archive:
    """An archive's files, where they stand in it: an archive that is not packed is read in place."""

    def __init__(self, archive: tarfile.TarFile) -> None:
        self._archive = archive
        self._members = {member.name.removeprefix("./"): member for member in archive if member.isreg()}

    def open(self, name: str) -> IO[bytes] | None:
        member = self._members.get(name)
        return self._archive.extractfile(member) if member is not None else None


class Layout:
    """The images in a layout; `where` is its path as the user gave it.

    Whatever is read is checked against its digest. Failures are ConfigError: the user names the layout.
    """

    def __init__(self, where: str, files: _Files) -> None:
        self.where = where
        self._files = files
        with self._opened("oci-layout", "an OCI layout") as stream:
            mark = _object(stream.read(_DOCUMENT_LIMIT))
        if not str(mark.get("imageLayoutVersion", "")).startswith("1."):
            raise ConfigError(f"{where}: oci-layout: expected version 1, found {mark.get('imageLayoutVersion')}")

    def __str__(self) -> str:
        return self.where

    def index(self) -> Index:
        """Return index.json."""
        with self._opened("index.json", "an OCI layout") as stream:
            raw = stream.read(_DOCUMENT_LIMIT)
        try:
            found = parse_manifest(raw, INDEXES[0])
        except MalformedError as error:
            raise ConfigError(f"{self.where}: index.json: {error}") from None
        if not isinstance(found, Index):
            raise ConfigError(f"{self.where}: index.json: expected an index, found an image")
        return found

    def named(self, name: str = "") -> Descriptor:
        """Return the image or index called `name`, or that has that digest; "": the only one there is."""
        there = self.index().manifests
        found = [item for item in there if name in ("", dict(item.annotations).get(REF_NAME), item.digest)]
        distinct = {item.digest for item in found}
        if len(distinct) != 1:
            names = sorted({dict(item.annotations).get(REF_NAME, item.digest) for item in there})
            raise ConfigError(
                f"{self.where}: expected one image{f' {name}' if name else ''}, found {len(distinct)}",
                hint=f"name one of: {', '.join(names)}" if names else "the layout is empty",
            )
        return found[0]

    def has(self, descriptor: Descriptor) -> bool:
        """Whether a blob is there."""
        stream = self._files.open(_blob_name(descriptor.digest))
        if stream is None:
            return False
        with stream:
            return stream.seek(0, os.SEEK_END) == descriptor.size

    def blob(self, descriptor: Descriptor) -> bytes:
        """Return a small blob, a manifest or config, whole and checked."""
        return b"".join(self.chunks(descriptor))

    def chunks(self, descriptor: Descriptor, start: int = 0) -> Iterator[bytes]:
        """Yield a blob from `start` on; read to its end from its beginning it is checked."""
        state, size = hashlib.new(descriptor.digest.partition(":")[0]), start
        with self._opened(_blob_name(descriptor.digest), f"the blob {descriptor.digest}") as stream:
            stream.seek(start)
            while chunk := stream.read(_CHUNK):
                state.update(chunk)
                size += len(chunk)
                yield chunk
        found = f"{descriptor.digest.partition(':')[0]}:{state.hexdigest()}"
        if size != descriptor.size or (start == 0 and found != descriptor.digest):
            raise ConfigError(
                f"{self.where}: {descriptor.digest}: expected {descriptor.size} bytes of that digest, "
                f"found {size} of {found}",
                hint="the layout is damaged: write it anew",
            )

    @contextmanager
    def _opened(self, name: str, what: str) -> Iterator[IO[bytes]]:
        stream = self._files.open(name)
        if stream is None:
            raise ConfigError(f"{self.where}: expected {what}, found no {name}", hint="name an OCI layout or archive")
        with stream:
            yield stream


class LayoutWriter(Layout):
    """A layout in a directory, to read and to add to. What is there stays; an image of the same name is replaced."""

    def __init__(self, path: str) -> None:
        self._path = path
        with _writing(path):
            os.makedirs(os.path.join(path, "blobs", "sha256"), exist_ok=True)
            if not os.path.exists(os.path.join(path, "oci-layout")):
                self._put("index.json", [render(Index())])
                self._put("oci-layout", [_MARK])
        super().__init__(path, _Folder(path))

    def put_blob(self, descriptor: Descriptor, chunks: Iterator[bytes]) -> None:
        """Write a blob, if it is not there. Raises ConfigError where the bytes are not those of its digest."""
        if self.has(descriptor):
            return
        state, size = hashlib.new(descriptor.digest.partition(":")[0]), 0

        def checked() -> Iterator[bytes]:
            nonlocal size
            for chunk in chunks:
                state.update(chunk)
                size += len(chunk)
                yield chunk
            if (size, state.hexdigest()) != (descriptor.size, descriptor.digest.partition(":")[2]):
                raise ConfigError(f"{self.where}: {descriptor.digest}: the bytes that came are others ({size} of them)")

        with _writing(self._path):
            os.makedirs(os.path.join(self._path, os.path.dirname(_blob_name(descriptor.digest))), exist_ok=True)
            self._put(_blob_name(descriptor.digest), checked())

    def put_image(self, descriptor: Descriptor, raw: bytes, name: str = "") -> None:
        """Write a manifest or index whose blobs are there, and name it; "": without a name (a child of an index)."""
        self.put_blob(descriptor, iter([raw]))
        if not name:
            return
        index = self.index()
        kept = [item for item in index.manifests if dict(item.annotations).get(REF_NAME) != name]
        added = replace(descriptor, annotations=pairs({**dict(descriptor.annotations), REF_NAME: name}))
        with _writing(self._path):
            self._put("index.json", [render(replace(index, manifests=(*kept, added)))])

    def _put(self, name: str, chunks: Iterator[bytes] | list[bytes]) -> None:
        path = os.path.join(self._path, name)
        temporary = f"{path}.part-{os.getpid()}-{os.urandom(4).hex()}"
        try:
            with open(temporary, "xb") as stream:
                stream.writelines(chunks)
                stream.flush()
                os.fsync(stream.fileno())
            os.replace(temporary, path)
        finally:
            if os.path.exists(temporary):
                os.unlink(temporary)


@contextmanager
def opened(path: str) -> Iterator[Layout]:
    """The layout in a directory, or in an archive."""
    if os.path.isdir(path):
        yield Layout(path, _Folder(path))
        return
    try:
        archive = tarfile.open(path)  # noqa: SIM115 - closed below; what fails in between is the caller's
        files = _Archive(archive)
    except (tarfile.TarError, EOFError) as error:
        raise ConfigError(f"{path}: expected an OCI archive, found no archive: {error}") from None
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror or error}") from None
    with archive:
        yield Layout(path, files)


def archive_of(layout: Layout, path: str) -> None:
    """Write what index.json of a layout leads to as one archive, atomically; the same layout gives the same bytes."""
    sizes: dict[str, Descriptor] = {}
    for item in layout.index().manifests:
        _reachable(layout, item, sizes)
    temporary = f"{path}.part-{os.getpid()}-{os.urandom(4).hex()}"
    with _writing(path):
        try:
            with open(temporary, "xb") as stream:
                stream.writelines(
                    archived(Entry(path=name, data=data))
                    for name, data in (("index.json", render(layout.index())), ("oci-layout", _MARK))
                )
                for digest in sorted(sizes):
                    _stream(layout, sizes[digest], stream.write)
                stream.write(b"\0" * (2 * BLOCK))
                stream.flush()
                os.fsync(stream.fileno())
            os.replace(temporary, path)
        finally:
            if os.path.exists(temporary):
                os.unlink(temporary)


def _reachable(layout: Layout, item: Descriptor, found: dict[str, Descriptor]) -> None:
    if item.digest in found or not layout.has(item):
        return  # children of an index that were not copied stay away
    found[item.digest] = item
    if item.media_type not in (*INDEXES, *MANIFESTS):
        return
    document = parse_manifest(layout.blob(item), item.media_type)
    for child in document.manifests if isinstance(document, Index) else (document.config, *document.layers):
        _reachable(layout, child, found)


def _stream(layout: Layout, item: Descriptor, write: Callable[[bytes], int]) -> None:
    """Write a blob as an entry; a large one has its size in an extended header."""
    write(header_of(Entry(path=_blob_name(item.digest)), item.size))
    for chunk in layout.chunks(item):
        write(chunk)
    write(b"\0" * (-item.size % BLOCK))


def _blob_name(digest: str) -> str:
    return "blobs/" + digest.replace(":", "/")


def _object(raw: bytes) -> dict[str, object]:
    try:
        found = json.load(io.BytesIO(raw))
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


@contextmanager
def _writing(path: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise RefusedByMachineError(
            f"{path}: cannot be written: {error.strerror or error}", hint="free space, or choose another directory"
        ) from error
