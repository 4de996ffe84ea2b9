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
from patchkit.core.hunks import FILE_TYPE, LINK_TYPE, Hunk, Section
from patchkit.core.paths import UnsafePathError, check_relative
from patchkit.core.quoting import cut_name, readable, shown, split_git_header, split_git_pair, strip_parts, unquote
from patchkit.core.verdicts import Change

__all__ = ["DiffError", "Hunk", "Section", "parse"]

_HUNK = re.compile(rb"@@ -(\d{1,9})(?:,(\d{1,9}))? \+(\d{1,9})(?:,(\d{1,9}))? @@")
_COMMIT = re.compile(rb"(?:From [0-9a-f]{40,64} |commit [0-9a-f]{40,64}\b)")
_EPOCH = re.compile(rb"\t(?:1969-12-31|1970-01-01) \d\d:\d\d:00(?:\.0+)? ([+-]\d\d\d\d)$")
_ONLY_IN = re.compile(rb"Only in [^:]+: \S")
_CONTEXT_RANGE = re.compile(rb"\*\*\* \d+(?:,\d+)? \*\*\*\*")
_ORPHAN = re.compile(rb"(?:old mode|new mode|new file mode|deleted file mode) [0-7]{6}\r?$")
_MODE = re.compile(rb"[0-7]{5,6}")
_NO_NEWLINE = ord("\\")
_NULL = "/dev/null"
_SUFFIX = ".~-_"


class DiffError(ValueError):
    """A diff that cannot be applied from its text. `str()` names the line and the reason."""


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
    source: bytes | None = None
    copied: bool = False
    target: bytes | None = None
    old_blob: str = ""
    new_blob: str = ""
    crlf: bool = False


class _Parser:
    def __init__(self, diff: bytes, strip: int, prefix: str, paths: tuple[str, ...]) -> None:
        if diff.startswith((b"\xff\xfe", b"\xfe\xff")):
            raise DiffError("the diff is written in UTF-16; make it with git diff --output=FILE")
        self.lines = diff.removeprefix(b"\xef\xbb\xbf").split(b"\n")
        if self.lines[-1] == b"":
            self.lines.pop()
        self.strip, self.prefix, self.select = strip, prefix, paths
        self.cut_off = not diff.endswith(b"\n")
        self.i = 0
        self.commit = 0
        self.file = ""
        self.only_in: DiffError | None = None
        self.compares_folders = False
        self.sections: list[Section] = []
        self.found = 0

    def error(self, why: str, at: int | None = None) -> DiffError:
        """The error of line `at` (default: the one being read), naming the file that is being read."""
        where = f"line {(self.i if at is None else at) + 1}"
        return DiffError(f"{where}: {self.file}: {why}" if self.file else f"{where}: {why}")

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
            self.file = ""
        if self.only_in is not None and (self.compares_folders or not self.found):
            raise self.only_in
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
        elif line.startswith(b"@@ -"):
            raise self.error("a hunk that belongs to no file")
        elif line.startswith((b"diff --cc ", b"diff --combined ")):
            self.file = readable(line.rstrip(b"\r").split(b" ", 2)[2])
            raise self.error("a combined diff (of a merge) cannot be applied; diff against one parent")
        elif line.startswith(b"diff -"):
            self.compares_folders = True
        elif line.startswith(b"Binary files ") and line.rstrip(b"\r").endswith(b" differ"):
            raise self.error(self.no_data(line))
        elif line.startswith(b"GIT binary patch"):
            raise self.error("a binary change that belongs to no file")
        elif _ORPHAN.match(line) or (line.startswith(b"rename from ") and self.peek(1).startswith(b"rename to ")):
            raise self.error(f"'{readable(line)}' belongs to no 'diff --git' line")
        elif line.rstrip() == b"*" * 15 and _CONTEXT_RANGE.match(self.peek(1)):
            raise self.error("a context diff; patchkit reads unified diffs (diff -u, git diff)")
        elif _ONLY_IN.match(line) and self.only_in is None:
            why = f"'{readable(line)}': the file's content is not in the diff; make it with diff -N"
            self.only_in = self.error(why)

    @staticmethod
    def no_data(line: bytes) -> str:
        return f"'{readable(line)}': the binary change's data is not in the diff; make it with git diff --binary"

    # -- names

    def name(self, raw: bytes, strip: int) -> str:
        """A name as written in a header, unquoted, stripped and re-rooted; /dev/null as it is."""
        text = self.unquoted(raw)
        if text == b"/dev/null":
            return _NULL
        stripped = strip_parts(text, strip)
        if not stripped:
            raise self.error(f"{readable(text)}: has fewer than the {strip} leading parts that are to be stripped")
        return stripped.decode("utf-8", "surrogateescape")

    def unquoted(self, raw: bytes) -> bytes:
        text = unquote(raw) if raw.startswith(b'"') else raw
        if text is None:
            raise self.error(f"a quoted name that does not end: {readable(raw)}")
        return text

    def placed(self, name: str | None, at: int) -> str | None:
        if name is None:
            return None
        try:
            return check_relative(f"{self.prefix}/{name}" if self.prefix else name)
        except UnsafePathError as error:
            raise self.error(str(error), at) from None

    def selected(self, name: str) -> bool:
        return not self.select or any(
            name == want or name.startswith(want if want.endswith("/") else want + "/") for want in self.select
        )

    # -- sections

    def plain_section(self) -> None:
        """A section of plain `diff -u`: two name lines and hunks."""
        head = _Header(at=self.i)
        self.name_lines(head)
        old, new = head.old, head.new
        self.file = shown((old if new == _NULL else new) or "")
        if old == _NULL and new == _NULL:
            raise self.error("names /dev/null on both sides", head.at)
        hunks = self.hunks()
        if not hunks:
            raise self.error("named as changed, but no hunk follows", head.at)
        empty_before = len(hunks) == 1 and b" " not in hunks[0].marks and b"-" not in hunks[0].marks
        empty_after = len(hunks) == 1 and b" " not in hunks[0].marks and b"+" not in hunks[0].marks
        if _NULL not in (old, new):
            old = new = self.one_name(old, new, head)
        created = old == _NULL or (head.created and empty_before)
        deleted = new == _NULL or (head.deleted and empty_after)
        self.finish(
            head,
            old=None if created else old,
            new=None if deleted else new,
            hunks=hunks,
            may_create=empty_before and hunks[0].old_start == 0 and not created,
        )

    def one_name(self, old: str | None, new: str | None, head: _Header) -> str:
        """The one file that `---` and `+++` mean: the same name, or one with a suffix (.orig, ~)."""
        assert old is not None
        assert new is not None
        if old == new or (old.startswith(new) and old[len(new)] in _SUFFIX):
            return new
        if new.startswith(old) and new[len(old)] in _SUFFIX:
            return old
        raise self.error(f"'---' names {shown(old)} and '+++' names {shown(new)}: not one file", head.at)

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
        both = split_git_header(raw, self.strip)
        self.file = readable(raw if both is None else both)
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
            raise self.error("named as changed, but no hunk follows", head.at)
        old, new = self.git_names(head, raw, both)
        if not (hunks or binary or head.created or head.deleted or head.source or head.old_mode != head.new_mode):
            raise self.error("named as changed, but the diff holds no change of it", head.at)
        if None not in (head.old_mode, head.new_mode) and _type(head.old_mode) != _type(head.new_mode):
            raise self.error("changes a file into a link, or back, without deleting it first", head.at)
        self.finish(head, old=old, new=new, hunks=hunks, binary=binary)

    def extended(self, head: _Header) -> bool:
        """Take one extended header line of a git section; False where it is none."""
        line = self.lines[self.i].rstrip(b"\r")
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
                head.source = self.unquoted(line[len(word) :])
                head.copied = word.startswith(b"copy")
                return True
        for word in (b"rename to ", b"copy to ", b"rename new "):
            if line.startswith(word):
                head.target = self.unquoted(line[len(word) :])
                return True
        if line.startswith(b"index "):
            self.index_line(head, line)
            return True
        return line.startswith((b"similarity index ", b"dissimilarity index "))

    def mode(self, text: bytes) -> int:
        if not _MODE.fullmatch(text.strip()):
            raise self.error(f"a mode that is no octal number: {readable(text)}")
        mode = int(text.strip(), 8)
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

    def git_names(self, head: _Header, raw: bytes, both: bytes | None) -> tuple[str | None, str | None]:
        """The old and the new path, None on the side where there is no file."""
        if (head.source is None) != (head.target is None):
            raise self.error("a rename or copy that names only one of its two files", head.at)
        named = None if both is None else both.decode("utf-8", "surrogateescape")
        old: str | None
        new: str | None
        if head.source is not None and head.target is not None:
            pair = split_git_pair(raw, self.strip, head.source, head.target)
            if pair is None:
                raise self.error("the names of the rename or copy are not those of 'diff --git'", head.at)
            old, new = (name.decode("utf-8", "surrogateescape") for name in pair)
        elif head.has_names:
            old, new = head.old, head.new
            if old == _NULL and new == _NULL:
                raise self.error("names /dev/null on both sides", head.at)
            old, new = (None if old == _NULL else old), (None if new == _NULL else new)
            if named is not None and None not in (old, new) and named in (old, new):
                old = new = named  # one of the two was mistyped: the other and the 'diff --git' line agree
        elif named is None:
            raise self.error(f"cannot tell the file's name from 'diff --git {readable(raw)}'", head.at)
        else:
            old, new = (None if head.created else named), (None if head.deleted else named)
        self.check_names(head, old, new, named)
        return old, new

    def check_names(self, head: _Header, old: str | None, new: str | None, named: str | None) -> None:
        """A git section says its names up to three times; where they differ, nothing tells which is meant."""
        if head.source is not None:
            if head.has_names and (head.old, head.new) != (old, new):
                raise self.error("the names of the rename or copy are not those of '---' and '+++'", head.at)
            return
        if old is not None and new is not None and old != new:
            raise self.error(f"'---' names {shown(old)} and '+++' names {shown(new)}: not one file", head.at)
        if named is not None and named not in (old, new):
            text = shown(new if new is not None else old or "")
            raise self.error(f"'diff --git' names it, but '---' and '+++' name {text}", head.at)
        if (head.created and old is not None) or (head.deleted and new is not None):
            raise self.error("a header that says created or deleted, and names that say the opposite", head.at)

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
            pair = f"{shown(old or '')} -> {shown(new or '')}"
            raise self.error(f"{pair}: one of the two names lies outside the selected paths", head.at)
        self.sections.append(
            Section(
                change=_change(head, old, new, bool(hunks or binary)),
                old=self.placed(old, head.at),
                new=self.placed(new, head.at),
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
        if self.peek(0).startswith(b"@@"):
            raise self.error(f"a hunk header that cannot be read: {readable(self.peek(0))}")
        ahead = 0
        while found and self.peek(ahead).startswith(b" "):
            ahead += 1
        if found and self.changes_more(ahead):
            raise self.error("the hunk before this line holds more lines than its header says", self.i + ahead)
        return tuple(found)

    def changes_more(self, ahead: int) -> bool:
        """Whether the line that many lines ahead looks like a hunk's, and is no signature or next header."""
        line = self.peek(ahead)
        if not line.startswith((b"+", b"-")) or line.rstrip() in (b"--", b"---") or line.startswith(b"-----BEGIN "):
            return False
        return not (line.startswith(b"--- ") and self.peek(ahead + 1).startswith(b"+++ "))

    def hunk(self, match: re.Match[bytes]) -> Hunk:
        old_start, left_old, new_start, left_new = (int(group or 1) for group in match.groups())
        at = self.i
        self.i += 1
        marks, texts = bytearray(), list[bytes]()
        while left_old or left_new:
            if self.i >= len(self.lines):
                raise self.error(f"the hunk ends early: {left_old} old and {left_new} new lines are missing", at)
            line = self.lines[self.i]
            if line in (b"", b"\r"):  # a blank context line that lost its leading space
                line = b" " + line
            mark = line[0]
            if mark == _NO_NEWLINE:
                self.drop_newline(texts)
                self.i += 1
                continue
            if mark not in b" -+":
                raise self.error(f"expected a hunk line (' ', '-', '+'), found {line[:40]!r}")
            left_old -= mark != 0x2B
            left_new -= mark != 0x2D
            if left_old < 0 or left_new < 0:
                raise self.error("the hunk's lines do not add up to the counts in its header", at)
            marks.append(mark)
            texts.append(line[1:] + b"\n")
            self.lines[self.i] = b""  # read: a long diff need not be held twice
            self.i += 1
        if self.peek(0)[:1] == b"\\":
            self.drop_newline(texts)
            self.i += 1
        elif self.cut_off and self.i == len(self.lines) and marks.endswith(b"+"):
            raise self.error("the diff ends in the middle of a line that it adds", self.i - 1)
        if not marks.strip(b" "):
            raise self.error("a hunk that changes nothing", at)
        return Hunk(old_start=old_start, new_start=new_start, marks=bytes(marks), texts=tuple(texts), at=at + 1)

    def drop_newline(self, texts: list[bytes]) -> None:
        if not texts or not texts[-1].endswith(b"\n"):
            raise self.error("a 'No newline at end of file' mark that follows no line")
        texts[-1] = texts[-1][:-1]


def _type(mode: int | None) -> int:
    return (mode or 0) & 0o170000


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
