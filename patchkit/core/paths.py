"""Which names a patch may speak of: relative, inside the site, never patchkit's own."""

from __future__ import annotations

LEDGER_DIR = ".patchkit"


class UnsafePathError(ValueError):
    """A path that leaves the site, or that no file can have. `str()` is the reason."""


def check_relative(path: str) -> str:
    """Return `path` unchanged if it stays beneath the directory it is taken from.

    Raises UnsafePathError for an absolute path, a `..`, an empty or `.` part, a NUL, and for
    anything in patchkit's own ledger directory.
    """
    if not path:
        raise UnsafePathError("the path is empty")
    if "\0" in path:
        raise UnsafePathError(f"{path!r} holds a NUL byte")
    if path.startswith("/"):
        raise UnsafePathError(f"{path!r} is absolute; a path must be relative to the site")
    parts = path.split("/")
    if ".." in parts:
        raise UnsafePathError(f"{path!r} holds '..' and would leave the site")
    if "" in parts or "." in parts:
        raise UnsafePathError(f"{path!r} holds an empty or '.' part")
    if parts[0] == LEDGER_DIR:
        raise UnsafePathError(f"{path!r} lies in {LEDGER_DIR}/, which belongs to patchkit's ledger")
    return path


def parents(path: str) -> list[str]:
    """The directories above `path`, nearest first, without the site itself."""
    found = []
    while "/" in path:
        path = path.rsplit("/", 1)[0]
        found.append(path)
    return found
