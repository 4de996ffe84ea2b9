"""The site directory of a root, and the only way into it: by descriptors, never through a link.

Every path below the site is walked part by part with O_NOFOLLOW from an open descriptor of the
site, so that no symbolic link, in the target or made by an earlier step, leads anywhere else.
"""

from __future__ import annotations

import errno
import os
import stat
from contextlib import contextmanager

from patchkit.core.errors import ConfigError, DriftError, RefusedByMachineError
from patchkit.core.tree import LINK, FileState, UnreadableError
from patchkit.core.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_NOT_THERE = (errno.ENOENT, errno.ENOTDIR)


@contextmanager
def machine_says(doing: str) -> Iterator[None]:
    """Turn an OSError inside into a RefusedByMachineError that says what was being done and to which
    file, and an UnreadableError into a DriftError."""
    try:
        yield
    except UnreadableError as error:
        raise DriftError(f"{doing}: {error}", hint="put back what was there, then run it again") from error
    except OSError as error:
        reason = error.strerror or str(error)
        where = f"{os.fsdecode(error.filename)}: " if isinstance(error.filename, (str, bytes)) else ""
        hints = {
            errno.ENOSPC: "free some space, then run the same command again",
            errno.EDQUOT: "free some space, then run the same command again",
            errno.EROFS: "the file system is read-only: apply in a writable container or copy of it",
            errno.EACCES: "run it as the owner of the files, or as root",
            errno.EPERM: "run it as the owner of the files, or as root",
        }
        hint = hints.get(error.errno or 0, "")
        raise RefusedByMachineError(f"{doing}: {where}{reason}", hint=hint) from error


class Meta(Value):
    """What a file has besides its bytes. `xattrs` are (name, value) pairs; `links` the hard links."""

    mode: int
    uid: int
    gid: int
    xattrs: tuple[tuple[str, bytes], ...] = ()
    links: int = 1


def resolve_site(root: str, patterns: tuple[str, ...]) -> str | None:
    """The site below `root` as an absolute path: the one directory that one of `patterns` (relative,
    globs allowed) names, links resolved as inside a chroot. None where none is there.

    Raises ConfigError where several match: which one is meant is for a person to say; OSError where
    a directory on the way cannot be read.
    """
    found: list[str] = []
    for pattern in patterns:
        for hit in _expand(root, pattern):
            real = resolve_beneath(root, hit)
            if real is not None and os.path.isdir(real) and real not in found:
                found.append(real)
    if len(found) > 1:
        raise ConfigError(
            f"{root}: several site directories match {', '.join(patterns)}: {', '.join(found)}",
            hint="name the one that is meant: --site PATH (relative to the root)",
        )
    return found[0] if found else None


def _expand(root: str, pattern: str) -> list[str]:
    """The paths that a glob names below `root`; its links, too, lead nowhere but below the root."""
    heads = [""]
    for part in pattern.split("/"):
        if not any(c in part for c in "*?["):
            heads = [f"{head}/{part}" for head in heads]
            continue
        from fnmatch import fnmatchcase  # most sites are no globs

        above = [(head, resolve_beneath(root, head)) for head in heads]
        heads = [
            f"{head}/{name}"
            for head, real in above
            if real is not None and os.path.isdir(real)
            for name in sorted(os.listdir(real))
            if fnmatchcase(name, part) and (not name.startswith(".") or part.startswith("."))
        ]
    return heads


def resolve_beneath(root: str, path: str) -> str | None:
    """`path` below `root` with links resolved as if `root` were `/` (so that `..` and absolute links
    stay inside); None for a loop of links."""
    root = os.path.realpath(root)
    pending = [part for part in path.split("/") if part not in ("", ".")][::-1]
    done: list[str] = []
    links = 0
    while pending:
        part = pending.pop()
        if part == "..":
            if done:
                done.pop()
            continue
        here = os.path.join(root, *done, part)
        if not os.path.islink(here):
            done.append(part)
            continue
        links += 1
        if links > 40:  # as the kernel counts
            return None
        target = os.readlink(here)
        if target.startswith("/"):
            done = []
        pending += [step for step in target.split("/") if step not in ("", ".")][::-1]
    return os.path.join(root, *done)


class Site:
    """An open site directory. A context manager; paths are relative to it."""

    def __init__(self, path: str) -> None:
        with machine_says(f"cannot open the site directory {path}"):
            self.fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        self.path = path

    def __enter__(self) -> Site:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the descriptor."""
        os.close(self.fd)

    def checkpoint(self) -> None:
        """Called where an interruption may come: after a repair, and when all is staged for the commit.

        A site that mirrors a tree which is elsewhere brings that tree up to here. Raises PatchkitError.
        """

    @contextmanager
    def parent(self, path: str) -> Iterator[tuple[int, str]]:
        """A descriptor of the directory that holds `path`, and the last part of the path.

        Raises FileNotFoundError where there is no such directory, UnreadableError where a link or
        a file is on the way. Paths are checked where they come in (diffs, lock, ledger); here a
        path with `..` is a bug.
        """
        *above, name = path.split("/")
        if name in ("", ".", "..") or not {"", ".", ".."}.isdisjoint(above):
            raise ValueError(f"unsafe path {path!r}")
        fd = os.dup(self.fd)
        try:
            for depth, part in enumerate(above):
                try:
                    deeper = os.open(part, _DIRECTORY, dir_fd=fd)
                except OSError as error:
                    where = "/".join(above[: depth + 1])
                    raise self._blocked(error, fd, part, where) from error
                os.close(fd)
                fd = deeper
            yield fd, name
        except OSError as error:  # calls by descriptor do not know the file's name
            if not str(error.filename).startswith(f"{self.path}/"):
                error.filename, error.filename2 = f"{self.path}/{path}", None
            raise
        finally:
            os.close(fd)

    def _blocked(self, error: OSError, fd: int, part: str, where: str) -> Exception:
        try:
            mode = os.lstat(part, dir_fd=fd).st_mode
        except OSError:
            return error
        if stat.S_ISLNK(mode):
            return UnreadableError(f"{where}, on the way to it, is a symbolic link; patchkit does not follow it")
        if not stat.S_ISDIR(mode):
            return UnreadableError(f"{where}, on the way to it, is no directory")
        return error

    def lstat(self, path: str) -> os.stat_result | None:
        """The status of `path` itself; None where nothing is there."""
        try:
            with self.parent(path) as (fd, name):
                return os.lstat(name, dir_fd=fd)
        except OSError as error:
            if error.errno in _NOT_THERE:
                return None
            raise

    def read(self, path: str) -> FileState | None:
        """What stands at `path` (Tree.read)."""
        try:
            with self.parent(path) as (fd, name):
                return read_at(fd, name)
        except OSError as error:
            if error.errno in _NOT_THERE:
                return None
            raise RefusedByMachineError(f"cannot read {self.path}/{path}: {error.strerror}") from error

    def meta(self, path: str) -> Meta | None:
        """Mode, owner, extended attributes and link count of `path`; None where nothing is there."""
        try:
            with self.parent(path) as (fd, name):
                status = os.lstat(name, dir_fd=fd)
                xattrs = _xattrs(fd, name) if stat.S_ISREG(status.st_mode) else ()
        except OSError as error:
            if error.errno in _NOT_THERE:
                return None
            raise RefusedByMachineError(f"cannot read {self.path}/{path}: {error.strerror}") from error
        return Meta(
            mode=stat.S_IMODE(status.st_mode),
            uid=status.st_uid,
            gid=status.st_gid,
            xattrs=xattrs,
            links=status.st_nlink,
        )


def _xattrs(fd: int, name: str) -> tuple[tuple[str, bytes], ...]:
    handle = os.open(name, _FILE, dir_fd=fd)
    try:
        return tuple((key, os.getxattr(handle, key)) for key in sorted(os.listxattr(handle)))
    except OSError as error:
        if error.errno == errno.ENOTSUP:  # a file system without them
            return ()
        raise
    finally:
        os.close(handle)


def read_at(fd: int, name: str) -> FileState | None:
    """What stands at `name` in the directory `fd`. Raises UnreadableError for anything but files and links."""
    try:
        handle = os.open(name, _FILE, dir_fd=fd)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.EMLINK):
            target = os.readlink(name, dir_fd=fd)
            return FileState(kind=LINK, mode=0o777, data=os.fsencode(target))
        if error.errno == errno.ENXIO:
            raise UnreadableError("it is a socket or device, no regular file") from error
        raise
    try:
        status = os.fstat(handle)
        if stat.S_ISDIR(status.st_mode):
            raise UnreadableError("it is a directory, no regular file")
        if not stat.S_ISREG(status.st_mode):
            raise UnreadableError("it is a device or pipe, no regular file")
        with open(handle, "rb", closefd=False) as stream:
            return FileState(mode=stat.S_IMODE(status.st_mode), data=stream.read())
    finally:
        os.close(handle)
