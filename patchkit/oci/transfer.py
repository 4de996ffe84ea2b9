"""An image on its way to a registry or layout: what is there stays there, blobs go first, the manifest last."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from threading import Event, Lock
from typing import TYPE_CHECKING, Protocol

from patchkit.core.errors import ConfigError
from patchkit.oci.documents import MalformedError, parse_manifest
from patchkit.oci.layout import LayoutWriter
from patchkit.oci.registry import Repository
from patchkit.oci.scan import scan
from patchkit.oci.transforms import image_of
from patchkit.oci.types import Descriptor, Image, Index, digest_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_AT_ONCE = 4


class Blobs(Protocol):
    """Where blobs are read from: a repository or a layout."""

    def chunks(self, descriptor: Descriptor, start: int = 0) -> Iterator[bytes]:
        """Yield a blob from an offset on."""
        ...

    def blob(self, descriptor: Descriptor) -> bytes:
        """Return a small blob, checked."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Moved:
    """What happened to the blobs of an image: their digests. `mount_refused`: copied, though they were next door."""

    present: tuple[str, ...] = ()
    mounted: tuple[str, ...] = ()
    copied: tuple[str, ...] = ()
    mount_refused: tuple[str, ...] = ()
    unchanged: bool = False


def read_image(source: Blobs, descriptor: Descriptor, raw: bytes) -> Image:
    """Return the image of a manifest in `source`, with its config. Raises ConfigError where it makes no sense."""
    try:
        manifest = parse_manifest(raw, descriptor.media_type)
        if isinstance(manifest, Index):
            raise MalformedError("expected one image, found an index")
        return image_of(raw, source.blob(manifest.config), descriptor.media_type)
    except MalformedError as error:
        raise ConfigError(f"{source}@{descriptor.digest}: {error}", hint="this image cannot be derived from") from None


def check(image: Image) -> None:
    """Raise ValueError unless the image's digests are those of its bytes and the added layers' diff_ids are true.

    A registry accepts a wrong diff_id, and the image then does not run.
    """
    image_of(image.manifest_bytes, image.config_bytes, image.manifest.media_type)
    count = len(image.manifest.layers)
    for number, layer in enumerate(image.added, start=count - len(image.added)):
        found = scan(iter([layer.data]))
        named, diff_id = image.manifest.layers[number], image.config.diff_ids[number]
        if (named.digest, named.size, diff_id) != (found.digest, len(layer.data), found.diff_id):
            raise ValueError(
                f"layer {number}: expected {named.digest} of {diff_id}, found {found.digest} of {found.diff_id}"
            )


def push(
    image: Image,
    source: Blobs,
    to: Repository | LayoutWriter,
    name: str = "",
    *,
    progress: Callable[[int, int], None] | None = None,
) -> Moved:
    """Put an image at `name` (a tag; "": at its digest) of `to`; the base's blobs come from `source`.

    Where that digest is at that name already, nothing is sent. Raises HttpError, or ConfigError of a layout;
    then nothing is at `name` that was not there before.
    """
    check(image)
    if isinstance(to, LayoutWriter):
        return _into_layout(image, source, to, name)
    if to.digest_at(name or image.digest) == image.digest:
        return Moved(unchanged=True)
    moved = _Mover(image, source, to, progress).run()
    to.put_manifest(name or image.digest, image.manifest_bytes, image.manifest.media_type)
    return moved


def push_index(raw: bytes, index: Index, to: Repository | LayoutWriter, name: str) -> str:
    """Put an index, whose children are there, at a name; return its digest."""
    digest = digest_of(raw)
    if isinstance(to, LayoutWriter):
        to.put_image(Descriptor(media_type=index.media_type, digest=digest, size=len(raw)), raw, name)
    elif to.digest_at(name) != digest:
        to.put_manifest(name, raw, index.media_type)
    return digest


def _into_layout(image: Image, source: Blobs, to: LayoutWriter, name: str) -> Moved:
    added = {layer.descriptor.digest: layer.data for layer in image.added}
    present: list[str] = []
    copied: list[str] = []
    for layer in image.manifest.layers:
        (present if to.has(layer) else copied).append(layer.digest)
        data = added.get(layer.digest)
        to.put_blob(layer, iter([data]) if data is not None else source.chunks(layer))
    to.put_blob(image.manifest.config, iter([image.config_bytes]))
    to.put_image(image.descriptor, image.manifest_bytes, name)
    return Moved(present=tuple(present), copied=tuple(copied))


class _StoppedError(Exception):
    """Another blob has failed: this one need not arrive."""


class _Mover:
    """The blobs of one image, several at once."""

    def __init__(
        self, image: Image, source: Blobs, to: Repository, progress: Callable[[int, int], None] | None
    ) -> None:
        self._image, self._source, self._to, self._progress = image, source, to, progress
        self._lock = Lock()
        self._stopped = Event()
        self._done: dict[str, int] = {}
        self._total = 0
        own = [(layer.descriptor.digest, layer.data) for layer in image.added]
        self._own = {**dict(own), image.manifest.config.digest: image.config_bytes}
        self._kinds: dict[str, list[str]] = {"present": [], "mounted": [], "copied": [], "mount_refused": []}

    def run(self) -> Moved:
        image = self._image.manifest
        blobs = {item.digest: item for item in (*image.layers, image.config)}
        self._total = sum(item.size for item in blobs.values())
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            waiting = [pool.submit(self._move, item) for item in blobs.values()]
            try:
                for future in as_completed(waiting):
                    future.result()
            except BaseException:
                self._stopped.set()
                pool.shutdown(wait=False, cancel_futures=True)
                raise
        kinds = {kind: tuple(sorted(digests)) for kind, digests in self._kinds.items()}
        return Moved(
            present=kinds["present"],
            mounted=kinds["mounted"],
            copied=kinds["copied"],
            mount_refused=kinds["mount_refused"],
        )

    def _move(self, item: Descriptor) -> None:
        data = self._own.get(item.digest)
        if data is not None:
            kind = "present" if self._to.has(item) else "copied"
            if kind == "copied":
                self._to.upload(item, lambda at: iter([data[at:]]), self._tell(item))
        else:
            kind = self._from_base(item)
        with self._lock:
            self._kinds[kind].append(item.digest)
        self._tell(item)(item.size, item.size)

    def _from_base(self, item: Descriptor) -> str:
        """Bring a blob of the base over in the cheapest way, and say which it was."""
        source, to = self._source, self._to
        near = isinstance(source, Repository) and source.registry is to.registry
        if near and isinstance(source, Repository) and source.name == to.name:
            return "present"
        if to.has(item):
            return "present"
        if near and isinstance(source, Repository):
            if to.mount(item, source.name):
                return "mounted"
            with self._lock:
                self._kinds["mount_refused"].append(item.digest)
        to.upload(item, lambda at: source.chunks(item, at), self._tell(item))
        return "copied"

    def _tell(self, item: Descriptor) -> Callable[[int, int], None]:
        def told(done: int, _: int) -> None:
            if self._stopped.is_set():
                raise _StoppedError
            if self._progress is not None:
                with self._lock:
                    self._done[item.digest] = done
                    self._progress(sum(self._done.values()), self._total)

        return told
