"""Runs an action in a forked child that kills itself (SIGKILL) at its n-th change of the file system."""

from __future__ import annotations

import os
import shutil
import signal
import stat
import sys
import traceback
import warnings
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

CHANGES = {
    "os.rename",
    "os.remove",
    "os.mkdir",
    "os.rmdir",
    "os.symlink",
    "os.link",
    "os.chmod",
    "os.chown",
    "os.utime",
    "os.setxattr",
    "os.truncate",
}
REAL_FSYNC = os.fsync


class Killer:
    """Counts changes, and kills its process just before the n-th. Every fsync of a file counts, too:
    there the file is cut in half first, as where the machine stopped in the middle of the write."""

    def __init__(self, at: int) -> None:
        self.left = at

    def count(self) -> None:
        self.left -= 1
        if self.left == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    def hook(self, event: str, args: tuple[Any, ...]) -> None:
        if event in CHANGES or (event == "open" and isinstance(args[2], int) and args[2] & os.O_CREAT):
            self.count()

    def fsync(self, handle: int) -> None:
        status = os.fstat(handle)
        if stat.S_ISREG(status.st_mode) and self.left == 1:
            os.ftruncate(handle, status.st_size // 2)
        self.count()


def killed_at(number: int, action: Callable[[], object]) -> bool:
    """Run `action` in a child; whether it was killed (False: it has fewer changes than that)."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # the child of a process with threads: it only writes files
        pid = os.fork()
    if pid == 0:
        code = 1
        try:
            killer = Killer(number)
            os.fsync = killer.fsync
            sys.addaudithook(killer.hook)
            action()
            code = 0
        except BaseException:  # noqa: BLE001 - whatever it is, the parent must hear of it
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(code)
    _, status = os.waitpid(pid, 0)
    if os.WIFSIGNALED(status):
        assert os.WTERMSIG(status) == signal.SIGKILL
        return True
    assert os.WEXITSTATUS(status) == 0, f"the child failed at change {number}"
    return False


def copy(source: Path, target: Path) -> Path:
    """A copy with modes, owners, attributes, links and times."""
    if target.exists():
        shutil.rmtree(target)
    names: dict[int, str] = {}
    _copy_dir(os.fspath(source), os.fspath(target), names)
    return target


def _copy_dir(source: str, target: str, names: dict[int, str]) -> None:
    os.mkdir(target)
    for entry in os.scandir(source):
        here = f"{target}/{entry.name}"
        if entry.is_dir(follow_symlinks=False):
            _copy_dir(entry.path, here, names)
        elif (known := names.setdefault(entry.inode(), here)) != here:
            os.link(known, here, follow_symlinks=False)
        else:
            shutil.copy2(entry.path, here, follow_symlinks=False)
            _copy_owner(entry.stat(follow_symlinks=False), here)
    _copy_owner(os.lstat(source), target)
    shutil.copystat(source, target)


def _copy_owner(status: os.stat_result, target: str) -> None:
    if os.geteuid() == 0:
        os.chown(target, status.st_uid, status.st_gid, follow_symlinks=False)
