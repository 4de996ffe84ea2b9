"""Small images for tests."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import TYPE_CHECKING

from patchkit.oci.entries import Entry, Kind
from patchkit.oci.layers import make_layer
from patchkit.oci.transforms import append, rebuilt, scratch
from patchkit.oci.types import DOCKER_CONFIG, DOCKER_MANIFEST, History, Platform

if TYPE_CHECKING:
    from patchkit.oci.types import Image

SITE = "usr/lib/python3/site"


def folder(path: str, mode: int = 0o755) -> Entry:
    return Entry(path=path, kind=Kind.DIRECTORY, mode=mode)


def base(*, docker: bool = False, size: int = 1000, seed: int = 0) -> Image:
    """An image of two layers: links and /opt; and, above, a module with byte-code, a hard link, and `size` bytes."""
    image = scratch(Platform.parse("linux/amd64"))
    if docker:
        manifest = replace(image.manifest, media_type=DOCKER_MANIFEST)
        image = rebuilt(replace(manifest, config=replace(manifest.config, media_type=DOCKER_CONFIG)), image.config)
    like = image.manifest.media_type
    lower = [folder("usr"), folder("usr/lib"), folder("opt", 0o1777), Entry(path="opt/keep", data=b"kept")]
    lower.append(Entry(path="lib", kind=Kind.LINK, mode=0o777, target="usr/lib"))
    above = [folder("usr"), folder("usr/lib"), folder("usr/lib/python3"), folder(SITE), folder(f"{SITE}/__pycache__")]
    above += [
        Entry(path=f"{SITE}/mod.py", data=b"X = 1\n", mode=0o640),
        Entry(path=f"{SITE}/__pycache__/mod.cpython-312.pyc", data=b"stale"),
        Entry(path=f"{SITE}/big", data=random.Random(seed).randbytes(size)),
        Entry(path=f"{SITE}/twin.py", kind=Kind.HARD_LINK, target=f"{SITE}/mod.py"),
    ]
    image = append(image, make_layer(lower, parents={}, like=like), History(created_by="lower"))
    return append(image, make_layer(above, parents={}, like=like), History(created_by="above"))


def bytes_of(image: Image) -> bytes:
    """The largest layer."""
    return max((layer.data for layer in image.added), key=len)
