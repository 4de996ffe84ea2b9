"""Reads unified and git diffs, as bytes, into frozen sections. Applies nothing.

The grammar is git's (git-diff(1), "Generating patch text with -p") and POSIX diff's unified form,
with what real patch files add: mail wrappers, signatures, several commits in one file, blank
context lines that lost their space, CRLF headers, time stamps. What cannot be applied from the
text alone (a binary change without its data, a combined or context diff, a hunk that is cut off)
is refused with its line; a diff is never read as less than it says.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from patchkit.core.binary import BinaryHunk, parse_binary
from patchkit.core.paths import UnsafePathError, check_relative
from patchkit.core.quoting import cut_name, split_git_header, strip_parts, unquote
from patchkit.core.verdicts import Change

_HUNK = re.compile(rb"@@ -(\d{1,9})(?:,(\d{1,9}))? \+(\d{1,9})(?:,(\d{1,9}))? @@")
_COMMIT = re.compile(rb"From [0-9a-f]{40} ")
_EPOCH = re.compile(rb"\t(?:1969-12-31|1970-01-01) \d\d:\d\d:00(?:\.0+)? ([+-]\d\d\d\d)$")
_ONLY_IN = re.compile(rb"Only in [^:]+: \S")
_NO_NEWLINE = b"\\"
_NULL = "/dev/null"
LINK_TYPE = 0o120000
FILE_TYPE = 0o100000


class DiffError(ValueError):
    """A diff that cannot be applied from its text. `str()` names the line and the reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hunk:
    """One hunk. `lines` are (marker, content) pairs, marker one of b" ", b"-", b"+"; the content
    keeps its line end, and lacks it where the diff says "No newline at end of file"."""

    old_start: int
    new_start: int
    lines: tuple[tuple[bytes, bytes], ...]
    at: int

    @property
    def old(self) -> list[bytes]:
        """The lines that the hunk expects."""
        return [text for mark, text in self.lines if mark != b"+"]

    @property
    def new(self) -> list[bytes]:
        """The lines that the hunk leaves."""
        return [text for mark, text in self.lines if mark != b"-"]

    def reversed(self) -> Hunk:
        """The hunk that undoes this one."""
        swap = {b"-": b"+", b"+": b"-", b" ": b" "}
        return Hunk(
            old_start=self.new_start,
            new_start=self.old_start,
            lines=tuple((swap[mark], text) for mark, text in self.lines),
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


def parse(diff: bytes, *, strip: int = 1, prefix: str = "", paths: tuple[str, ...] = ()) -> tuple[Section, ...]:
    """Read a diff.

    `strip` leading parts are dropped from every name, then `paths` selects (a name, or a folder
    ending in "/"; empty selects all), then `prefix` is put in front. Raises DiffError.
    """
    return _Parser(diff, strip, prefix, paths).run()


@dataclass(slots=True)
class _Header:
    """What a section's header lines have said so far."""

    at: int
    git_old: str | None = None
    git_new: str | None = None
    old: str | None = None
    new: str | None = None
    has_names: bool = False
    old_mode: int | None = None
    new_mode: int | None = None
    created: bool = False
    deleted: bool = False
    source: str | None = None
    copied: bool = False
    target: str | None = None
    old_blob: str = ""
    new_blob: str = ""
    crlf: bool = False


class _Parser:
    def __init__(self, diff: bytes, strip: int, prefix: str, paths: tuple[str, ...]) -> None:
        self.lines = diff.split(b"\n")
        if self.lines[-1] == b"":
            self.lines.pop()
        self.strip, self.prefix, self.select = strip, prefix, paths
        self.i = 0
        self.commit = 0
        self.sections: list[Section] = []
        self.found = 0

    def error(self, why: str, at: int | None = None) -> DiffError:
        return DiffError(f"line {(self.i if at is None else at) + 1}: {why}")

    def run(self) -> tuple[Section, ...]:
        while self.i < len(self.lines):
            line = self.lines[self.i]
            if line.startswith(b"diff --git "):
                self.git_section()
            elif line.startswith(b"--- ") and self.peek(1).startswith(b"+++ "):
                self.plain_section()
            else:
                self.between(line)
                self.i += 1
        if not self.found:
            raise DiffError("no change found in it: neither a 'diff --git' line nor '---'/'+++' lines with hunks")
        if not self.sections:
            raise DiffError(f"none of its files lies in the selected paths ({', '.join(self.select)})")
        return tuple(self.sections)

    def peek(self, ahead: int) -> bytes:
        at = self.i + ahead
        return self.lines[at] if at < len(self.lines) else b""

    def between(self, line: bytes) -> None:
        """Text between sections is ignored, unless it is a change that would be lost."""
        if _COMMIT.match(line):
            self.commit += 1
        elif _HUNK.match(line):
            raise self.error("a hunk that belongs to no file")
        elif line.startswith((b"diff --cc ", b"diff --combined ")):
            name = line.split(b" ", 2)[2].decode("utf-8", "replace")
            raise self.error(f"{name}: a combined diff (of a merge) cannot be applied; diff against one parent")
        elif line.startswith(b"Binary files ") and line.rstrip(b"\r").endswith(b" differ"):
            raise self.error(self.no_data(line))
        elif line.startswith(b"GIT binary patch"):
            raise self.error("a binary change that belongs to no file")
        elif line.startswith(b"***************"):
            raise self.error("a context diff; patchkit reads unified diffs (diff -u, git diff)")
        elif _ONLY_IN.match(line):
            text = line.decode("utf-8", "replace")
            raise self.error(f"'{text}': the file's content is not in the diff; make it with diff -N")

    @staticmethod
    def no_data(line: bytes) -> str:
        text = line.rstrip(b"\r").decode("utf-8", "replace")
        return f"'{text}': the binary change's data is not in the diff; make it with git diff --binary"

    # -- names

    def name(self, raw: bytes, strip: int) -> str:
        """A name as written in a header, unquoted, stripped and re-rooted; /dev/null as it is."""
        text = unquote(raw) if raw.startswith(b'"') else raw
        if text is None:
            raise self.error(f"a quoted name that does not end: {raw.decode('utf-8', 'replace')}")
        if text == b"/dev/null":
            return _NULL
        stripped = strip_parts(text, strip)
        if not stripped:
            name = text.decode("utf-8", "replace")
            raise self.error(f"{name}: has fewer than the {strip} leading parts that are to be stripped")
        return stripped.decode("utf-8", "surrogateescape")

    def placed(self, name: str | None) -> str | None:
        if name is None:
            return None
        try:
            return check_relative(f"{self.prefix}/{name}" if self.prefix else name)
        except UnsafePathError as error:
            raise self.error(str(error)) from None

    def selected(self, name: str) -> bool:
        return not self.select or any(
            name == want or name.startswith(want if want.endswith("/") else want + "/") for want in self.select
        )

    # -- sections

    def plain_section(self) -> None:
        """A section of plain `diff -u`: two name lines and hunks."""
        head = _Header(at=self.i)
        self.name_lines(head)
        hunks = self.hunks()
        if not hunks:
            raise self.error(f"{head.new or head.old}: named as changed, but no hunk follows", head.at)
        old, new = head.old, head.new
        empty_before = len(hunks) == 1 and not hunks[0].old
        empty_after = len(hunks) == 1 and not hunks[0].new
        if _NULL not in (old, new):
            old = new = self.one_name(old, new, head)
        created = old == _NULL or (head.created and empty_before)
        deleted = new == _NULL or (head.deleted and empty_after)
        self.finish(
            head,
            old=None if created else old,
            new=None if deleted else new,
            hunks=hunks,
            may_create=empty_before and not created,
        )

    def one_name(self, old: str | None, new: str | None, head: _Header) -> str:
        """The one file that `---` and `+++` mean: the same name, or one with a suffix (.orig)."""
        assert old is not None
        assert new is not None
        if old == new or old.startswith(new):
            return new
        if new.startswith(old):
            return old
        raise self.error(f"'---' names {old} and '+++' names {new}: not one file", head.at)

    def name_lines(self, head: _Header) -> None:
        for marker in (b"--- ", b"+++ "):
            line = self.peek(0)
            if not line.startswith(marker):
                raise self.error(f"expected a '{marker.decode().strip()}' line", self.i)
            head.crlf = head.crlf or line.endswith(b"\r")
            raw = line[4:].rstrip(b"\r")
            epoch = _is_epoch(raw)
            name = self.name(cut_name(raw), self.strip)
            if marker == b"--- ":
                head.old, head.created = name, head.created or epoch
            else:
                head.new, head.deleted = name, head.deleted or epoch
            self.i += 1
        head.has_names = True

    def git_section(self) -> None:
        head = _Header(at=self.i)
        raw = self.lines[self.i].rstrip(b"\r")[len(b"diff --git ") :]
        self.i += 1
        binary: tuple[BinaryHunk, BinaryHunk | None] | None = None
        while self.i < len(self.lines) and self.extended(head):
            self.i += 1
        line = self.peek(0)
        if line.startswith(b"GIT binary patch"):
            binary = self.binary()
        elif line.startswith(b"Binary files ") and line.rstrip(b"\r").endswith(b" differ"):
            raise self.error(self.no_data(line))
        elif line.startswith(b"--- ") and self.peek(1).startswith(b"+++ "):
            created, deleted = head.created, head.deleted
            self.name_lines(head)
            head.created, head.deleted = created, deleted
        hunks = self.hunks() if head.has_names else ()
        if head.has_names and not hunks:
            raise self.error("names a changed file, but no hunk follows", head.at)
        old, new = self.git_names(head, raw)
        if not (hunks or binary or head.created or head.deleted or head.source or head.old_mode != head.new_mode):
            raise self.error(f"{new or old}: named as changed, but the diff holds no change of it", head.at)
        self.finish(head, old=old, new=new, hunks=hunks, binary=binary)

    def extended(self, head: _Header) -> bool:
        """Take one extended header line of a git section; False where it is none."""
        line = self.lines[self.i].rstrip(b"\r")
        inner = max(self.strip - 1, 0)
        for word, field in (
            (b"old mode ", "old_mode"),
            (b"new mode ", "new_mode"),
            (b"new file mode ", "new_mode"),
            (b"deleted file mode ", "old_mode"),
        ):
            if line.startswith(word):
                setattr(head, field, self.mode(line[len(word) :]))
                head.created = head.created or word.startswith(b"new file")
                head.deleted = head.deleted or word.startswith(b"deleted")
                return True
        for word in (b"rename from ", b"copy from ", b"rename old "):
            if line.startswith(word):
                head.source = self.name(line[len(word) :], inner)
                head.copied = word.startswith(b"copy")
                return True
        for word in (b"rename to ", b"copy to ", b"rename new "):
            if line.startswith(word):
                head.target = self.name(line[len(word) :], inner)
                return True
        if line.startswith(b"index "):
            self.index_line(head, line)
            return True
        return line.startswith((b"similarity index ", b"dissimilarity index "))

    def mode(self, text: bytes) -> int:
        try:
            mode = int(text.strip(), 8)
        except ValueError:
            raise self.error(f"a mode that is no octal number: {text.decode('utf-8', 'replace')}") from None
        if mode & 0o170000 == 0o160000:
            raise self.error("a submodule's change cannot be applied to files")
        if mode & 0o170000 not in (FILE_TYPE, LINK_TYPE):
            raise self.error(f"mode {mode:o} is neither a file's nor a link's")
        return mode

    def index_line(self, head: _Header, line: bytes) -> None:
        words = line.split()
        blobs = words[1].split(b"..") if len(words) > 1 else []
        if len(blobs) == 2 and all(re.fullmatch(rb"[0-9a-f]{4,64}", blob) for blob in blobs):
            head.old_blob, head.new_blob = (blob.decode("ascii") for blob in blobs)
        if len(words) == 3 and head.old_mode is None and head.new_mode is None:
            head.old_mode = head.new_mode = self.mode(words[2])

    def git_names(self, head: _Header, raw: bytes) -> tuple[str | None, str | None]:
        """The old and the new path, None on the side where there is no file."""
        if (head.source is None) != (head.target is None):
            raise self.error("a rename or copy that names only one of its two files", head.at)
        if head.source is not None:
            return head.source, head.target
        if head.has_names:
            old, new = head.old, head.new
            if _NULL not in (old, new) and old != new:
                raise self.error(f"'---' names {old} and '+++' names {new}: not one file", head.at)
            if old == _NULL and new == _NULL:
                raise self.error("names /dev/null on both sides", head.at)
            return (None if old == _NULL else old), (None if new == _NULL else new)
        both = split_git_header(raw, self.strip)
        if both is None:
            text = raw.decode("utf-8", "replace")
            raise self.error(f"cannot tell the file's name from 'diff --git {text}'", head.at)
        name = both.decode("utf-8", "surrogateescape")
        return (None if head.created else name), (None if head.deleted else name)

    def finish(
        self,
        head: _Header,
        *,
        old: str | None,
        new: str | None,
        hunks: tuple[Hunk, ...] = (),
        binary: tuple[BinaryHunk, BinaryHunk | None] | None = None,
        may_create: bool = False,
    ) -> None:
        self.found += 1
        wanted = [self.selected(name) for name in (old, new) if name is not None]
        if not any(wanted):
            return
        if not all(wanted):
            raise self.error(f"{old} -> {new}: one of the two names lies outside the selected paths", head.at)
        if (head.created and new is None) or (head.deleted and old is None):
            raise self.error("a header that says created or deleted, and names that say the opposite", head.at)
        self.sections.append(
            Section(
                change=_change(head, old, new, bool(hunks or binary)),
                old=self.placed(old),
                new=self.placed(new),
                old_mode=head.old_mode,
                new_mode=head.new_mode,
                hunks=hunks,
                binary=binary[0] if binary else None,
                binary_back=binary[1] if binary else None,
                old_blob=head.old_blob,
                new_blob=head.new_blob,
                crlf_header=head.crlf,
                may_create=may_create,
                commit=self.commit,
                at=head.at + 1,
            )
        )

    # -- bodies

    def binary(self) -> tuple[BinaryHunk, BinaryHunk | None]:
        try:
            forward, back, self.i = parse_binary(self.lines, self.i + 1)
        except ValueError as error:
            raise self.error(str(error)) from None
        return forward, back

    def hunks(self) -> tuple[Hunk, ...]:
        found = []
        while (match := _HUNK.match(self.peek(0))) is not None:
            found.append(self.hunk(match))
        line = self.peek(0)
        more = line[:1] in (b"+", b"-") and line.rstrip() not in (b"--", b"---")
        if found and more and not (line.startswith(b"--- ") and self.peek(1).startswith(b"+++ ")):
            raise self.error("the hunk before this line holds more lines than its header says")
        return tuple(found)

    def hunk(self, match: re.Match[bytes]) -> Hunk:
        old_start, old_count, new_start, new_count = (
            int(group) if group is not None else 1 for group in match.groups()
        )
        at = self.i
        self.i += 1
        left_old, left_new = old_count, new_count
        lines: list[tuple[bytes, bytes]] = []
        while left_old or left_new:
            if self.i >= len(self.lines):
                raise self.error(f"the hunk ends early: {left_old} old and {left_new} new lines are missing", at)
            line = self.lines[self.i]
            mark = line[:1]
            if mark in (b"", b"\r"):  # a blank context line that lost its leading space
                mark, line = b" ", b" " + line
            if mark == _NO_NEWLINE:
                self.drop_newline(lines)
                self.i += 1
                continue
            if mark not in (b" ", b"-", b"+"):
                raise self.error(f"expected a hunk line (' ', '-', '+'), found {line[:40]!r}")
            left_old -= mark != b"+"
            left_new -= mark != b"-"
            if left_old < 0 or left_new < 0:
                raise self.error("the hunk's lines do not add up to the counts in its header", at)
            lines.append((mark, line[1:] + b"\n"))
            self.i += 1
        if self.peek(0).startswith(_NO_NEWLINE):
            self.drop_newline(lines)
            self.i += 1
        if not lines:
            raise self.error("a hunk without lines", at)
        return Hunk(old_start=old_start, new_start=new_start, lines=tuple(lines), at=at + 1)

    def drop_newline(self, lines: list[tuple[bytes, bytes]]) -> None:
        if not lines or not lines[-1][1].endswith(b"\n"):
            raise self.error("a 'No newline at end of file' mark that follows no line")
        mark, text = lines[-1]
        lines[-1] = (mark, text[:-1])


def _is_epoch(raw: bytes) -> bool:
    """Whether a name line's time stamp is the epoch, by which `diff -N` marks an absent file."""
    match = _EPOCH.search(raw)
    if match is None:
        return False
    zone = match.group(1)
    east = (int(zone[1:3]) * 60 + int(zone[3:5])) * (1 if zone[:1] == b"+" else -1)
    day, hour, minute = (
        raw.split(b"\t")[-1].split(b" ")[0],
        *(int(part) for part in raw.split(b" ")[-2].split(b":")[:2]),
    )
    local = (0 if day == b"1970-01-01" else -24 * 60) + hour * 60 + minute
    return local == east


def _change(head: _Header, old: str | None, new: str | None, content: bool) -> Change:
    if head.source is not None:
        return Change.COPIED if head.copied else Change.RENAMED
    if old is None:
        return Change.ADDED
    if new is None:
        return Change.DELETED
    return Change.MODIFIED if content else Change.MODE
