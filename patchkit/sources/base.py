"""What a source is: a place to read pristine files from."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from patchkit.core.errors import ConfigError, ConflictError

if TYPE_CHECKING:
    from patchkit.core.tree import FileState
    from patchkit.io.http import Http


class Source(Protocol):
    """A place to read pristine files from.

    `spec` is what the user writes for it; `artifact_sha256` the hex sha256 of the release file
    that is read, or None where there is none (or it is not known before the first read).
    """

    @property
    def spec(self) -> str:
        """What the user writes for this source."""
        ...

    @property
    def artifact_sha256(self) -> str | None:
        """The hex sha256 of the release's file that is read, or None."""
        ...

    def describe(self) -> str:
        """Return what was really read, as a part of a sentence."""
        ...

    def read(self, path: str) -> FileState | None:
        """Return the file or link at `path` (POSIX, relative to the site), or None where there is none.

        Raises `ConflictError` where a directory, a device or the like stands there or a link is on
        the way, `ConfigError` for a path that leaves the site, `UnreachableError` where the source
        cannot be read.
        """
        ...

    def close(self) -> None:
        """Give back files and connections."""
        ...


class HttpFactory(Protocol):
    """How a source opens HTTP, once it needs it; `Http` itself is one."""

    def __call__(self, *, ca_bundle: str | None = None) -> Http:
        """Return a new session that accepts the certificate authorities in the file `ca_bundle` (None: the default)."""
        ...


def checked_parts(path: str) -> tuple[str, ...]:
    """Return the parts of a path relative to the site; raise `ConfigError` for one that is not such a path."""
    parts = tuple(path.split("/"))
    if "\0" in path or any(part in ("", ".", "..") for part in parts):
        raise ConfigError(f"{path!r}: expected a path relative to the site, without `.`, `..` and empty parts")
    return parts


def not_a_file(where: str, path: str, found: str) -> ConflictError:
    """Return the error for something at `path` that is no file and no link."""
    return ConflictError(f"{where}: {path}: expected a file, found {found}")
