"""What a diff consists of, once read: sections, one a file, and their hunks. Frozen, without behaviour
but to be turned round."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from patchkit.core.binary import BinaryHunk
    from patchkit.core.verdicts import Change

LINK_TYPE = 0o120000
FILE_TYPE = 0o100000
_TURNED = bytes.maketrans(b"-+", b"+-")


@dataclass(frozen=True, slots=True, kw_only=True)
class Hunk:
    """One hunk. `marks` holds one byte a line (space, `-`, `+`), `texts` the lines: each keeps its
    line end, and lacks it where the diff says "No newline at end of file". `at` is its line in the diff."""

    old_start: int
    new_start: int
    marks: bytes
    texts: tuple[bytes, ...]
    at: int

    @property
    def old(self) -> list[bytes]:
        """The lines that the hunk expects."""
        return [text for mark, text in zip(self.marks, self.texts, strict=True) if mark != 0x2B]

    @property
    def new(self) -> list[bytes]:
        """The lines that the hunk leaves."""
        return [text for mark, text in zip(self.marks, self.texts, strict=True) if mark != 0x2D]

    def reversed(self) -> Hunk:
        """The hunk that undoes this one."""
        return Hunk(
            old_start=self.new_start,
            new_start=self.old_start,
            marks=self.marks.translate(_TURNED),
            texts=self.texts,
            at=self.at,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """One file's change. `old` and `new` are paths after stripping (None for a file that is not
    there on that side); modes are git's (0o100644, 0o100755, 0o120000) or None where unsaid;
    `may_create` marks a plain diff that may mean a new file as well as an empty one; `undone` a copy
    turned round; `commit` counts the commits of a mailbox; `at` is the section's line in the diff."""

    change: Change
    old: str | None
    new: str | None
    old_mode: int | None = None
    new_mode: int | None = None
    hunks: tuple[Hunk, ...] = ()
    binary: BinaryHunk | None = None
    binary_back: BinaryHunk | None = None
    old_blob: str = ""
    new_blob: str = ""
    crlf_header: bool = False
    may_create: bool = False
    undone: bool = False
    commit: int = 0
    at: int = 0

    @property
    def path(self) -> str:
        """The path the section is known by: the new one, or the old one of a deletion."""
        path = self.new if self.new is not None else self.old
        assert path is not None  # the parser makes no section without a path
        return path

    @property
    def paths(self) -> tuple[str, ...]:
        """Every path the section reads or writes."""
        return tuple(dict.fromkeys(p for p in (self.old, self.new) if p is not None))
