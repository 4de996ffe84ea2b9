"""Indexes of layers that outlive their run."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from patchkit.core.errors import UnreachableError
from patchkit.oci.entries import Entry, Kind
from patchkit.oci.indexes import ImageIndexes, parse_index, render_index
from patchkit.oci.layout import LayoutWriter
from patchkit.oci.rootfs import RootFs
from patchkit.oci.scan import LayerIndex
from patchkit.oci.transfer import push, read_image
from patchkit.oci.transforms import rebuilt

from .images import SITE, base

if TYPE_CHECKING:
    from pathlib import Path

    from patchkit.oci.types import Image


@pytest.fixture
def layout(tmp_path: Path) -> LayoutWriter:
    made = LayoutWriter(str(tmp_path / "layout"))
    push(base(), made, made, "base")
    return made


@pytest.fixture
def image(layout: LayoutWriter) -> Image:
    found = layout.named("base")
    return read_image(layout, found, layout.blob(found))


def test_an_index_is_read_back() -> None:
    entries = [
        Entry(path="a\udcff", kind=Kind.DIRECTORY, mode=0o1777, uid=2**40, mtime=-1),
        Entry(path="b", size=5, offset=512, xattrs=(("user.x", b"\0\xff"),), target="c", split=True),
    ]
    index = LayerIndex(
        digest="sha256:1", diff_id="sha256:2", size=9, packed=True, entries={entry.path: entry for entry in entries},
        deleted=frozenset({"x"}), opaque=frozenset({""}), implied=frozenset({"y"}),
    )  # fmt: skip
    assert parse_index(render_index(index)) == index
    for text in (b"", render_index(index)[:-1], render_index(index).replace(b'"format":1', b'"format":2')):
        with pytest.raises(ValueError, match="damaged"):
            parse_index(text)


def test_a_layer_is_read_once(image: Image, layout: LayoutWriter, tmp_path: Path) -> None:
    folder = str(tmp_path / "kept")
    upper, lower = image.manifest.layers[1].digest, image.manifest.layers[0].digest
    path = f"{SITE}/mod.py"
    first = ImageIndexes(image, layout, folder)
    found = RootFs(image.manifest.layers, first, [path]).find(path)
    assert found is not None
    assert (found.entry.data, first.scanned) == (b"X = 1\n", [upper])
    again = ImageIndexes(image, layout, folder)
    files = RootFs(image.manifest.layers, again)
    assert files.find(path) == replace(found, entry=replace(found.entry, data=None))
    assert files.find("opt/nothing") is None
    assert again.scanned == [lower]
    third = ImageIndexes(image, layout, folder)
    content = RootFs(image.manifest.layers, third, ["opt/keep"]).find("opt/keep")
    assert content is not None
    assert (content.entry.data, third.scanned) == (b"kept", [lower])
    for kept in (tmp_path / "kept").iterdir():
        kept.write_bytes(kept.read_bytes()[:-1])
    fourth = ImageIndexes(image, layout, folder)
    RootFs(image.manifest.layers, fourth).find(path)
    assert fourth.scanned == [upper]  # a damaged one is made anew


def test_a_base_with_a_wrong_diff_id(image: Image, layout: LayoutWriter, tmp_path: Path) -> None:
    config = replace(image.config, diff_ids=(image.config.diff_ids[0], "sha256:" + "0" * 64))
    wrong = rebuilt(image.manifest, config)
    with pytest.raises(UnreachableError, match="expected diff_id sha256:00"):
        RootFs(image.manifest.layers, ImageIndexes(wrong, layout, str(tmp_path / "k"))).find("usr")
