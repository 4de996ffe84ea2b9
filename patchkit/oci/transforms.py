"""Images made of images. The argument stays as it is; what is returned has its own digest."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timezone
from typing import TYPE_CHECKING

from patchkit.oci.documents import MalformedError, parse_config, parse_manifest, render
from patchkit.oci.types import (
    DOCKER_LAYER_GZIP,
    DOCKER_MANIFEST,
    OCI_CONFIG,
    OCI_MANIFEST,
    Config,
    Descriptor,
    History,
    Image,
    Index,
    Layer,
    Manifest,
    Pairs,
    Platform,
    digest_of,
    pairs,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_VARIANTS = {("arm64", "v8"): "", ("amd64", "v1"): ""}


def image_of(manifest_bytes: bytes, config_bytes: bytes, media_type: str = "") -> Image:
    """Return the image of a manifest and its config. Raises MalformedError where the two do not belong together."""
    manifest = parse_manifest(manifest_bytes, media_type)
    if isinstance(manifest, Index):
        raise MalformedError("expected one image, found an index")
    config = parse_config(config_bytes)
    if digest_of(config_bytes) != manifest.config.digest and manifest.config.digest.startswith("sha256:"):
        raise MalformedError(f"config: expected {manifest.config.digest}, found {digest_of(config_bytes)}")
    if len(config.diff_ids) != len(manifest.layers):
        raise MalformedError(
            f"rootfs.diff_ids: expected one a layer ({len(manifest.layers)}), found {len(config.diff_ids)}"
        )
    return Image(manifest=manifest, config=config, manifest_bytes=manifest_bytes, config_bytes=config_bytes)


def rebuilt(manifest: Manifest, config: Config, added: tuple[Layer, ...] = ()) -> Image:
    """Return the image of these values: the config is written first, the manifest names it."""
    config_bytes = render(config)
    described = replace(manifest.config, digest=digest_of(config_bytes), size=len(config_bytes))
    manifest = replace(manifest, config=described)
    return Image(
        manifest=manifest, config=config, manifest_bytes=render(manifest), config_bytes=config_bytes, added=added
    )


def append(image: Image, layer: Layer, history: History, *, annotations: Mapping[str, str] | None = None) -> Image:
    """Return the image with a layer on top. `annotations` describe that layer (OCI manifests only)."""
    descriptor = layer.descriptor
    if image.manifest.media_type == DOCKER_MANIFEST:
        descriptor = replace(descriptor, media_type=DOCKER_LAYER_GZIP)
    else:
        descriptor = replace(descriptor, annotations=_merged(descriptor.annotations, annotations))
    layers, config = image.manifest.layers, image.config
    manifest = replace(image.manifest, layers=(*layers, descriptor))
    config = replace(
        config,
        diff_ids=(*config.diff_ids, layer.diff_id),
        history=(*config.history, replace(history, empty_layer=False)),
    )
    return rebuilt(manifest, config, (*image.added, layer))


def describe(
    image: Image, *, labels: Mapping[str, str], annotations: Mapping[str, str] | None = None, created: str = ""
) -> Image:
    """Return the image with labels in its config and, on an OCI manifest, annotations; those of before stay.

    A docker manifest has no annotations: there the labels must say it.
    """
    config = replace(image.config, labels=_merged(image.config.labels, labels), created=created or image.config.created)
    manifest = image.manifest
    if manifest.media_type == OCI_MANIFEST:
        manifest = replace(manifest, annotations=_merged(manifest.annotations, annotations))
    return rebuilt(manifest, config, image.added)


def replace_children(index: Index, children: Mapping[str, Descriptor]) -> Index:
    """Return the index with `children` in place of those with the digests that they are named by; the platform and
    what else the index says of a child stay."""
    kept = tuple(
        replace(item, digest=new.digest, size=new.size, media_type=new.media_type)
        if (new := children.get(item.digest)) is not None
        else item
        for item in index.manifests
    )
    return replace(index, manifests=kept)


def artifact(media_type: str, config: Descriptor, layers: Iterable[Descriptor], subject: Descriptor) -> Manifest:
    """Return the manifest of something about the image `subject`: a bill of materials, a statement."""
    plain = Descriptor(media_type=subject.media_type, digest=subject.digest, size=subject.size)
    return Manifest(
        media_type=OCI_MANIFEST, artifact_type=media_type, config=config, layers=tuple(layers), subject=plain
    )


def select(index: Index, platform: Platform | None) -> tuple[Descriptor, ...]:
    """Return the images of `index` for a platform, best first; None: all of them.

    Attestations and other things that run nowhere are no images. Raises ValueError where nothing fits.
    """
    images = [item for item in index.manifests if not _runs_nowhere(item)]
    if platform is None:
        return tuple(images)
    found = [item for item in images if item.platform is None or _matches(item.platform, platform)]
    exact = [item for item in found if item.platform is not None]
    if not found or (not exact and len(found) > 1):
        there = ", ".join(sorted({str(item.platform or "unknown") for item in images})) or "none"
        raise ValueError(f"expected an image for {platform}, found: {there}")
    return tuple(sorted(exact, key=lambda item: item.platform != platform) or found)


def _runs_nowhere(item: Descriptor) -> bool:
    about = dict(item.annotations).get("vnd.docker.reference.type", "")
    return bool(about or item.artifact_type) or (item.platform is not None and item.platform.os == "unknown")


def _matches(found: Platform, wanted: Platform) -> bool:
    if (found.os, found.architecture) != (wanted.os, wanted.architecture):
        return False
    return not wanted.variant or _variant(found) == _variant(wanted)


def _variant(platform: Platform) -> str:
    return _VARIANTS.get((platform.architecture, platform.variant), platform.variant)


def _merged(old: Pairs, new: Mapping[str, str] | None) -> Pairs:
    return pairs({**dict(old), **(new or {})})


def created_at(epoch: int) -> str:
    """Return seconds since 1970 as configs and annotations write them."""
    return datetime.fromtimestamp(epoch, tz=timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def empty_config() -> tuple[Descriptor, bytes]:
    """Return the config of something that is no image, and its bytes."""
    data = b"{}"
    media_type = "application/vnd.oci.empty.v1+json"
    return Descriptor(media_type=media_type, digest=digest_of(data), size=len(data)), data


def scratch(platform: Platform) -> Image:
    """Return an image without layers."""
    config = Config(os=platform.os, architecture=platform.architecture, variant=platform.variant)
    blank = Descriptor(media_type=OCI_CONFIG, digest=digest_of(b""), size=0)
    return rebuilt(Manifest(config=blank), config)
