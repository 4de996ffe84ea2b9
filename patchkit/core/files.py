"""Writes below a site: temporary files with all their metadata, directories, byte-code, and fsync."""

from __future__ import annotations

import errno
import os
import stat
from typing import TYPE_CHECKING

from patchkit.core.errors import RefusedByMachineError
from patchkit.core.ledger import Kept
from patchkit.core.tree import LINK, FileState, UnreadableError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from patchkit.core.site import Meta, Site

_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_DIR = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def kept(state: FileState, meta: Meta | None) -> Kept:
    """`state` as the ledger remembers it, with the owner and extended attributes of `meta`."""
    if meta is None:
        return Kept(sha256=state.sha256, kind=state.kind, mode=state.mode)
    return Kept(
        sha256=state.sha256,
        kind=state.kind,
        mode=state.mode,
        uid=meta.uid,
        gid=meta.gid,
        xattrs=tuple((name, value.hex()) for name, value in meta.xattrs),
    )


def write_new(site: Site, path: str, data: bytes, like: Kept) -> None:
    """Create `path` with `data` and the kind, mode, owner and attributes of `like`, and fsync it.

    The owner is set first, as changing it clears set-id bits and capabilities. Raises OSError.
    """
    with site.parent(path) as (fd, name):
        if like.kind == LINK:
            os.symlink(data, os.fsencode(name), dir_fd=fd)
            _own(like, lambda uid, gid: os.chown(name, uid, gid, dir_fd=fd, follow_symlinks=False))
            return
        handle = os.open(name, _NEW, 0o600, dir_fd=fd)
        with open(handle, "wb") as stream:
            stream.write(data)
            stream.flush()
            _own(like, lambda uid, gid: os.fchown(handle, uid, gid))
            for key, value in like.xattrs:
                _set_xattr(handle, key, bytes.fromhex(value))
            os.fchmod(handle, like.mode)
            os.fsync(handle)


def _own(like: Kept, chown: object) -> None:
    if like.uid is None or like.gid is None:
        return
    if (like.uid, like.gid) != (os.geteuid(), os.getegid()):
        chown(like.uid, like.gid)  # type: ignore[operator]


def _set_xattr(handle: int, key: str, value: bytes) -> None:
    try:
        os.setxattr(handle, key, value)
    except OSError as error:
        try:
            same = os.getxattr(handle, key) == value
        except OSError:
            same = False
        if not same:
            raise RefusedByMachineError(
                f"the extended attribute {key} cannot be set here: {error.strerror}",
                hint="run it as root, or on a file system that has this attribute",
            ) from error


def make_dir(site: Site, path: str, mode: int, uid: int | None, gid: int | None) -> None:
    """Create the directory `path` if it is not there, with this mode and owner."""
    with site.parent(path) as (fd, name):
        try:
            os.mkdir(name, 0o700, dir_fd=fd)
        except FileExistsError:
            return
        if uid is not None and gid is not None and (uid, gid) != (os.geteuid(), os.getegid()):
            os.chown(name, uid, gid, dir_fd=fd, follow_symlinks=False)
        os.chmod(name, mode, dir_fd=fd)


def replace(site: Site, source: str, target: str) -> None:
    """Rename `source` over `target`, both below the site."""
    with site.parent(source) as (from_fd, from_name), site.parent(target) as (to_fd, to_name):
        os.replace(from_name, to_name, src_dir_fd=from_fd, dst_dir_fd=to_fd)


def link(site: Site, source: str, target: str) -> None:
    """Give the file `source` the further name `target`."""
    with site.parent(source) as (from_fd, from_name), site.parent(target) as (to_fd, to_name):
        os.link(from_name, to_name, src_dir_fd=from_fd, dst_dir_fd=to_fd, follow_symlinks=False)


def touch(site: Site, path: str) -> None:
    """Give `path` the present time as its mtime."""
    with site.parent(path) as (fd, name):
        os.utime(name, dir_fd=fd, follow_symlinks=False)


def remove(site: Site, path: str) -> None:
    """Remove the file `path` if it is there."""
    try:
        with site.parent(path) as (fd, name):
            os.unlink(name, dir_fd=fd)
    except (FileNotFoundError, UnreadableError):
        return


def remove_dir(site: Site, path: str) -> bool:
    """Remove the directory `path` if it is there and empty; whether it is gone now."""
    try:
        with site.parent(path) as (fd, name):
            os.rmdir(name, dir_fd=fd)
    except FileNotFoundError:
        return True
    except OSError as error:
        if error.errno in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR, errno.EBUSY):
            return False
        raise
    except UnreadableError:
        return False
    return True


def entries(site: Site, path: str) -> list[str]:
    """The names in the directory `path` ("" is the site); none where it is not there."""
    if not path:
        return os.listdir(site.fd)
    try:
        with site.parent(path) as (fd, name):
            inner = os.open(name, _DIR, dir_fd=fd)
    except (FileNotFoundError, NotADirectoryError, UnreadableError):
        return []
    try:
        return os.listdir(inner)
    finally:
        os.close(inner)


def is_dir(site: Site, path: str) -> bool:
    """Whether `path` is a directory (and no link to one)."""
    try:
        status = site.lstat(path)
    except UnreadableError:
        return False
    return status is not None and stat.S_ISDIR(status.st_mode)


def sync_dirs(site: Site, paths: Iterable[str]) -> None:
    """Fsync the directories that hold `paths`, each once."""
    for directory in {path.rpartition("/")[0] for path in paths}:
        try:
            if not directory:
                os.fsync(site.fd)
                continue
            with site.parent(directory) as (fd, name):
                inner = os.open(name, _DIR, dir_fd=fd)
        except FileNotFoundError:
            continue
        try:
            os.fsync(inner)
        finally:
            os.close(inner)


def remove_bytecode(site: Site, path: str) -> None:
    """Remove every compiled form of the module `path`, and its `__pycache__` when that empties it.

    A patched file of the old size and mtime would otherwise go on running as the old code (PEP 3147).
    """
    if not path.endswith(".py"):
        return
    folder, _, name = path.rpartition("/")
    cache = f"{folder}/__pycache__" if folder else "__pycache__"
    stem = name[: -len("py")]
    stale = [entry for entry in entries(site, cache) if entry.startswith(stem) and entry.endswith(".pyc")]
    for entry in stale:
        remove(site, f"{cache}/{entry}")
    if stale:
        remove_dir(site, cache)
