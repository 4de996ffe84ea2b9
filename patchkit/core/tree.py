"""What a tree is to a patch: paths that hold a file's bytes and mode, or a link, or nothing.

Paths are POSIX strings relative to the site directory. The planner works on an `Overlay`: reads
fall through to the tree below, writes stay in memory, so that a whole stack is tried before a
single byte of the target changes.
"""

from __future__ import annotations

import hashlib

from patchkit.core.paths import parents
from patchkit.core.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Protocol
else:
    Protocol = object

REGULAR = "file"
LINK = "link"


class FileState(Value):
    """A regular file or a symbolic link, as far as a diff can speak of it.

    `kind` is `REGULAR` or `LINK`; `mode` holds the permission bits (07777) of a regular file and
    is 0o777 for a link; `data` is the content, or the link's target as bytes.
    """

    kind: str = REGULAR
    mode: int = 0o644
    data: bytes

    @property
    def sha256(self) -> str:
        """The hex sha256 of `data`."""
        return hashlib.sha256(self.data).hexdigest()


class UnreadableError(Exception):
    """What stands at a path is nothing that a diff can speak of. `str()` says what it is."""


class Tree(Protocol):
    """Anything that files can be read from by their path."""

    def read(self, path: str) -> FileState | None:
        """Return what stands at `path`, or None where nothing does.

        Raises UnreadableError where something stands there that a diff cannot speak of (a
        directory, a device) or where the way to it leads through a symbolic link.
        """


class Overlay:
    """Changes in memory over a tree that stays as it is."""

    def __init__(self, below: Tree, changes: dict[str, FileState | None] | None = None) -> None:
        self.below = below
        self.changes: dict[str, FileState | None] = {}
        self._folders: dict[str, int] = {}
        for path, state in (changes or {}).items():
            self.write(path, state)

    def read(self, path: str) -> FileState | None:
        """Return the changed state of `path`, else what the tree below holds."""
        if self._folders.get(path):
            raise UnreadableError("it is a directory, no regular file")
        if path in self.changes:
            return self.changes[path]
        for above in parents(path):
            state = self.changes.get(above)
            if state is not None:
                kind = "symbolic link" if state.kind == LINK else "regular file"
                raise UnreadableError(f"{above}, on the way to it, is no directory but a {kind}")
            if above in self.changes:
                return None
        return self.below.read(path)

    def write(self, path: str, state: FileState | None) -> None:
        """Put `state` at `path`; None removes it."""
        was = self.changes.get(path)
        self.changes[path] = state
        if (was is None) != (state is None):
            step = 1 if was is None else -1
            for above in parents(path):
                self._folders[above] = self._folders.get(above, 0) + step
