"""Writes below a site: temporary files with all their metadata, directories, byte-code, and fsync."""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import sys
from contextlib import suppress
from typing import TYPE_CHECKING

from patchkit.core.errors import RefusedByMachineError
from patchkit.core.ledger import Kept
from patchkit.core.tree import LINK, FileState, UnreadableError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from patchkit.core.site import Meta, Site

_GET_FLAGS = 0x80086601  # FS_IOC_GETFLAGS and FS_IMMUTABLE_FL | FS_APPEND_FL of <linux/fs.h>
_IMMUTABLE_OR_APPEND_ONLY = 0x30
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
            if _is_other_owner(os.lstat(name, dir_fd=fd), like.uid, like.gid):
                os.chown(name, _or_same(like.uid), _or_same(like.gid), dir_fd=fd, follow_symlinks=False)
            return
        handle = os.open(name, _NEW, 0o600, dir_fd=fd)
        with open(handle, "wb") as stream:
            stream.write(data)
            stream.flush()
            if _is_other_owner(os.fstat(handle), like.uid, like.gid):
                os.fchown(handle, _or_same(like.uid), _or_same(like.gid))
            for key, value in like.xattrs:
                _set_xattr(handle, path, key, bytes.fromhex(value))
            os.fchmod(handle, like.mode)
            os.fsync(handle)


def _is_other_owner(status: os.stat_result, uid: int | None, gid: int | None) -> bool:
    """Whether the owner must be changed (a set-gid directory gives its own group to new files)."""
    return uid not in (None, status.st_uid) or gid not in (None, status.st_gid)


def _or_same(number: int | None) -> int:
    return -1 if number is None else number


def _set_xattr(handle: int, path: str, key: str, value: bytes) -> None:
    try:
        os.setxattr(handle, key, value)
    except OSError as error:
        try:
            same = os.getxattr(handle, key) == value
        except OSError:
            same = False
        if not same:
            raise RefusedByMachineError(
                f"{path}: the extended attribute {key} cannot be set here: {error.strerror}; nothing was changed",
                hint="run it as root, or on a file system that has this attribute",
            ) from error


def make_dir(site: Site, path: str, mode: int = 0o755) -> None:
    """Create the directory `path` if it is not there."""
    with site.parent(path) as (fd, name), suppress(FileExistsError):
        os.mkdir(name, 0o700, dir_fd=fd)
        os.chmod(name, mode, dir_fd=fd)


def dress_dir(site: Site, path: str, mode: int, uid: int | None, gid: int | None) -> None:
    """Give the directory `path` its mode and owner, and fsync it."""
    with site.parent(path) as (fd, name):
        inner = os.open(name, _DIR, dir_fd=fd)
        try:
            if _is_other_owner(os.fstat(inner), uid, gid):
                os.fchown(inner, _or_same(uid), _or_same(gid))
            os.fchmod(inner, mode)
            os.fsync(inner)
        finally:
            os.close(inner)


def replace(site: Site, source: str, target: str) -> None:
    """Rename `source` over `target`, both below the site."""
    with site.parent(source) as (from_fd, from_name), site.parent(target) as (to_fd, to_name):
        os.replace(from_name, to_name, src_dir_fd=from_fd, dst_dir_fd=to_fd)


def move(site: Site, source: str, target: str) -> None:
    """Put `source` in the place of `target`, both below the site: at once, or, where a directory is there
    in part (an earlier run could not rename), entry by entry."""
    inside = entries(site, source) if is_dir(site, source) and entries(site, target) else None
    if inside is None:
        replace(site, source, target)
        remove(site, source)  # where both are names of one file, a rename leaves them
        return
    for name in inside:
        move(site, f"{source}/{name}", f"{target}/{name}")
    status = site.lstat(source)
    assert status is not None
    dress_dir(site, target, stat.S_IMODE(status.st_mode), status.st_uid, status.st_gid)
    remove_dir(site, source)


def link(site: Site, source: str, target: str) -> None:
    """Give the file `source` the further name `target`."""
    with site.parent(source) as (from_fd, from_name), site.parent(target) as (to_fd, to_name):
        os.link(from_name, to_name, src_dir_fd=from_fd, dst_dir_fd=to_fd, follow_symlinks=False)


def remove(site: Site, path: str) -> None:
    """Remove the file `path` if it is there."""
    with suppress(FileNotFoundError, UnreadableError), site.parent(path) as (fd, name):
        os.lstat(name, dir_fd=fd)  # a read-only file system refuses to remove even what is not there
        os.unlink(name, dir_fd=fd)


def remove_dir(site: Site, path: str) -> None:
    """Remove the directory `path` if it is there and empty."""
    with suppress(FileNotFoundError, UnreadableError):
        try:
            with site.parent(path) as (fd, name):
                os.lstat(name, dir_fd=fd)
                os.rmdir(name, dir_fd=fd)
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR, errno.EBUSY):
                raise


def entries(site: Site, path: str) -> list[str]:
    """The names in the directory `path` ("" is the site); none where it is not there."""
    if not path:
        return os.listdir(site.fd)
    try:
        with site.parent(path) as (fd, name):
            inner = os.open(name, _DIR, dir_fd=fd)
    except (FileNotFoundError, NotADirectoryError, UnreadableError):
        return []
    except OSError as error:
        if error.errno == errno.ELOOP:
            return []
        raise
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
        if not directory:
            os.fsync(site.fd)
            continue
        with suppress(FileNotFoundError, NotADirectoryError, UnreadableError):
            with site.parent(directory) as (fd, name):
                inner = os.open(name, _DIR, dir_fd=fd)
            try:
                os.fsync(inner)
            finally:
                os.close(inner)


def bytecode(site: Site, path: str) -> list[str]:
    """Every compiled form of the module `path` that is there (PEP 3147: any interpreter, any level)."""
    if not path.endswith(".py"):
        return []
    folder, _, name = path.rpartition("/")
    cache = f"{folder}/__pycache__" if folder else "__pycache__"
    stem = name[: -len("py")]
    return [f"{cache}/{e}" for e in entries(site, cache) if e.startswith(stem) and e.endswith(".pyc")]


def remove_bytecode(site: Site, path: str) -> None:
    """Remove every compiled form of the module `path`, and its `__pycache__` when that empties it.

    A patched file of the old size and mtime would otherwise go on running as the old code.
    """
    stale = bytecode(site, path)
    for entry in stale:
        remove(site, entry)
    if stale:
        remove_dir(site, stale[0].rpartition("/")[0])


def require_removable(site: Site, path: str) -> None:
    """Raise OSError where `path` could not be removed or replaced, without trying it."""
    with suppress(FileNotFoundError, UnreadableError), site.parent(path) as (fd, name):
        status, above = os.lstat(name, dir_fd=fd), os.fstat(fd)
        if os.fstatvfs(fd).f_flag & os.ST_RDONLY:
            raise OSError(errno.EROFS, os.strerror(errno.EROFS))
        if not os.access(".", os.W_OK | os.X_OK, dir_fd=fd, effective_ids=True):
            raise OSError(errno.EACCES, "the directory cannot be written")
        me = os.geteuid()
        if above.st_mode & stat.S_ISVTX and me not in (0, status.st_uid, above.st_uid):
            raise OSError(errno.EPERM, "it is another user's, in a sticky directory")
        if stat.S_ISREG(status.st_mode) and _is_immutable(fd, name):
            raise OSError(errno.EPERM, "it is immutable (chattr -i)")
        inner = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=fd)
        try:
            if _mount(inner) != _mount(fd):
                raise OSError(errno.EBUSY, "it is mounted there by itself; patch the file it comes from")
        finally:
            os.close(inner)


def _is_immutable(fd: int, name: str) -> bool:
    """Whether the file may only be read, or appended to; not where the file system knows no such thing."""
    with suppress(OSError):
        handle = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=fd)
        try:
            flags = fcntl.ioctl(handle, _GET_FLAGS, bytes(8))
        finally:
            os.close(handle)
        return bool(int.from_bytes(flags[:4], sys.byteorder) & _IMMUTABLE_OR_APPEND_ONLY)
    return False


def _mount(fd: int) -> str:
    """The mount that an open file lies on; "" where the machine does not tell."""
    try:
        with open(f"/proc/self/fdinfo/{fd}", encoding="ascii") as stream:
            return next((line for line in stream if line.startswith("mnt_id:")), "")
    except OSError:
        return ""
