"""How many lines and hunks a patch changes in each file: for people to see, never for applying."""

from __future__ import annotations

import io
from dataclasses import dataclass

from unidiff.errors import UnidiffParseError
from unidiff.patch import PatchSet


@dataclass(frozen=True, slots=True, kw_only=True)
class FileCount:
    """Lines that a patch adds to and removes from one file, in so many hunks; a binary file has none of them."""

    path: str
    added: int
    removed: int
    hunks: int
    binary: bool = False


def count(patch: bytes) -> tuple[FileCount, ...] | None:
    """The counts of each file of a patch, in its order; None where the patch cannot be counted."""
    try:
        files = PatchSet(io.StringIO(patch.decode("latin-1")))
    except UnidiffParseError:
        return None
    return tuple(
        FileCount(
            path=file.path,
            added=file.added,
            removed=file.removed,
            hunks=len(file),
            binary=bool(file.is_binary_file),
        )
        for file in files
    )


def find(counts: tuple[FileCount, ...] | None, path: str, prefix: str | None) -> FileCount | None:
    """The count of the site path `path` in a patch whose paths are put under `prefix`; None where it has none."""
    if counts is None:
        return None
    inner = path.removeprefix(f"{prefix}/") if prefix else path
    exact = [each for each in counts if each.path == inner]
    longer = [each for each in counts if each.path.endswith(f"/{inner}")]  # more leading parts are dropped
    hits = exact or longer
    return hits[0] if len(hits) == 1 else None
