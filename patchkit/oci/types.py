"""What images are made of, as frozen values. Fields that are not known here are kept, as JSON text, in `extra`.

Pairs (annotations, labels, `extra`) are sorted by name, so that equal content means equal values.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

OCI_INDEX = "application/vnd.oci.image.index.v1+json"
OCI_MANIFEST = "application/vnd.oci.image.manifest.v1+json"
OCI_CONFIG = "application/vnd.oci.image.config.v1+json"
OCI_LAYER = "application/vnd.oci.image.layer.v1.tar"
OCI_LAYER_GZIP = "application/vnd.oci.image.layer.v1.tar+gzip"
DOCKER_INDEX = "application/vnd.docker.distribution.manifest.list.v2+json"
DOCKER_MANIFEST = "application/vnd.docker.distribution.manifest.v2+json"
DOCKER_CONFIG = "application/vnd.docker.container.image.v1+json"
DOCKER_LAYER = "application/vnd.docker.image.rootfs.diff.tar"
DOCKER_LAYER_GZIP = "application/vnd.docker.image.rootfs.diff.tar.gzip"
SCHEMA_1 = (
    "application/vnd.docker.distribution.manifest.v1+json",
    "application/vnd.docker.distribution.manifest.v1+prettyjws",
)

INDEXES = (OCI_INDEX, DOCKER_INDEX)
MANIFESTS = (OCI_MANIFEST, DOCKER_MANIFEST)
REF_NAME = "org.opencontainers.image.ref.name"

Pairs = tuple[tuple[str, str], ...]


def pairs(values: Mapping[str, str] | Iterable[tuple[str, str]]) -> Pairs:
    """Return names and values sorted by name."""
    return tuple(sorted(dict(values).items()))


def digest_of(data: bytes) -> str:
    """Return the digest of a blob."""
    return "sha256:" + hashlib.sha256(data).hexdigest()


class _Sorted:
    """Sorts the fields that are pairs, whatever order they were given in."""

    __slots__ = ()

    def __post_init__(self) -> None:
        for name in ("annotations", "labels", "settings", "rootfs_extra", "extra"):
            if hasattr(self, name):
                object.__setattr__(self, name, pairs(getattr(self, name)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Platform(_Sorted):
    """What an image runs on."""

    os: str
    architecture: str
    variant: str = ""
    extra: Pairs = ()

    @classmethod
    def parse(cls, text: str) -> Platform:
        """Return the platform that "linux/amd64" or "linux/arm64/v8" names. Raises ValueError."""
        parts = text.split("/")
        if len(parts) not in (2, 3) or not all(parts):
            raise ValueError(f"expected a platform like linux/amd64, found {text!r}")
        return cls(os=parts[0], architecture=parts[1], variant=parts[2] if len(parts) == 3 else "")

    def __str__(self) -> str:
        return "/".join(part for part in (self.os, self.architecture, self.variant) if part)


@dataclass(frozen=True, slots=True, kw_only=True)
class Descriptor(_Sorted):
    """A blob or manifest by its digest; `artifact_type` and `platform` only where they are said."""

    media_type: str
    digest: str
    size: int
    urls: tuple[str, ...] = ()
    platform: Platform | None = None
    artifact_type: str = ""
    annotations: Pairs = ()
    extra: Pairs = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest(_Sorted):
    """One image: its config and its layers, the lowest first."""

    media_type: str = OCI_MANIFEST
    config: Descriptor
    layers: tuple[Descriptor, ...] = ()
    subject: Descriptor | None = None
    artifact_type: str = ""
    annotations: Pairs = ()
    extra: Pairs = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Index(_Sorted):
    """Images for several platforms under one digest."""

    media_type: str = OCI_INDEX
    manifests: tuple[Descriptor, ...] = ()
    subject: Descriptor | None = None
    artifact_type: str = ""
    annotations: Pairs = ()
    extra: Pairs = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class History(_Sorted):
    """How one layer, or none (`empty_layer`), came about."""

    created: str = ""
    created_by: str = ""
    author: str = ""
    comment: str = ""
    empty_layer: bool = False
    extra: Pairs = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Config(_Sorted):
    """What an image is and runs: `labels`, with the `settings` beside them (Env, Cmd, ...), and its layers' diff_ids."""

    os: str
    architecture: str
    variant: str = ""
    created: str = ""
    labels: Pairs = ()
    settings: Pairs = ()
    diff_ids: tuple[str, ...] = ()
    history: tuple[History, ...] = ()
    rootfs_extra: Pairs = ()
    extra: Pairs = ()

    @property
    def platform(self) -> Platform:
        """The platform that the config states."""
        return Platform(os=self.os, architecture=self.architecture, variant=self.variant)


@dataclass(frozen=True, slots=True, kw_only=True)
class Layer:
    """A layer that was made here: its bytes, and the digest of the archive in them."""

    descriptor: Descriptor
    diff_id: str
    data: bytes = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Image:
    """A manifest and its config, with the very bytes of both; `added` are the layers that no base has."""

    manifest: Manifest
    config: Config
    manifest_bytes: bytes = field(repr=False)
    config_bytes: bytes = field(repr=False)
    added: tuple[Layer, ...] = ()

    @property
    def digest(self) -> str:
        """The digest of the manifest."""
        return digest_of(self.manifest_bytes)

    @property
    def descriptor(self) -> Descriptor:
        """The image as an index names it."""
        return Descriptor(
            media_type=self.manifest.media_type,
            digest=self.digest,
            size=len(self.manifest_bytes),
            platform=self.config.platform,
        )
