"""The way into a root: sites through links and globs, and everything odd that can stand there."""

from __future__ import annotations

import os
import socket
import stat
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest

from patchkit.core.errors import ConfigError, DriftError, RefusedByMachineError
from patchkit.core.site import Site, machine_says, resolve_beneath, resolve_site
from patchkit.core.tree import LINK, FileState, UnreadableError
from tests.core.stacks import apply, build, diff, snapshot, verdicts, write_tree

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "root/usr/lib/python3.12/site").mkdir(parents=True)
    (tmp_path / "outside/site").mkdir(parents=True)
    return tmp_path / "root"


def site_of(root: Path, *patterns: str) -> str | None:
    found = resolve_site(str(root), patterns)
    return None if found is None else os.path.relpath(found, root)


def test_a_plain_site(root: Path) -> None:
    assert site_of(root, "usr/lib/python3.12/site") == "usr/lib/python3.12/site"
    assert site_of(root, "usr/lib/python3.12/nothing") is None
    (root / "usr/lib/python3.12/file").write_text("")
    assert site_of(root, "usr/lib/python3.12/file") is None


def test_a_link_inside(root: Path) -> None:
    (root / "usr/lib/python3").symlink_to("python3.12")
    assert site_of(root, "usr/lib/python3/site") == "usr/lib/python3.12/site"
    assert site_of(root, "usr/lib/python3*/site") == "usr/lib/python3.12/site"


def test_an_absolute_link_stays_inside(root: Path) -> None:
    (root / "opt").symlink_to("/usr/lib")
    assert site_of(root, "opt/python3.12/site") == "usr/lib/python3.12/site"
    assert site_of(root, "opt/python3.*/site") == "usr/lib/python3.12/site"
    assert site_of(root, "opt/*/site", "usr/lib/*/site") == "usr/lib/python3.12/site"


def test_a_link_that_would_leave(root: Path) -> None:
    """As inside a chroot: `..` of the root is the root."""
    (root / "up").symlink_to("../outside/site")
    (root / "far").symlink_to(root.parent / "outside/site")
    for name in ("up", "far"):
        assert site_of(root, name) is None
    (root / "outside/site").mkdir(parents=True)
    assert site_of(root, "up") == "outside/site"


def test_globs(root: Path) -> None:
    (root / "usr/lib/python3.13/site").mkdir(parents=True)
    with pytest.raises(ConfigError) as caught:
        resolve_site(str(root), ("usr/lib/python3.*/site",))
    found = ", ".join(f"{root}/usr/lib/python3.{minor}/site" for minor in (12, 13))
    assert str(caught.value) == f"{root}: several site directories match usr/lib/python3.*/site: {found}"
    assert caught.value.hint == "name the one that is meant: --site PATH (relative to the root)"
    assert site_of(root, "usr/lib/python3.?3/site") == "usr/lib/python3.13/site"
    assert site_of(root, "usr/lib/python3.[0-9][3-9]/site") == "usr/lib/python3.13/site"
    (root / "usr/lib/.hidden/site").mkdir(parents=True)
    assert site_of(root, "usr/lib/*2/site") == "usr/lib/python3.12/site"
    with pytest.raises(ConfigError, match="several"):
        resolve_site(str(root), ("usr/lib/python3.12/site", "usr/lib/python3.13/site"))
    assert site_of(root, "usr/lib/python3.12/site", "usr/lib/python3.12/sit?") == "usr/lib/python3.12/site"


def test_a_loop_of_links(root: Path) -> None:
    (root / "a").symlink_to("b")
    (root / "b").symlink_to("a")
    assert resolve_beneath(str(root), "a/site") is None
    assert site_of(root, "a/site") is None


def test_a_root_with_glob_characters_in_its_name(tmp_path: Path) -> None:
    root = tmp_path / "r[1]*"
    (root / "lib/site").mkdir(parents=True)
    assert site_of(root, "l*/site") == "lib/site"


def everything(base: Path) -> Path:
    site = write_tree(base / "site", {"file": "x", "dir/file": "y", "link": FileState(kind=LINK, data=b"dir")})
    (site / "file").chmod(0o4750)
    os.mkfifo(site / "fifo")
    with socket.socket(socket.AF_UNIX) as server:
        here = os.getcwd()
        os.chdir(site)
        try:
            server.bind("socket")
        finally:
            os.chdir(here)
    return site


def test_what_stands_there(tmp_path: Path) -> None:
    with Site(str(everything(tmp_path))) as site:
        file = site.read("file")
        assert (file and file.mode, file and file.data) == (0o4750, b"x")
        link = site.read("link")
        assert (link and link.kind, link and link.data) == (LINK, b"dir")
        assert site.read("nothing") is None
        assert site.read("nothing/below") is None
        for path, why in (
            ("dir", "it is a directory, no regular file"),
            ("fifo", "it is a device or pipe, no regular file"),
            ("socket", "it is a socket or device, no regular file"),
            ("link/file", "link, on the way to it, is a symbolic link; patchkit does not follow it"),
            ("file/below", "file, on the way to it, is no directory"),
            ("fifo/below", "fifo, on the way to it, is no directory"),
        ):
            with pytest.raises(UnreadableError) as caught:
                site.read(path)
            assert str(caught.value) == why
        for path in ("", ".", "..", "a/../b", "/a", "a//b", "a/."):
            with pytest.raises(ValueError, match="unsafe path"):
                site.read(path)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes devices")
def test_a_device(tmp_path: Path) -> None:
    site = everything(tmp_path)
    os.mknod(site / "null", stat.S_IFCHR | 0o666, os.makedev(1, 3))
    os.mknod(site / "nobody", stat.S_IFCHR | 0o666, os.makedev(240, 99))
    with Site(str(site)) as opened:
        for name in ("null", "nobody"):
            with pytest.raises(UnreadableError, match="device"):
                opened.read(name)


@pytest.mark.parametrize("name", ["dir", "fifo", "socket", "link/file", "file/below"])
def test_a_step_on_something_odd_is_a_conflict(name: str, tmp_path: Path) -> None:
    site = everything(tmp_path)
    before = snapshot(site)
    for step in (diff({name: "a\n"}, {name: "b\n"}), diff({}, {name: "b\n"}), diff({name: "a\n"}, {})):
        stack = build({name: "a\n"} if "--- a" in step else {}, {"s": step}, exact=False)
        report = apply(stack, site)
        assert report.exit_code == 3
        assert verdicts(report) in ({"s": "conflict"}, {"s": "missing"})
        assert name.partition("/")[0] in "\n".join(report.steps[0].detail)
    assert snapshot(site) == before


def test_no_descriptor_stays_open(tmp_path: Path) -> None:
    site = everything(tmp_path)
    count = len(os.listdir("/proc/self/fd"))
    with Site(str(site)) as opened:
        for path in ("file", "dir", "fifo", "socket", "link", "link/file", "dir/file", "dir/nothing", "file/below"):
            for look in (opened.read, opened.meta, opened.lstat):
                with suppress(UnreadableError):
                    look(path)
    assert len(os.listdir("/proc/self/fd")) == count


def test_links_swapped_in_while_we_look(tmp_path: Path) -> None:
    """A directory that becomes a link to somewhere else is not followed, whenever that happens."""
    site = everything(tmp_path)
    outside = write_tree(tmp_path / "outside", {"file": "secret"})
    with Site(str(site)) as opened:
        (site / "dir").rename(site / "away")
        (site / "dir").symlink_to(outside)
        with pytest.raises(UnreadableError, match="symbolic link"):
            opened.read("dir/file")
        site.rename(tmp_path / "moved")
        (tmp_path / "site").symlink_to(outside)
        file = opened.read("file")
        assert file is not None
        assert file.data == b"x"


def test_the_machine_says() -> None:
    with pytest.raises(RefusedByMachineError) as caught, machine_says("cannot do it"):
        raise OSError(28, "No space left on device", "a/b")
    assert str(caught.value) == "cannot do it: a/b: No space left on device"
    assert caught.value.hint == "free some space, then run the same command again"
    with pytest.raises(DriftError, match="cannot do it: it is a pipe"), machine_says("cannot do it"):
        raise UnreadableError("it is a pipe")


def test_metadata(tmp_path: Path) -> None:
    site = everything(tmp_path)
    os.setxattr(site / "file", "user.b", b"2")
    os.setxattr(site / "file", "user.a", b"1")
    os.link(site / "file", site / "twin")
    with Site(str(site)) as opened:
        meta = opened.meta("file")
        assert meta is not None
        assert tuple(x for x in meta.xattrs if x[0].startswith("user.")) == (("user.a", b"1"), ("user.b", b"2"))
        assert (meta.mode, meta.links, meta.uid, meta.gid) == (0o4750, 2, os.geteuid(), (site / "file").stat().st_gid)
        assert opened.meta("nothing") is None
        link = opened.meta("link")
        assert link is not None
        assert link.xattrs == ()
