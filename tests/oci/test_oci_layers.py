"""Layers made here: which bytes, and what other readers see in them."""

from __future__ import annotations

import gzip
import io
import os
import random
import shutil
import subprocess
import tarfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from patchkit.oci.entries import Entry, Kind, check_path
from patchkit.oci.layers import make_layer, packed
from patchkit.oci.scan import scan
from patchkit.oci.types import DOCKER_LAYER_GZIP, DOCKER_MANIFEST, OCI_LAYER_GZIP, digest_of

ROOT = Path(__file__).parents[2]
LONG = "usr/local/lib/python3.12/dist-packages/" + "a-rather-long-name/" * 8 + "module.py"
GOLDEN = (
    "sha256:94a6eed47b90848a817ab8fc3b9db6da3c3a81f72b984cf1efd0cc0d31d6fd56",
    "sha256:7e8df89b01e06078e9d38ee26a90d801e4654ead8c89b88706c4f5faf17ebcf3",
)


def folder(path: str, mode: int = 0o755, **more: int) -> Entry:
    return Entry(path=path, kind=Kind.DIRECTORY, mode=mode, **more)


def sample() -> list[Entry]:
    return [
        Entry(path="a/b/file.py", data=b"x = 1\n" * 30_000, mode=0o644, uid=1000, gid=100, mtime=1_700_000_000),
        Entry(path="a/b/tool", data=b"#!/bin/sh\n", mode=0o4755, xattrs=(("security.capability", b"\x01\0\xff\n="),)),
        Entry(path="a/naïve-é.py", data=b"", uid=3_000_000, gid=3_000_000_000, mtime=-5),
        Entry(path="a/link", kind=Kind.LINK, mode=0o777, target="../" + "x" * 120),
        Entry(path="a/same", kind=Kind.HARD_LINK, target="a/b/tool", mode=0o4755),
    ]


PARENTS = {"a": folder("a", 0o1777, uid=7), "a/b": folder("a/b", 0o2750, gid=8)}


def members(data: bytes) -> dict[str, tarfile.TarInfo]:
    with tarfile.open(fileobj=io.BytesIO(data), mode="r:gz") as archive:
        return {member.name: member for member in archive}


def test_the_bytes_are_these() -> None:
    layer = make_layer(sample(), deleted=["a/b/__pycache__"], parents=PARENTS)
    assert (layer.descriptor.digest, layer.diff_id) == GOLDEN


def interpreter(version: str) -> str | None:
    """A Python of that version, if it runs."""
    kept = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv") / "versions"
    for program in [f"python{version}", *map(str, sorted(kept.glob(f"{version}.*/bin/python{version}")))]:
        if (
            shutil.which(program)
            and not subprocess.run([program, "-c", ""], capture_output=True, check=False).returncode
        ):
            return program
    return None


@pytest.mark.parametrize("version", ["3.10", "3.11", "3.12", "3.13"])
def test_every_python_makes_the_same_bytes(version: str) -> None:
    program = interpreter(version)
    if program is None:
        pytest.skip(f"no Python {version} here")
    made = "from patchkit.oci.entries import Entry, Kind\nfrom patchkit.oci.layers import make_layer\n"
    source = Path(__file__).read_text()
    body = source[source.index("def folder") : source.index("def members")]
    script = f"{made}{body}\nlayer = make_layer(sample(), deleted=['a/b/__pycache__'], parents=PARENTS)\n"
    script += "print(layer.descriptor.digest, layer.diff_id)"
    found = subprocess.run(
        [program, "-c", script],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"},
    )
    assert found.returncode == 0, found.stderr
    assert tuple(found.stdout.split()) == GOLDEN


def test_order_of_entries_and_of_arguments() -> None:
    entries = sample()
    layer = make_layer(entries, deleted=["a/b/zz", "a/0", "top"], parents=PARENTS)
    random.Random(1).shuffle(entries)
    assert make_layer(entries, deleted=["top", "a/0", "a/b/zz"], parents=PARENTS) == layer
    assert list(members(layer.data)) == [
        ".wh.top", "a", "a/.wh.0", "a/b", "a/b/.wh.zz", "a/b/file.py", "a/b/tool", "a/link", "a/naïve-é.py", "a/same",
    ]  # fmt: skip


def test_what_tarfile_sees() -> None:
    found = members(make_layer(sample(), deleted=["a/x"], parents=PARENTS).data)
    assert {name: (m.mode, m.uid, m.gid, m.mtime) for name, m in found.items()} == {
        "a": (0o1777, 7, 0, 0),
        "a/.wh.x": (0, 0, 0, 0),
        "a/b": (0o2750, 0, 8, 0),
        "a/b/file.py": (0o644, 1000, 100, 1_700_000_000),
        "a/b/tool": (0o4755, 0, 0, 0),
        "a/link": (0o777, 0, 0, 0),
        "a/naïve-é.py": (0o644, 3_000_000, 3_000_000_000, -5),
        "a/same": (0o4755, 0, 0, 0),
    }
    value = found["a/b/tool"].pax_headers["SCHILY.xattr.security.capability"]
    assert value.encode("utf-8", "surrogateescape") == b"\x01\0\xff\n="
    assert found["a/link"].linkname == "../" + "x" * 120
    assert (found["a/same"].islnk(), found["a/same"].linkname) == (True, "a/b/tool")
    assert all((m.uname, m.gname) == ("", "") for m in found.values())


def test_gnu_tar_unpacks_it(tmp_path: Path) -> None:
    entries = [*sample(), Entry(path=LONG, data=b"deep"), Entry(path="d" * 101 + "/" + "e" * 90, data=b"split")]
    above = {
        part: folder(part)
        for part in ["d" * 101, *("/".join(LONG.split("/")[:n]) for n in range(1, LONG.count("/") + 1))]
    }
    layer = make_layer(entries, parents={**above, **PARENTS})
    (tmp_path / "l.tgz").write_bytes(layer.data)
    out = tmp_path / "out"
    out.mkdir()
    command = ["tar", "-xzf", str(tmp_path / "l.tgz"), "-C", str(out), "--no-same-owner", "-p"]
    subprocess.run(command, check=True, capture_output=True)
    assert (out / LONG).read_bytes() == b"deep"
    assert (out / ("d" * 101) / ("e" * 90)).read_bytes() == b"split"
    assert (out / "a/naïve-é.py").read_bytes() == b""
    assert (out / "a/b/file.py").read_bytes() == b"x = 1\n" * 30_000


@given(st.binary(max_size=200_000))
def test_gzip_is_gzip(data: bytes) -> None:
    layer = packed(data)
    assert gzip.decompress(layer.data) == data
    assert layer.diff_id == digest_of(data)
    assert (layer.descriptor.digest, layer.descriptor.size) == (digest_of(layer.data), len(layer.data))


def test_sizes_around_a_stored_block() -> None:
    for size in (0, 0xFFFE, 0xFFFF, 0x10000, 0x1FFFE, 0x1FFFF):
        assert gzip.decompress(packed(b"z" * size).data) == b"z" * size


def test_only_links_have_targets() -> None:
    plain = Entry(path="f", data=b"x")
    was_a_link = Entry(path="f", data=b"x", target="somewhere", split=True, offset=7, size=9)
    assert make_layer([was_a_link], parents={}).diff_id == make_layer([plain], parents={}).diff_id


def test_a_docker_image_gets_a_docker_layer() -> None:
    assert packed(b"", DOCKER_MANIFEST).descriptor.media_type == DOCKER_LAYER_GZIP
    assert packed(b"", DOCKER_LAYER_GZIP).descriptor.media_type == DOCKER_LAYER_GZIP
    assert packed(b"").descriptor.media_type == OCI_LAYER_GZIP


@pytest.mark.parametrize(
    ("entries", "deleted", "message"),
    [
        ([Entry(path="a/f", data=b"")], [], "a/f: mode and owner of its directory a are not known"),
        ([Entry(path="f", data=b""), Entry(path="f", data=b"")], [], "f: expected once in a layer, found twice"),
        ([Entry(path="f", data=b"")], ["f"], "f: both written and deleted in one layer"),
        ([folder("a"), Entry(path="a/f", data=b"")], ["a"], "a: both written and deleted in one layer"),
        ([Entry(path="f")], [], "f: a file without content"),
        ([Entry(path="l", kind=Kind.LINK, target="x"), Entry(path="l/f", data=b"")], [],
         "l/f: expected the directory l above it, found link"),
        ([Entry(path="n", kind=Kind.FIFO)], [], "n: expected a file, link or directory, found fifo"),
        ([], ["a", "a/b"], "a/b: its directory a is deleted in the same layer"),
    ],
)  # fmt: skip
def test_refused(entries: list[Entry], deleted: list[str], message: str) -> None:
    with pytest.raises(ValueError, match="^" + message):
        make_layer(entries, deleted=deleted, parents={})


@pytest.mark.parametrize("path", ["", "/a", "a/", "a//b", "../a", "a/./b", "a\0", ".wh.a", "a/.wh..wh..opq", ".wh.d/f"])
def test_paths_that_cannot_stand_in_a_layer(path: str) -> None:
    with pytest.raises(ValueError, match=r"expected a path|would delete"):
        check_path(path)


NAMES = st.text("abé.", min_size=1, max_size=130).filter(lambda name: name not in (".", ".."))


@given(
    st.dictionaries(
        st.lists(NAMES, min_size=1, max_size=3).map("/".join),
        st.tuples(
            st.binary(max_size=2000), st.integers(0, 0o7777), st.integers(0, 2**33), st.integers(-(2**33), 2**35),
            st.dictionaries(st.sampled_from(["user.a", "security.b"]), st.binary(min_size=1, max_size=9), max_size=2),
        ),
        max_size=5,
    )
)  # fmt: skip
def test_what_is_made_is_scanned_back(files: dict[str, tuple[bytes, int, int, int, dict[str, bytes]]]) -> None:
    paths = {path for path in files if not any(other.startswith(f"{path}/") for other in files)}
    entries = [
        Entry(path=path, data=data, mode=mode, uid=uid, mtime=mtime, xattrs=tuple(sorted(xattrs.items())))
        for path, (data, mode, uid, mtime, xattrs) in files.items()
        if path in paths
    ]
    above = {"/".join(path.split("/")[:n]) for path in paths for n in range(1, path.count("/") + 1)}
    layer = make_layer(entries, parents={path: folder(path) for path in above})
    found = scan(iter([layer.data]), paths)
    assert (found.digest, found.diff_id) == (layer.descriptor.digest, layer.diff_id)
    assert found.entries.keys() == paths | above
    for entry in entries:
        seen = found.entries[entry.path]
        assert (seen.data, seen.mode, seen.uid, seen.mtime) == (entry.data, entry.mode, entry.uid, entry.mtime)
        assert seen.xattrs == entry.xattrs
