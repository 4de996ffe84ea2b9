"""A directory as a source: the root of a target, or the site itself."""

from __future__ import annotations

import errno
import os
import stat
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, NoReturn

from patchkit.core.errors import ConfigError, ConflictError, RefusedByMachineError
from patchkit.core.tree import LINK, FileState
from patchkit.sources.base import checked_parts, not_a_file

if TYPE_CHECKING:
    from collections.abc import Iterator

_MAX_LINKS = 40
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class DirectorySource:
    """Files beneath `root`/<site>, where `site` is the image's list of globs; nothing outside is ever read.

    A directory that holds no such site, but the first part of the wanted path, is taken for the
    site itself. Raises `ConfigError` for a root that is no directory and a site that is ambiguous.
    """

    artifact_sha256: str | None = None

    def __init__(self, root: str, *, site: tuple[str, ...], spec: str | None = None) -> None:
        self.spec = root if spec is None else spec
        self._root = os.path.abspath(root)
        self._globs = site
        if not os.path.isdir(self._root):
            raise ConfigError(f"{self.spec}: expected a directory, found {_kind_of(self._root)}")
        found = resolve_site(self._root, site)
        self._base = None if found is None else os.path.join(self._root, found)

    def describe(self) -> str:
        """Return the directory that is read."""
        if self._base in (None, self._root):
            return f"{self.spec} (a directory, itself the site)"
        return f"{self.spec} (a directory, site {os.path.relpath(self._base or '', self._root)})"

    def read(self, path: str) -> FileState | None:
        """Return the file or link at `path`; see `Source`."""
        parts = checked_parts(path)
        base = self._base
        if base is None:
            if not os.path.lexists(os.path.join(self._root, parts[0])):
                raise ConfigError(
                    f"{self.spec}: expected a site ({' or '.join(self._globs)}) or {parts[0]}, found neither",
                    hint="name the directory that holds the site, or the site itself",
                )
            base = self._base = self._root
        try:
            descriptor = os.open(base, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError as error:
            self._refuse(path, error)
        try:
            for index, part in enumerate(parts[:-1]):
                below = self._enter(descriptor, part, path, "/".join(parts[: index + 1]))
                if below is None:
                    return None
                os.close(descriptor)
                descriptor = below
            return self._state(descriptor, parts[-1], path)
        finally:
            os.close(descriptor)

    def close(self) -> None:
        """Hold nothing open: nothing to give back."""

    def _enter(self, descriptor: int, part: str, path: str, at: str) -> int | None:
        try:
            return os.open(part, _DIRECTORY, dir_fd=descriptor)
        except FileNotFoundError:
            return None
        except OSError as error:
            if error.errno not in (errno.ENOTDIR, errno.ELOOP):
                self._refuse(path, error)
        if stat.S_ISLNK(os.stat(part, dir_fd=descriptor, follow_symlinks=False).st_mode):
            raise ConflictError(f"{self.spec}: {path}: expected directories on the way, found a symbolic link at {at}")
        return None

    def _state(self, descriptor: int, name: str, path: str) -> FileState | None:
        try:
            status = os.stat(name, dir_fd=descriptor, follow_symlinks=False)
            if stat.S_ISLNK(status.st_mode):
                return FileState(kind=LINK, mode=0o777, data=os.fsencode(os.readlink(name, dir_fd=descriptor)))
            if not stat.S_ISREG(status.st_mode):
                raise not_a_file(self.spec, path, _kind(status.st_mode))
            with open(os.open(name, _FILE, dir_fd=descriptor), "rb") as handle:
                status = os.fstat(handle.fileno())
                if not stat.S_ISREG(status.st_mode):
                    raise not_a_file(self.spec, path, _kind(status.st_mode))
                return FileState(mode=stat.S_IMODE(status.st_mode), data=handle.read())
        except FileNotFoundError:
            return None
        except OSError as error:
            self._refuse(path, error)

    def _refuse(self, path: str, error: OSError) -> NoReturn:
        raise RefusedByMachineError(f"{self.spec}: {path}: cannot be read: {error.strerror}") from error


def resolve_site(root: str, globs: tuple[str, ...]) -> str | None:
    """Return the one directory beneath `root` that `globs` (relative) match, relative to `root`, or None.

    Links on the way are followed as they would be with `root` as `/`, so never out of it; two names
    of one directory are one. Raises `ConfigError` where the globs match several, or leave the root.
    """
    found: dict[str, str] = {}
    for glob in globs:
        parts = tuple(part for part in glob.split("/") if part not in ("", "."))
        if ".." in parts:
            raise ConfigError(f"site {glob!r}: expected a path beneath the root, found `..`")
        for path in _matches(root, "", parts):
            found.setdefault(path, glob)
    if len(found) > 1:
        raise ConfigError(
            f"{root}: expected one site, found {len(found)}: {', '.join(sorted(found))}", hint="name one: --site PATH"
        )
    return next(iter(found), None)


def _matches(root: str, at: str, parts: tuple[str, ...]) -> Iterator[str]:
    """Yield the directories (relative to `root`, links resolved) that `parts` match beneath `at`."""
    if not parts:
        yield at
        return
    names = [parts[0]]
    if any(sign in parts[0] for sign in "*?["):
        try:
            names = sorted(name for name in os.listdir(os.path.join(root, at)) if fnmatchcase(name, parts[0]))
        except OSError:
            return
    for name in names:
        below = _resolve(root, f"{at}/{name}" if at else name)
        if below is not None and os.path.isdir(os.path.join(root, below)):
            yield from _matches(root, below, parts[1:])


def _resolve(root: str, path: str) -> str | None:
    """Return `path` with its links resolved as if `root` were `/`; None where nothing is there."""
    todo = [part for part in reversed(path.split("/")) if part]
    done: list[str] = []
    links = 0
    while todo:
        part = todo.pop()
        if part in (".", ".."):
            if part == "..":
                done = done[:-1]
            continue
        here = "/".join([root, *done, part])
        try:
            if not stat.S_ISLNK(os.lstat(here).st_mode):
                done.append(part)
                continue
            target = os.readlink(here)
        except OSError:
            return None
        links += 1
        if links > _MAX_LINKS:
            return None
        if target.startswith("/"):
            done = []
        todo.extend(part for part in reversed(target.split("/")) if part)
    return "/".join(done)


def _kind(mode: int) -> str:
    for test, name in ((stat.S_ISDIR, "a directory"), (stat.S_ISFIFO, "a named pipe"), (stat.S_ISSOCK, "a socket")):
        if test(mode):
            return name
    return "a device"


def _kind_of(path: str) -> str:
    if not os.path.lexists(path):
        return "nothing"
    return "a file" if os.path.isfile(path) else "something else"
