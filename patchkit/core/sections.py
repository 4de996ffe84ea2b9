"""Applies the sections of one diff to a tree, in memory, and tells how each one went.

A diff's reverse is a diff, too: `reverse()` turns the sections round, so that "is this change in
the tree already?" is answered by the very code that applies it.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from patchkit.core.binary import apply_binary
from patchkit.core.fit import Fit, merge, place, split_lines
from patchkit.core.hunks import LINK_TYPE, Hunk, Section
from patchkit.core.quoting import shown
from patchkit.core.tree import LINK, REGULAR, FileState, Overlay, Tree, UnreadableError
from patchkit.core.verdicts import Change

if TYPE_CHECKING:
    from collections.abc import Iterable


@dataclass(frozen=True, slots=True, kw_only=True)
class SectionResult:
    """How one section went: `why` is empty where it fits; `missing` where its file is not there;
    `same_file` whether the file is the very one that the diff was made from (None: the diff does not
    say, or it was not asked)."""

    section: Section
    fits: tuple[Fit, ...] = ()
    why: str = ""
    missing: bool = False
    same_file: bool | None = None

    @property
    def ok(self) -> bool:
        """Whether the section was carried out."""
        return not self.why

    @property
    def offset(self) -> bool:
        """Whether a hunk sits elsewhere than it says."""
        return any(fit.offset for fit in self.fits)


class _MisfitError(Exception):
    def __init__(self, why: str, *, fits: Iterable[Fit] = (), missing: bool = False) -> None:
        super().__init__(why)
        self.why, self.fits, self.missing = why, tuple(fits), missing


def apply_sections(sections: tuple[Section, ...], tree: Tree) -> tuple[Overlay, list[SectionResult]]:
    """Carry out all sections that fit, in order, and report on each.

    Within one commit, renames and copies read the tree as it was before that commit, as git does;
    everything else sees what earlier sections made.
    """
    result = Overlay(tree)
    reports: list[SectionResult] = []
    context_free = _is_context_free(sections)
    groups: dict[int, list[Section]] = {}
    for section in sections:
        groups.setdefault(section.commit, []).append(section)
    for group in groups.values():
        step = _Commit(Overlay(result), group, context_free)
        reports += step.carry_out_all(group)
        for path, state in step.after.changes.items():
            result.write(path, state)
    return result, reports


def reverse(sections: tuple[Section, ...]) -> tuple[Section, ...]:
    """The sections that undo `sections`."""
    return tuple(_reverse_one(section) for section in reversed(sections))


def _reverse_one(section: Section) -> Section:
    change = {Change.ADDED: Change.DELETED, Change.DELETED: Change.ADDED}.get(section.change, section.change)
    return replace(
        section,
        change=change,
        old=section.new,
        new=section.old,
        old_mode=section.new_mode,
        new_mode=section.old_mode,
        hunks=tuple(hunk.reversed() for hunk in section.hunks),
        binary=section.binary_back,
        binary_back=section.binary,
        old_blob=section.new_blob,
        new_blob=section.old_blob,
        may_create=False,
        undone=section.change is Change.COPIED and not section.undone,
    )


def _is_context_free(sections: tuple[Section, ...]) -> bool:
    """Whether the diff was made with -U0: no hunk of a changed file begins or ends with context (there
    may be some inside: git diff --inter-hunk-context)."""
    hunks = [h for s in sections if s.change not in (Change.ADDED, Change.DELETED) for h in s.hunks]
    return bool(hunks) and not any(hunk.marks.startswith(b" ") or hunk.marks.endswith(b" ") for hunk in hunks)


def blob_id(data: bytes) -> str:
    """Git's name for `data` as a blob, in SHA-1 (gitformat-pack(5))."""
    return hashlib.sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()


def is_blob(data: bytes, abbreviated: str) -> bool | None:
    """Whether `data` is the blob of an `index` line; None where the line tells nothing."""
    if not abbreviated or not abbreviated.strip("0") or len(abbreviated) < 7 or len(abbreviated) > 40:
        return None
    return blob_id(data).startswith(abbreviated)


class _Commit:
    """The sections of one commit, over the tree before it."""

    def __init__(self, after: Overlay, group: list[Section], context_free: bool) -> None:
        self.after = after
        self.before = after.below
        self.context_free = context_free
        self.moved = {s.old for s in group if s.change is Change.RENAMED}
        self.vacated = self.moved | {s.old for s in group if s.change is Change.DELETED or s.undone}
        self.same_file: bool | None = None  # of the section in hand
        self.waiting: dict[str | None, list[Section]] = {}  # moved to where another file is to make way
        self.written: set[str] = set()
        self.taken: set[str] = set()  # written by a rename, copy or creation: no longer what was there

    def carry_out_all(self, group: list[Section]) -> list[SectionResult]:
        """One result a section, in order. A copy is undone last: its source must have been undone by then."""
        found = {id(section): self.carry_out(section) for section in sorted(group, key=lambda s: s.undone)}
        pending = [section for section in group if not found[id(section)].ok]
        while pending:  # what was to make way stays where it is
            for section in self.waiting.pop(pending.pop().old, ()):
                if found[id(section)].ok:
                    found[id(section)] = replace(found[id(section)], why=_there_already(section))
                    pending.append(section)
        return [found[id(section)] for section in group]

    def carry_out(self, section: Section) -> SectionResult:
        self.same_file = None
        try:
            fits = self._dispatch(section)
        except _MisfitError as misfit:
            why, missing = misfit.why, misfit.missing
            return SectionResult(section=section, fits=misfit.fits, why=why, missing=missing, same_file=self.same_file)
        except UnreadableError as error:
            return SectionResult(section=section, why=str(error))
        if section.new is not None and not section.undone:
            self.written.add(section.new)
            if section.old != section.new:
                self.taken.add(section.new)
        return SectionResult(section=section, fits=tuple(fits), same_file=self.same_file)

    def _dispatch(self, section: Section) -> list[Fit]:
        if section.undone:
            return self._undo_copy(section)
        if section.old is None:
            return self._add(section)
        if section.new is None:
            return self._delete(section)
        if section.change in (Change.RENAMED, Change.COPIED):
            return self._move(section)
        return self._modify(section)

    def _current(self, tree: Tree, path: str, git_mode: int | None) -> FileState:
        state = tree.read(path)
        if state is None:
            raise _MisfitError("the file is not there", missing=True)
        if git_mode is not None and (git_mode == LINK_TYPE) != (state.kind == LINK):
            found, expected = _kind(state.kind), _kind(LINK if git_mode == LINK_TYPE else REGULAR)
            raise _MisfitError(f"expected {expected}, found {found}")
        return state

    def _editable(self, tree: Tree, path: str, section: Section) -> FileState:
        """The file that a section's hunks are for: a link only where the diff says that it is one."""
        state = self._current(tree, path, section.old_mode)
        if section.old_mode is None and state.kind == LINK and section.hunks:
            raise _MisfitError(f"expected {_kind(REGULAR)}, found {_kind(LINK)}")
        return state

    def _add(self, section: Section) -> list[Fit]:
        assert section.new is not None
        vacant = section.new in self.moved and section.new not in self.written
        if vacant:
            self.waiting.setdefault(section.new, []).append(section)
        elif self.after.read(section.new) is not None:
            raise _MisfitError(_there_already(section))
        if any(b" " in hunk.marks or b"-" in hunk.marks for hunk in section.hunks):
            raise _MisfitError("the diff creates this file, but its hunk expects lines in it")
        if len(section.hunks) > 1:
            raise _MisfitError("the diff creates this file, but in more than one hunk")
        data = self._binary(section, b"") if section.binary else _created(section)
        self.after.write(section.new, _fresh(section, data))
        return []

    def _delete(self, section: Section) -> list[Fit]:
        assert section.old is not None
        state = self._editable(self.after, section.old, section)
        left, fits = self._content(section, state.data)
        if left:
            raise _MisfitError("the diff deletes this file, but it holds more than the diff knows", fits=fits)
        self.after.write(section.old, None)
        return fits

    def _move(self, section: Section) -> list[Fit]:
        assert section.old is not None
        assert section.new is not None
        state = self._editable(self.before, section.old, section)
        if section.new != section.old and self.before.read(section.new) is not None:
            self.waiting.setdefault(section.new, []).append(section)
        occupied = self.after.read(section.new) is not None and section.new not in self.vacated
        if (occupied or section.new in self.taken) and section.new != section.old:
            raise _MisfitError(_there_already(section))
        data, fits = self._content(section, state.data)
        self.after.write(section.new, _changed(section, state, data))
        if section.change is Change.RENAMED and section.old not in self.written and section.old != section.new:
            self.after.write(section.old, None)
        return fits

    def _modify(self, section: Section) -> list[Fit]:
        assert section.old is not None
        assert section.new is not None
        if section.may_create and self.after.read(section.old) is None:
            self.after.write(section.new, _fresh(section, _created(section)))
            return []
        state = self._editable(self.after, section.old, section)
        expected = section.old_mode if section.change is Change.MODE else None
        if expected is not None and (state.mode ^ expected) & 0o100:
            raise _MisfitError(f"expected mode {expected & 0o777:o}, found {state.mode:o}")
        data, fits = self._content(section, state.data)
        self.after.write(section.new, _changed(section, state, data))
        return fits

    def _undo_copy(self, section: Section) -> list[Fit]:
        """A copy turned round: the copy must be its source plus the hunks, and goes away."""
        assert section.old is not None
        assert section.new is not None
        rewritten = section.old in self.written and section.old not in self.taken
        state = self._editable(self.after if rewritten else self.before, section.old, section)
        source = self._current(self.after, section.new, section.new_mode)
        data, fits = self._content(section, state.data)
        if data != source.data:
            raise _MisfitError(f"the file is there, but not as a copy of {shown(section.new)}", fits=fits)
        if section.old not in self.taken:
            self.after.write(section.old, None)
        return fits

    def _content(self, section: Section, data: bytes) -> tuple[bytes, list[Fit]]:
        """The content after the section's hunks."""
        if section.binary is not None or (section.binary_back is not None):
            return self._binary(section, data), []
        if not section.hunks:
            return data, []
        self.same_file = is_blob(data, section.old_blob)
        return _text(section, data, self.same_file, self.context_free)

    def _binary(self, section: Section, data: bytes) -> bytes:
        known = is_blob(data, section.old_blob)
        if known is False and section.old is not None:
            raise _MisfitError(f"expected the bytes of blob {section.old_blob}, found blob {blob_id(data)}")
        if section.binary is None:
            if known is None or section.new is not None:
                raise _MisfitError("the diff holds no data for this direction of the binary change")
            return b""
        if known is None and section.old is not None and not section.binary.delta and section.binary_back is None:
            raise _MisfitError("the binary change names no blob that it replaces; make it with git diff --full-index")
        try:
            made = apply_binary(section.binary, data)
        except ValueError as error:
            raise _MisfitError(str(error)) from None
        if known is None and section.binary_back is not None and section.old is not None:
            self._check_back(section, made, data)
        return made

    @staticmethod
    def _check_back(section: Section, made: bytes, data: bytes) -> None:
        assert section.binary_back is not None
        try:
            same = apply_binary(section.binary_back, made) == data
        except ValueError:
            same = False
        if not same:
            raise _MisfitError("the file's bytes are not the ones that the binary change replaces")


def _text(section: Section, data: bytes, same: bool | None, context_free: bool) -> tuple[bytes, list[Fit]]:
    lines = split_lines(data)
    fits = place(section.hunks, lines, context_free=context_free, same_file=same)
    if section.crlf_header and any(fit.index is None for fit in fits):
        # the whole diff was turned into CRLF on its way; the file was not
        stripped = tuple(_without_cr(hunk) for hunk in section.hunks)
        bare = place(stripped, lines, context_free=context_free, same_file=same)
        if all(fit.index is not None for fit in bare):
            fits = bare
    bad = [fit for fit in fits if fit.index is None]
    if bad:
        where = ", ".join(f"at line {fit.hunk.old_start}" for fit in bad)
        raise _MisfitError(f"hunk {where}: {bad[0].why}", fits=fits)
    return merge(fits, lines), fits


def _without_cr(hunk: Hunk) -> Hunk:
    return replace(hunk, texts=tuple(_bare(text) for text in hunk.texts))


def _bare(text: bytes) -> bytes:
    if text.endswith(b"\r\n"):
        return text[:-2] + b"\n"
    return text[:-1] if text.endswith(b"\r") else text


def _created(section: Section) -> bytes:
    """The content of a file that the diff creates. Where the whole diff was turned into CRLF on its
    way, the blob name tells whether the file was, too; without it the diff is taken at its word."""
    texts = [text for hunk in section.hunks for text in hunk.new]
    data = b"".join(texts)
    if section.crlf_header:
        bare = b"".join(_bare(text) for text in texts)
        if is_blob(bare, section.new_blob):
            return bare
    return data


def _fresh(section: Section, data: bytes) -> FileState:
    """A created file's state; git's modes know only 644, 755 and links."""
    if section.new_mode == LINK_TYPE:
        return FileState(kind=LINK, mode=0o777, data=data)
    executable = section.new_mode is not None and section.new_mode & 0o100
    return FileState(mode=0o755 if executable else 0o644, data=data)


def _changed(section: Section, state: FileState, data: bytes) -> FileState:
    """The state after a change: the file's own mode, with the execute bits as the diff sets them."""
    mode = state.mode
    if section.new_mode is not None and section.old_mode != section.new_mode and state.kind == REGULAR:
        readers = (mode & 0o444) >> 2
        mode = mode | readers if section.new_mode & 0o100 else mode & ~0o111
    return FileState(kind=state.kind, mode=mode, data=data)


def _there_already(section: Section) -> str:
    how = "creates this file" if section.old is None else f"makes this file from {shown(section.old)}"
    return f"the diff {how}, but it is there already"


def _kind(kind: str) -> str:
    return "a symbolic link" if kind == LINK else "a regular file"
