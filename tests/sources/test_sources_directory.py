"""A directory as a source: the site in it, links, and nothing outside it."""

from __future__ import annotations

import os
import socket
from typing import TYPE_CHECKING

import pytest

from patchkit.core.errors import ConfigError, ConflictError, RefusedByMachineError
from patchkit.core.site import resolve_site
from patchkit.core.tree import LINK, FileState
from patchkit.sources.directory import DirectorySource

if TYPE_CHECKING:
    from pathlib import Path

SITE = ("usr/lib/python3*/dist-packages", "opt/*/site-packages")


def write(path: Path, data: bytes = b"x", mode: int = 0o644) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    path.chmod(mode)
    return path


@pytest.fixture
def root(tmp_path: Path) -> Path:
    write(tmp_path / "root/usr/lib/python3.12/dist-packages/vllm/a.py", b"a\r\n", 0o4750)
    return tmp_path / "root"


def open_it(root: Path) -> DirectorySource:
    return DirectorySource(str(root), site=SITE)


def test_files_modes_links_and_absent_paths(root: Path) -> None:
    site = root / "usr/lib/python3.12/dist-packages"
    os.symlink("../../../etc/passwd", site / "vllm/link.py")
    source = open_it(root)
    assert source.read("vllm/a.py") == FileState(mode=0o4750, data=b"a\r\n")
    assert source.read("vllm/link.py") == FileState(kind=LINK, mode=0o777, data=b"../../../etc/passwd")
    for path in ("vllm/b.py", "other/b.py", "no/such/way/b.py"):
        assert source.read(path) is None
    assert source.describe() == f"{root} (a directory, site usr/lib/python3.12/dist-packages)"
    assert (source.spec, source.artifact_sha256) == (str(root), None)
    source.close()


@pytest.mark.parametrize(
    "path", ["", "/etc/passwd", "../x", "vllm/../../x", "vllm//a.py", "./vllm/a.py", "vllm/", "a\0b"]
)
def test_paths_that_leave_the_site(root: Path, path: str) -> None:
    with pytest.raises(ConfigError, match="expected a path relative to the site"):
        open_it(root).read(path)


def test_directory_device_pipe_and_socket_are_errors(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    site = root / "usr/lib/python3.12/dist-packages"
    os.mkfifo(site / "pipe")
    with socket.socket(socket.AF_UNIX) as listener:
        monkeypatch.chdir(site)  # the name of a socket is short
        listener.bind("socket")
    for path, found in (("vllm", "directory"), ("pipe", "device or pipe"), ("socket", "socket or device")):
        with pytest.raises(ConflictError, match=f"{path}: it is a {found}, no regular file"):
            open_it(root).read(path)


def test_a_link_on_the_way_is_never_followed(root: Path, tmp_path: Path) -> None:
    site = root / "usr/lib/python3.12/dist-packages"
    write(tmp_path / "outside/secret.py")
    os.symlink(tmp_path / "outside", site / "out")
    os.symlink("vllm", site / "alias")
    os.symlink("loop", site / "loop")
    for path in ("out/secret.py", "alias/a.py", "loop/a.py"):
        with pytest.raises(ConflictError, match=f"{path.split('/')[0]}, on the way to it, is a symbolic link"):
            open_it(root).read(path)


def test_links_to_the_site_are_resolved_beneath_the_root(root: Path, tmp_path: Path) -> None:
    write(tmp_path / "opt/real/site-packages/vllm/a.py", b"outside")
    write(root / "opt-real/site-packages/vllm/a.py", b"inside")
    image = root.parent / "image"
    (image / "opt").mkdir(parents=True)
    write(image / "real/site-packages/vllm/a.py", b"inside")
    for target in ("/real", "../real", "../../../../real"):
        link = image / "opt/venv"
        link.unlink(missing_ok=True)
        link.symlink_to(target)
        source = open_it(image)
        state = source.read("vllm/a.py")
        assert state is not None
        assert state.data == b"inside"
        assert source.describe().endswith("site real/site-packages)")


def test_two_names_of_one_site_are_one(root: Path) -> None:
    (root / "opt").mkdir()
    os.symlink("/usr/lib/python3.12", root / "opt/venv")
    os.symlink("dist-packages", root / "usr/lib/python3.12/site-packages")
    assert resolve_site(str(root), SITE) == f"{root}/usr/lib/python3.12/dist-packages"


def test_ambiguous_site(root: Path) -> None:
    (root / "usr/lib/python3.11/dist-packages").mkdir(parents=True)
    with pytest.raises(ConfigError, match=r"several site directories match .*python3.11/dist-packages, .*") as caught:
        open_it(root)
    assert caught.value.hint == "name the one that is meant: --site PATH (relative to the root)"


def test_links_in_a_circle_are_no_site(tmp_path: Path) -> None:
    (tmp_path / "opt").mkdir()
    os.symlink("b", tmp_path / "opt/a")
    os.symlink("a", tmp_path / "opt/b")
    assert resolve_site(str(tmp_path), SITE) is None


def test_a_site_stays_below_the_root(tmp_path: Path) -> None:
    (tmp_path / "x").mkdir()
    (tmp_path / "root/x").mkdir(parents=True)
    assert resolve_site(str(tmp_path / "root"), ("../x",)) == f"{tmp_path}/root/x"


def test_the_directory_itself_may_be_the_site(tmp_path: Path) -> None:
    write(tmp_path / "vllm/a.py", b"a")
    source = open_it(tmp_path)
    assert source.read("vllm/a.py") == FileState(data=b"a")
    assert source.read("elsewhere/new.py") is None
    assert source.describe() == f"{tmp_path} (a directory, itself the site)"


def test_neither_site_nor_first_part(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"expected a site .* or vllm, found neither"):
        open_it(tmp_path).read("vllm/a.py")


def test_no_directory(tmp_path: Path) -> None:
    write(tmp_path / "file")
    for name, found in (("no", "nothing"), ("file", "a file")):
        with pytest.raises(ConfigError, match=f"expected a directory, found {found}"):
            open_it(tmp_path / name)


def test_unreadable_file(root: Path) -> None:
    for path in ("x" * 300, "x" * 300 + "/a.py"):
        with pytest.raises(RefusedByMachineError, match=r"cannot read .*: File name too long"):
            open_it(root).read(f"vllm/{path}")
