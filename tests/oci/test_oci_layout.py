"""Layouts, as directories and archives: written here and read by skopeo and umoci, and the other way round."""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from patchkit.core.errors import ConfigError, RefusedByMachineError
from patchkit.oci.documents import render
from patchkit.oci.entries import Entry
from patchkit.oci.layers import make_layer
from patchkit.oci.layout import LayoutWriter, archive_of, opened
from patchkit.oci.rootfs import RootFs
from patchkit.oci.scan import scan
from patchkit.oci.transfer import push, push_index, read_image
from patchkit.oci.transforms import append
from patchkit.oci.types import Descriptor, History, Index, Platform, digest_of

from .images import SITE, base

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from patchkit.oci.layout import Layout
    from patchkit.oci.types import Image


def run(*command: str) -> bytes:
    done = subprocess.run(command, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout


def read(layout: Layout, name: str) -> Image:
    found = layout.named(name)
    return read_image(layout, found, layout.blob(found))


def derived(image: Image, layout: Layout) -> Image:
    path = "lib/python3/site/mod.py"
    files = RootFs(image.manifest.layers, lambda layer, wanted: scan(layout.chunks(layer), wanted), [path])
    found = files.find(path)
    assert found is not None
    stale = f"{SITE}/__pycache__/mod.cpython-312.pyc"
    there = files.find(stale)
    keep = files.find("opt/keep")
    assert there is not None
    assert keep is not None
    parents = {entry.path: entry for item in (found, there, keep) for entry in item.parents}
    entries = [replace(found.entry, data=b"X = 2\n"), Entry(path="opt/new", data=b"new")]
    layer = make_layer(entries, deleted=[stale], parents=parents)
    return append(image, layer, History(created_by="patchkit"))


@pytest.fixture
def layout(tmp_path: Path) -> LayoutWriter:
    made = LayoutWriter(str(tmp_path / "made"))
    push(base(), made, made, "base")
    return made


def test_written_and_read(layout: LayoutWriter) -> None:
    image = read(layout, "base")
    assert image.digest == base().digest
    changed = derived(image, layout)
    assert push(changed, layout, layout, "derived").copied == (changed.added[0].descriptor.digest,)
    assert read(layout, "derived").digest == changed.digest
    push(changed, layout, layout, "base")  # the name moves
    assert read(layout, "base").digest == changed.digest
    assert len(layout.index().manifests) == 2
    with opened(layout.where) as again:
        assert read(again, changed.digest).digest == changed.digest


def test_skopeo_and_umoci_read_it(layout: LayoutWriter, program: Callable[[str], str], tmp_path: Path) -> None:
    skopeo, umoci = program("skopeo"), program("umoci")
    changed = derived(read(layout, "base"), layout)
    push(changed, layout, layout, "derived")
    archive = str(tmp_path / "made.tar")
    archive_of(layout, archive)
    for source in (f"oci:{layout.where}:derived", f"oci-archive:{archive}:derived"):
        assert json.loads(run(skopeo, "inspect", source))["Digest"] == changed.digest
        run(skopeo, "copy", "-q", source, f"dir:{tmp_path}/{source.partition(':')[0]}")
    if os.geteuid():
        pytest.skip("unpacking needs root")
    bundle = tmp_path / "bundle"
    run(umoci, "unpack", "--image", f"{layout.where}:derived", str(bundle))
    root = bundle / "rootfs"
    assert (root / SITE / "mod.py").read_bytes() == b"X = 2\n"
    assert (root / SITE / "mod.py").stat().st_mode & 0o7777 == 0o640
    assert (root / SITE / "twin.py").read_bytes() == b"X = 1\n"
    assert not (root / SITE / "__pycache__/mod.cpython-312.pyc").exists()
    assert (root / "opt").stat().st_mode & 0o7777 == 0o1777
    assert (root / "lib").is_symlink()
    assert (root / "opt/keep").read_bytes() + (root / "opt/new").read_bytes() == b"keptnew"


def test_what_skopeo_and_umoci_write_is_read(
    layout: LayoutWriter, program: Callable[[str], str], tmp_path: Path
) -> None:
    skopeo, umoci = program("skopeo"), program("umoci")
    run(skopeo, "copy", "-q", f"oci:{layout.where}:base", f"oci-archive:{tmp_path}/copy.tar:copy")
    with opened(f"{tmp_path}/copy.tar") as archive:
        image = read(archive, "copy")
        assert image.config == base().config
        assert derived(image, archive).added == derived(read(layout, "base"), layout).added
    run(umoci, "config", "--image", f"{layout.where}:base", "--tag", "other", "--config.label", "a=b")
    assert dict(read(layout, "other").config.labels) == {"a": "b"}
    note = tmp_path / "note"
    note.write_bytes(b"by umoci")
    run(umoci, "insert", "--rootless", "--image", f"{layout.where}:other", str(note), "/opt/note")
    image = read(layout, "other")
    files = RootFs(image.manifest.layers, lambda layer, wanted: scan(layout.chunks(layer), wanted), ["opt/note"])
    found = files.find("opt/note")
    assert found is not None
    assert found.entry.data == b"by umoci"


def test_the_same_layout_gives_the_same_archive(layout: LayoutWriter, tmp_path: Path) -> None:
    other = LayoutWriter(str(tmp_path / "other"))
    push(base(), other, other, "base")
    for number, made in enumerate((layout, other)):
        archive_of(made, str(tmp_path / f"{number}.tar"))
    assert (tmp_path / "0.tar").read_bytes() == (tmp_path / "1.tar").read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["0.tar", "1.tar", "made", "other"]


def test_an_index(layout: LayoutWriter, program: Callable[[str], str], tmp_path: Path) -> None:
    image = read(layout, "base")
    away = Descriptor(media_type=image.manifest.media_type, digest="sha256:" + "0" * 64, size=1)
    index = Index(manifests=(replace(image.descriptor, platform=Platform.parse("linux/amd64")), away))
    push_index(render(index), index, layout, "multi")
    archive_of(layout, str(tmp_path / "multi.tar"))
    with opened(str(tmp_path / "multi.tar")) as archive:
        assert archive.named("multi").digest == digest_of(render(index))
        assert archive.has(image.descriptor)
    seen = run(program("skopeo"), "inspect", "--raw", f"oci:{layout.where}:multi")
    assert seen == render(index)


def test_which_image(layout: LayoutWriter) -> None:
    assert layout.named().digest == base().digest
    push(base(seed=9), layout, layout, "next")
    with pytest.raises(ConfigError, match="expected one image, found 2") as caught:
        layout.named()
    assert caught.value.hint == "name one of: base, next"
    with pytest.raises(ConfigError, match="expected one image nope, found 0"):
        layout.named("nope")


def test_a_damaged_blob(layout: LayoutWriter) -> None:
    image = read(layout, "base")
    big = image.manifest.layers[1]
    path = f"{layout.where}/blobs/{big.digest.replace(':', '/')}"
    with open(path, "r+b") as stream:
        stream.write(b"zz")
    with pytest.raises(ConfigError, match=f"{big.digest}: expected .* bytes of that digest"):
        list(layout.chunks(big))
    os.unlink(path)
    with pytest.raises(ConfigError, match=f"expected the blob {big.digest}, found no blobs/sha256/"):
        list(layout.chunks(big))
    assert not layout.has(big)
    with pytest.raises(ConfigError, match="the bytes that came are others"):
        layout.put_blob(big, iter([b"x"]))
    assert [name for name in os.listdir(os.path.dirname(path)) if "part" in name] == []


def test_no_layouts(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"no archive")
    for path, message in (
        (tmp_path, "expected an OCI layout, found no oci-layout"),
        (tmp_path / "file", "expected an OCI archive, found no archive"),
        (tmp_path / "nowhere", "cannot be read: No such file"),
    ):
        with pytest.raises(ConfigError, match=message), opened(str(path)):
            pass
    (tmp_path / "oci-layout").write_text('{"imageLayoutVersion": "2.0.0"}')
    with pytest.raises(ConfigError, match=r"expected version 1, found 2.0.0"), opened(str(tmp_path)):
        pass
    (tmp_path / "oci-layout").write_text('{"imageLayoutVersion": "1.0.0"}')
    (tmp_path / "index.json").write_text("[]")
    with opened(str(tmp_path)) as layout, pytest.raises(ConfigError, match=r"index.json: expected a JSON object"):
        layout.index()
    with pytest.raises(RefusedByMachineError, match="cannot be written"):
        LayoutWriter(str(tmp_path / "file"))
