"""The machine refuses: exit 8 with the file and the reason, the tree as before, nothing left behind."""

from __future__ import annotations

import errno
import fcntl
import os
import resource
import signal
import subprocess
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from patchkit.core import files
from patchkit.core.errors import ConflictError, DriftError, RefusedByMachineError
from patchkit.core.verdicts import Outcome
from tests.core.stacks import (
    Content,
    Stack,
    apply,
    build,
    diff,
    leftovers,
    listing,
    numbered,
    revert,
    snapshot,
    verdicts,
    verify,
    write_tree,
)
from tests.core.users import AS_ROOT, as_user, in_child, open_to_user

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

A, GONE, PY, NEW = "pkg/a.txt", "low/gone.txt", "pkg/m.py", "fresh/new.txt"
PRISTINE: dict[str, Content] = {A: numbered(), GONE: numbered(), "low/stay.txt": "stay\n", PY: "X = 1\n"}
needs_root = pytest.mark.skipif(not AS_ROOT, reason="mounts and changes of owner need root")


def stack(version: int = 1, size: int = 0) -> Stack:
    steps = {
        "mod": diff({A: numbered()}, {A: numbered(20, _5=f"v{version}")}),
        "del": diff({GONE: numbered()}, {}),
        "py": diff({PY: "X = 1\n"}, {PY: "X = 2\n"}),
        "add": diff({}, {NEW: f"{version}\n" + "x" * 70 * size + "\n"}),
    }
    return build(PRISTINE, steps, version=version)


def refuses(act: Callable[[], object], site: Path, *words: str) -> None:
    before, tree = listing(site), snapshot(site)
    with pytest.raises(RefusedByMachineError) as caught:
        act()
    assert caught.value.exit_code == 8
    for word in words:
        assert word in str(caught.value)
    assert snapshot(site) == tree
    assert {p for p in listing(site) if p not in before} == set()
    assert leftovers(site) == []


@contextmanager
def mounted(where: Path, *options: str) -> Iterator[None]:
    subprocess.run(["mount", *options, os.fspath(where)], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", os.fspath(where)], check=True)


@pytest.fixture
def site(tmp_path: Path) -> Path:
    return write_tree(tmp_path / "site", PRISTINE)


@needs_root
def test_a_read_only_mount(site: Path) -> None:
    apply(stack(), site)
    with mounted(site, "--bind", os.fspath(site)), readonly(site):
        refuses(lambda: apply(stack(2), site), site, "Read-only file system", str(site))
        refuses(lambda: revert(site), site, "Read-only file system")
        assert apply(stack(), site).outcome is Outcome.UNCHANGED
        assert verify(stack(), site).outcome is Outcome.CLEAN
    revert(site)
    with mounted(site, "--bind", os.fspath(site)), readonly(site):
        refuses(lambda: apply(stack(), site), site, "Read-only file system")
        assert revert(site).outcome is Outcome.UNCHANGED


@contextmanager
def readonly(site: Path) -> Iterator[None]:
    subprocess.run(["mount", "-o", "remount,bind,ro", os.fspath(site)], check=True)
    yield


@needs_root
def test_one_directory_is_a_read_only_mount(site: Path) -> None:
    """Only a removal happens there: it is seen before anything is changed."""
    with mounted(site / "low", "--bind", os.fspath(site / "low")), readonly(site / "low"):
        refuses(lambda: apply(stack(), site), site, "Read-only file system", GONE)


@needs_root
def test_a_file_is_a_mount_of_its_own(site: Path, tmp_path: Path) -> None:
    (tmp_path / "mine").write_text(numbered())
    for path in (A, GONE):
        with mounted(site / path, "--bind", os.fspath(tmp_path / "mine")):
            refuses(lambda: apply(stack(), site), site, f"{path}: it is mounted there by itself")
    assert (tmp_path / "mine").read_text() == numbered()
    assert apply(stack(), site).outcome is Outcome.APPLIED


@needs_root
def test_an_immutable_file(site: Path) -> None:
    if subprocess.run(["chattr", "+i", site / GONE], capture_output=True, check=False).returncode:
        pytest.skip("this file system has no immutable files")
    try:
        refuses(lambda: apply(stack(), site), site, f"{GONE}: it is immutable")
    finally:
        subprocess.run(["chattr", "-i", site / GONE], check=True)


@needs_root
def test_a_full_disk(tmp_path: Path) -> None:
    """Wherever in the change the space runs out: file systems with one page more each time."""
    root = tmp_path / "small"
    root.mkdir()
    big = stack(size=600)
    refused = 0
    for pages in range(6, 60):
        with mounted(root, "-t", "tmpfs", "-o", f"size={pages * 4}k", "tmpfs"):
            site = write_tree(root / "site", PRISTINE)
            if pages > 40:
                assert apply(big, site).outcome is Outcome.APPLIED
                break
            before = snapshot(site)
            try:
                apply(big, site)
            except RefusedByMachineError as error:
                assert "No space left on device" in str(error)
                assert str(site) in str(error)
                assert snapshot(site) == before
                refused += 1
    assert refused > 10


@pytest.mark.parametrize("limit", [0, 200, 1500, 3000, 20000])
def test_no_room_for_a_file(limit: int, site: Path) -> None:
    """As a full disk, for every user: no file may be longer than `limit`."""

    def act() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
        apply(stack(size=600), site)

    before = snapshot(site)
    kind, text = in_child(act)
    assert kind is RefusedByMachineError
    assert "File too large" in text
    assert str(site) in text
    assert snapshot(site) == before


@pytest.mark.parametrize("locked_dir", ["pkg", "low", ".", "pkg/__pycache__"])
def test_a_directory_of_somebody_elses(locked_dir: str, site: Path) -> None:
    (site / "pkg/__pycache__").mkdir()
    (site / "pkg/__pycache__/m.cpython-311.pyc").write_bytes(b"stale")
    open_to_user(site)
    (site / locked_dir).chmod(0o555)
    if AS_ROOT:
        os.chown(site / locked_dir, 0, 0)
    before = snapshot(site)
    try:
        kind, text = as_user(lambda: apply(stack(), site))
        assert (kind, snapshot(site)) == (RefusedByMachineError, before), text
        assert "the directory cannot be written" in text or "Permission denied" in text
        assert "nothing was changed" in text
    finally:
        (site / locked_dir).chmod(0o755)


def test_a_file_that_cannot_be_read(site: Path) -> None:
    open_to_user(site)
    (site / A).chmod(0)
    if AS_ROOT:
        os.chown(site / A, 0, 0)
    kind, text = as_user(lambda: apply(stack(), site))
    assert kind is RefusedByMachineError
    assert text == f"cannot read {site}/{A}: Permission denied"
    assert not (site / ".patchkit").exists()


@needs_root
def test_an_owner_that_cannot_be_kept(site: Path) -> None:
    """A file of root's in the user's directory: the user may replace it, but not keep its owner."""
    open_to_user(site)
    os.chown(site / A, 0, 0)
    before = snapshot(site)
    kind, text = as_user(lambda: apply(stack(), site))
    assert kind is RefusedByMachineError
    assert "Operation not permitted" in text
    assert str(site / "pkg") in text
    assert snapshot(site) == before


@needs_root
def test_a_sticky_directory(site: Path) -> None:
    open_to_user(site)
    (site / "low").chmod(0o1777)
    os.chown(site / "low", 0, 0)
    os.chown(site / GONE, 0, 0)
    before = snapshot(site)
    kind, text = as_user(lambda: apply(stack(), site))
    assert kind is RefusedByMachineError
    assert "it is another user's, in a sticky directory" in text
    assert snapshot(site) == before


def test_an_attribute_that_cannot_be_set(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    os.setxattr(site / A, "user.note", b"kept")

    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.ENOTSUP, "Operation not supported")

    with monkeypatch.context() as patch:
        patch.setattr(os, "setxattr", refuse)
        refuses(lambda: apply(stack(), site), site, "the extended attribute user.note cannot be set here", "pkg/")
    apply(stack(), site)
    assert os.getxattr(site / A, "user.note") == b"kept"


@needs_root
def test_set_group_directories_do_not_take_the_group(site: Path) -> None:
    """New files in a set-gid directory get its group: a patched file keeps its own."""
    os.chown(site / "pkg", 0, 1234)
    (site / "pkg").chmod(0o2755)
    os.chown(site / A, 0, 0)
    (site / A).chmod(0o4640)
    assert apply(stack(), site).outcome is Outcome.APPLIED
    status = (site / A).stat()
    assert (status.st_uid, status.st_gid, status.st_mode & 0o7777) == (0, 0, 0o4640)


def test_an_error_while_undoing_hides_no_error(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = files.write_new

    def fail(where: object, path: str, *args: Any) -> None:
        if path.endswith("-2.tmp"):
            monkeypatch.setattr(files, "remove", fail_too)
            raise OSError(errno.EIO, "first")
        real(where, path, *args)  # type: ignore[arg-type]

    def fail_too(*_: object) -> None:
        raise OSError(errno.EIO, "second")

    before = {path: what for path, what in snapshot(site).items() if path not in (".", "pkg", "low")}
    with monkeypatch.context() as patch:
        patch.setattr(files, "write_new", fail)
        with pytest.raises(RefusedByMachineError) as caught:
            apply(stack(), site)
    monkeypatch.undo()
    assert "first" in caught.value.problems[0]
    assert "second" in caught.value.problems[1]
    assert caught.value.hint == "run the same command again: it removes them"
    assert leftovers(site)
    report = apply(stack(), site)
    assert report.notes[0] == "an interrupted run was undone"
    assert leftovers(site) == []
    revert(site)
    assert before.items() <= snapshot(site).items()


@pytest.mark.parametrize("at", range(1, 11))
def test_an_interrupt_while_preparing(at: int, site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real, calls = files.write_new, 0

    def interrupt(*args: Any) -> None:
        nonlocal calls
        calls += 1
        real(*args)
        if calls == at:
            raise KeyboardInterrupt

    before = snapshot(site)
    monkeypatch.setattr(files, "write_new", interrupt)
    if at > 9:
        apply(stack(), site)
        assert calls == 9
        return
    with pytest.raises(KeyboardInterrupt):
        apply(stack(), site)
    assert snapshot(site) == before


def test_somebody_changes_a_file_while_we_work(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = files.write_new

    def interfere(where: Any, path: str, *args: Any) -> None:
        real(where, path, *args)
        if path == ".patchkit/ledger.json.tmp":
            (site / A).write_text("mine\n")

    apply(stack(), site)
    monkeypatch.setattr(files, "write_new", interfere)
    with pytest.raises(DriftError, match=r"pkg/a\.txt: somebody changed it while patchkit was at work"):
        apply(stack(2), site)
    assert (site / A).read_text() == "mine\n"
    assert leftovers(site) == []


def test_somebody_makes_a_directory_where_a_file_is_to_go(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = files.write_new

    def interfere(where: Any, path: str, *args: Any) -> None:
        real(where, path, *args)
        if path == ".patchkit/ledger.json.tmp":
            (site / "new.txt").mkdir()

    monkeypatch.setattr(files, "write_new", interfere)
    with pytest.raises(DriftError, match=r"new\.txt: somebody changed it while patchkit was at work"):
        apply(build({}, {"add": diff({}, {"new.txt": "x\n"})}), site)
    assert (site / "new.txt").is_dir()
    assert not (site / ".patchkit").exists()


def test_temporary_names_that_are_taken(site: Path) -> None:
    for number in range(1, 6):
        (site / f"pkg/.patchkit-{number}.tmp").write_text("mine")
        (site / f".patchkit-{number}.tmp").mkdir()
    before = snapshot(site)
    assert apply(stack(), site).outcome is Outcome.APPLIED
    assert revert(site).outcome is Outcome.REVERTED
    assert snapshot(site) == before


def test_python_that_does_not_compile(site: Path) -> None:
    bad = build(
        PRISTINE, {"ok": diff({A: numbered()}, {A: "x\n"}), "bad": diff({PY: "X = 1\n"}, {PY: "X = 1\ndef f(:\n"})}
    )
    before = listing(site)
    report = apply(bad, site)
    assert (report.exit_code, report.outcome) == (3, Outcome.REFUSED)
    assert isinstance(report.error, ConflictError)
    assert report.error.problems == (
        f"step bad: {PY} does not compile after the patch: line 2: invalid syntax: def f(:",
    )
    assert verdicts(report) == {"ok": "applies", "bad": "conflict"}
    assert report.steps[1].detail == (f"{PY} does not compile after the patch: line 2: invalid syntax: def f(:",)
    assert apply(bad, site, dry_run=True).exit_code == 3
    assert listing(site) == before


def test_python_that_never_compiled(tmp_path: Path) -> None:
    old = "print 'two'\nX = 1\n"
    pristine: dict[str, Content] = {"two.py": old, "moved.py": old}
    steps = {
        "edit": diff({"two.py": old}, {"two.py": "print 'two'\nX = 2\n"}),
        "move": "diff --git a/moved.py b/other.py\nsimilarity index 100%\nrename from moved.py\nrename to other.py\n",
    }
    site = write_tree(tmp_path / "site", pristine)
    report = apply(build(pristine, steps), site)
    assert report.outcome is Outcome.APPLIED
    version = f"{sys.version_info[0]}.{sys.version_info[1]}"
    assert report.notes == (
        f"not compiled: other.py: its pristine text does not compile with Python {version} either",
        f"not compiled: two.py: its pristine text does not compile with Python {version} either",
    )


def test_hard_links_are_told_and_come_back(site: Path) -> None:
    os.link(site / A, site / "twin.txt")
    os.link(site / A, site / "third.txt")
    before = snapshot(site)
    report = apply(stack(), site)
    assert report.notes == (f"{A} has 2 more hard link(s): the other names keep the old bytes",)
    assert (site / "twin.txt").read_text() == numbered()
    assert apply(stack(), site).notes == ()
    revert(site)
    assert snapshot(site) == before


def test_a_lock_that_the_file_system_does_not_have(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.EBADF, "Bad file descriptor")

    with monkeypatch.context() as patch:
        patch.setattr(fcntl, "flock", refuse)
        refuses(lambda: apply(stack(), site), site, f"cannot lock {site}: Bad file descriptor")


@pytest.mark.parametrize("at", [1, 2, 3])
def test_a_directory_is_swapped_for_a_link_in_the_middle(
    at: int, site: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Past the commit point, at each rename: nothing is written through the link, and the change can
    be finished once the directory is back."""
    outside = write_tree(tmp_path / "outside", {"a.txt": "theirs\n", "m.py": "theirs\n"})
    before = snapshot(outside)
    real, moves = files.replace, 0

    def swap(where: Any, source: str, target: str) -> None:
        nonlocal moves
        moves += source.startswith("pkg/")
        if moves == at and source.startswith("pkg/"):
            (site / "pkg").rename(tmp_path / "away")
            (site / "pkg").symlink_to(outside)
        real(where, source, target)

    with monkeypatch.context() as patch:
        patch.setattr(files, "replace", swap)
        if at == 3:
            assert apply(stack(), site).outcome is Outcome.APPLIED
            return
        with pytest.raises(DriftError, match="pkg, on the way to it, is a symbolic link"):
            apply(stack(), site)
    assert snapshot(outside) == before
    with pytest.raises(DriftError):
        apply(stack(), site)
    assert snapshot(outside) == before
    (site / "pkg").unlink()
    (tmp_path / "away").rename(site / "pkg")
    assert apply(stack(), site).notes[0] == "an interrupted run was finished"
    assert verify(stack(), site).outcome is Outcome.CLEAN


def test_a_directory_is_swapped_for_a_link_before_the_commit(
    site: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    outside = write_tree(tmp_path / "outside", {"a.txt": numbered()})
    before = snapshot(outside)
    real = files.write_new

    def swap(where: Any, path: str, *args: Any) -> None:
        if path == "pkg/.patchkit-2.tmp":
            (site / "pkg").rename(tmp_path / "away")
            (site / "pkg").symlink_to(outside)
        real(where, path, *args)

    with monkeypatch.context() as patch:
        patch.setattr(files, "write_new", swap)
        with pytest.raises(DriftError, match="is a symbolic link"):
            apply(stack(), site)
    assert snapshot(outside) == before
    assert not (site / ".patchkit").exists()


def test_a_stack_that_changes_nothing(site: Path) -> None:
    nothing = build(PRISTINE, {})
    assert apply(nothing, site).outcome is Outcome.APPLIED
    assert apply(nothing, site).outcome is Outcome.UNCHANGED
    assert verify(nothing, site).outcome is Outcome.CLEAN
    assert revert(site).outcome is Outcome.REVERTED
    assert not (site / ".patchkit").exists()


def test_everything_is_on_the_disk_before_the_commit_point(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The order that survives a loss of power: whatever the commit needs is synced, and its directory,
    before the journal says so; and all renames are synced before the ledger, and that before the end."""
    calls: list[tuple[str, str]] = []
    real_sync, real_replace, real_remove = os.fsync, os.replace, os.unlink

    def name(handle: int) -> str:
        return os.path.relpath(os.readlink(f"/proc/self/fd/{handle}"), site)

    def fsync(handle: int) -> None:
        calls.append(("sync", name(handle)))
        real_sync(handle)

    def replace(source: str, target: str, *, src_dir_fd: int, dst_dir_fd: int) -> None:
        calls.append(("rename", os.path.normpath(f"{name(dst_dir_fd)}/{target}")))
        real_replace(source, target, src_dir_fd=src_dir_fd, dst_dir_fd=dst_dir_fd)

    def unlink(path: str, *, dir_fd: int) -> None:
        calls.append(("remove", os.path.normpath(f"{name(dir_fd)}/{path}")))
        real_remove(path, dir_fd=dir_fd)

    for attribute, fake in (("fsync", fsync), ("replace", replace), ("unlink", unlink)):
        monkeypatch.setattr(os, attribute, fake)
    apply(stack(), site)
    monkeypatch.undo()
    begun, commit = (i for i, call in enumerate(calls) if call == ("rename", ".patchkit/journal.json"))
    ledger = calls.index(("rename", ".patchkit/ledger.json"))
    end = calls.index(("remove", ".patchkit/journal.json"))
    assert {("sync", "."), ("sync", ".patchkit/journal.json.tmp")} <= set(calls[:begun])
    assert calls[begun + 1] == calls[commit + 1] == calls[ledger + 1] == ("sync", ".patchkit")
    prepared = {what for kind, what in calls[begun:commit] if kind == "sync"}
    assert prepared >= {".patchkit/ledger.json.tmp", ".patchkit/log.tmp", ".patchkit/pristine", "pkg", "."}
    assert sum(what.startswith("pkg/.patchkit-") for what in prepared) == 2
    assert calls[commit - 1] == ("sync", ".patchkit")
    assert [what for kind, what in calls[:commit] if kind == "rename"] == [".patchkit/journal.json"]
    done = calls[commit + 1 : ledger]
    last = max(i for i, (kind, what) in enumerate(done) if kind != "sync" and ".patchkit/" not in what)
    assert {("sync", "pkg"), ("sync", "."), ("sync", "low")} <= set(done[last:])
    assert commit < ledger < end
    assert calls[-1] == ("sync", ".patchkit")
