"""A directory as a source: the root of a target, or the site itself."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from patchkit.core.errors import ConfigError, ConflictError, RefusedByMachineError
from patchkit.core.site import Site, resolve_site
from patchkit.core.tree import UnreadableError
from patchkit.sources.base import checked_parts

if TYPE_CHECKING:
    from patchkit.core.tree import FileState


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
        self._site: Site | None = None
        if not os.path.isdir(self._root):
            raise ConfigError(f"{self.spec}: expected a directory, found {_kind_of(self._root)}")
        try:
            found = resolve_site(self._root, site)
        except OSError as error:
            raise RefusedByMachineError(f"{self.spec}: {error.filename}: {error.strerror}") from error
        if found is not None:
            self._site = Site(found)

    def describe(self) -> str:
        """Return the directory that is read."""
        if self._site is None or self._site.path == self._root:
            return f"{self.spec} (a directory, itself the site)"
        return f"{self.spec} (a directory, site {os.path.relpath(self._site.path, os.path.realpath(self._root))})"

    def read(self, path: str) -> FileState | None:
        """Return the file or link at `path`; see `Source`."""
        first = checked_parts(path)[0]
        if self._site is None:
            if not os.path.lexists(os.path.join(self._root, first)):
                raise ConfigError(
                    f"{self.spec}: expected a site ({' or '.join(self._globs)}) or {first}, found neither",
                    hint="name the directory that holds the site, or the site itself",
                )
            self._site = Site(self._root)
        try:
            return self._site.read(path)
        except UnreadableError as error:
            raise ConflictError(f"{self.spec}: {path}: {error}") from None

    def close(self) -> None:
        """Close the site."""
        if self._site is not None:
            self._site.close()
            self._site = None


def _kind_of(path: str) -> str:
    if not os.path.lexists(path):
        return "nothing"
    return "a file" if os.path.isfile(path) else "something else"
