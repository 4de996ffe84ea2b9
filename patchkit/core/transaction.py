"""Changes a target all or nothing, and repairs it after a kill.

A redo log. *Prepare*: the journal names the temporary files that are about to be made; then they
are written beside their targets, complete with metadata, and fsynced; the tree is untouched.
*Commit*: the journal is replaced by one that says so; from here on the change is carried out, by
this run or by the next: remove, rename, drop byte-code, put the new ledger in place, forget the
journal. Each of these steps may be done twice. A journal found in the prepare phase is undone.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import time
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from patchkit.core import files
from patchkit.core.canonical import sealed, unsealed
from patchkit.core.errors import BusyError, DriftError
from patchkit.core.ledger import LEDGER, Kept, KeptDir, Ledger, kept_in, kept_out, parse, render, safe
from patchkit.core.paths import LEDGER_DIR, parents
from patchkit.core.site import Site, machine_says
from patchkit.core.tree import REGULAR, FileState, UnreadableError

if TYPE_CHECKING:
    from collections.abc import Iterator

JOURNAL = f"{LEDGER_DIR}/journal.json"
_NEXT = f"{LEDGER_DIR}/ledger.next.json"
_PRISTINE = f"{LEDGER_DIR}/pristine"
_LINKS = f"{LEDGER_DIR}/links"
_LOG = f"{LEDGER_DIR}/log"
_ANEW = "take the tree from the image anew and apply to that"


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """One file's change: from what is on disk (`before`) to `after` with the bytes `data`."""

    path: str
    before: Kept | None
    after: Kept | None
    data: bytes = b""


@contextmanager
def locked(site: Site) -> Iterator[None]:
    """Hold the target. Raises BusyError where another run does."""
    try:
        fcntl.flock(site.fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise BusyError(
            f"{site.path}: another run of patchkit is at work on this target",
            hint="wait for it to end, then run the same command again",
        ) from None
    try:
        yield
    finally:
        fcntl.flock(site.fd, fcntl.LOCK_UN)


def read_ledger(site: Site) -> Ledger | None:
    """The target's ledger; None where nothing was applied. Raises DriftError where it was tampered with."""
    state = _own_file(site, LEDGER)
    return None if state is None else parse(state, f"{site.path}/{LEDGER}")


def read_pristine(site: Site, kept: Kept) -> bytes:
    """The pristine bytes that the ledger keeps. Raises DriftError where they are gone or changed."""
    path = f"{_PRISTINE}/{kept.sha256}"
    data = _own_file(site, path)
    if data is None or FileState(data=data).sha256 != kept.sha256:
        found = "it is gone" if data is None else "its bytes were changed"
        raise DriftError(
            f"{site.path}/{path}: the ledger's copy of a pristine file: {found}",
            hint="take the tree from the image anew and apply to that",
        )
    return data


def is_interrupted(site: Site) -> bool:
    """Whether a run was killed in the middle and has not been repaired yet."""
    return _own_file(site, JOURNAL) is not None


def _own_file(site: Site, path: str) -> bytes | None:
    """A file of the ledger directory, or None. Raises DriftError where a link or directory stands there."""
    try:
        state = site.read(path)
    except UnreadableError as error:
        raise DriftError(f"{site.path}/{path}: {error}", hint=_ANEW) from None
    if state is not None and state.kind != REGULAR:
        raise DriftError(f"{site.path}/{path}: it is a symbolic link; patchkit never makes one there", hint=_ANEW)
    return None if state is None else state.data


@dataclass(frozen=True, slots=True, kw_only=True)
class _Layout:
    """Where everything of one change goes: directories to make and to remove, the temporary file of
    each path that is written, and the kept hard link of each path that is renamed back."""

    creates: tuple[KeptDir, ...]
    removes: tuple[KeptDir, ...]
    temps: dict[str, str]
    relinks: dict[str, str]


class Transaction:
    """One change of a target, to be made while it is `locked`."""

    def __init__(self, site: Site) -> None:
        self.site = site

    # -- repair

    def recover(self) -> str | None:
        """Finish or undo a killed run; what was done, for a person, or None where nothing was to do.

        Raises DriftError where somebody changed a file in between: then nothing is touched.
        """
        name = f"{self.site.path}/{JOURNAL}"
        text = _own_file(self.site, JOURNAL)
        if text is None:
            return None
        try:
            journal = unsealed(text)
            with machine_says(f"cannot repair {self.site.path} after an interrupted run"):
                if journal["phase"] == "prepare":
                    self._undo(journal)
                    return "an interrupted run was undone"
                self._check_unchanged(journal)
                self._carry_out(journal)
                return "an interrupted run was finished"
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise DriftError(f"{name}: it is no whole journal: {error}", hint=_ANEW) from None

    def _check_unchanged(self, journal: dict[str, Any]) -> None:
        for op in journal["ops"]:
            path = safe(op["path"])
            state = self.site.read(path)
            expected = (kept_in(op["before"]), kept_in(op["after"]))
            if not any(state is None if kept is None else kept.is_state(state) for kept in expected):
                raise DriftError(
                    f"{self.site.path}/{path}: an interrupted run was about to change this file,"
                    " and somebody else has changed it since",
                    hint="put the file back as it was before or after that run, then run the same command again",
                )

    def _undo(self, journal: dict[str, Any]) -> None:
        for temp in journal["temps"]:
            files.remove(self.site, safe(temp))
        for directory in reversed(journal["dirs"]):
            files.remove_dir(self.site, safe(directory))
        files.remove(self.site, _NEXT)
        self._forget_unused(read_ledger(self.site))
        files.remove(self.site, JOURNAL)
        self.drop_bare_directory()

    # -- change

    def commit(self, operations: list[Operation], old: Ledger | None, new: Ledger | None, log: str) -> None:
        """Carry out `operations` and put `new` in the place of `old` (None: no ledger at all).

        `new`'s record of directories is completed here. Raises RefusedByMachineError where the
        machine refuses; before the commit point the tree is then as it was.
        """
        layout = self._layout(operations, old)
        if new is not None:
            new = _with_dirs(new, old, layout)
        prepare = {
            "phase": "prepare",
            "temps": sorted(layout.temps.values()),
            "dirs": [directory.path for directory in layout.creates],
        }
        with machine_says(f"cannot change {self.site.path}; nothing was changed"):
            try:
                self._make_own_dirs()
                self._write_own(JOURNAL, sealed(prepare))
                self._prepare(operations, old, new, layout)
                journal = _commit_journal(operations, new, layout, log)
                self._write_own(JOURNAL, sealed(journal))
            except BaseException:
                self._undo(prepare)
                raise
        with machine_says(f"the change of {self.site.path} was interrupted; run the same command again to finish it"):
            self._carry_out(journal)

    def _prepare(self, operations: list[Operation], old: Ledger | None, new: Ledger | None, layout: _Layout) -> None:
        for directory in layout.creates:
            owner = (directory.uid, directory.gid) if directory.uid >= 0 else (None, None)
            files.make_dir(self.site, directory.path, directory.mode, *owner)
        known = old.files if old is not None else {}
        for op in operations:
            if new is not None and op.path in new.files and op.path not in known:
                self._keep_pristine(op.path, new.files[op.path].before)
            if op.path in layout.temps:
                assert op.after is not None
                files.write_new(self.site, layout.temps[op.path], op.data, op.after)
        if new is not None:
            self._write_own(_NEXT, render(new))
        files.sync_dirs(self.site, [*layout.temps.values(), f"{_PRISTINE}/", f"{_LINKS}/", f"{LEDGER_DIR}/"])

    def _keep_pristine(self, path: str, before: Kept | None) -> None:
        """Copy the bytes of `path` into the ledger; a file with more hard links keeps one there."""
        if before is None:
            return
        state = self.site.read(path)
        if not before.is_state(state):
            raise DriftError(f"{self.site.path}/{path}: it changed while patchkit was at work", hint="run it again")
        assert state is not None
        target = f"{_PRISTINE}/{before.sha256}"
        if self.site.lstat(target) is None:
            files.write_new(self.site, target, state.data, Kept(sha256=before.sha256, kind=REGULAR, mode=0o644))
        meta = self.site.meta(path)
        if before.kind == REGULAR and meta is not None and meta.links > 1:
            files.make_dir(self.site, _LINKS, 0o755, None, None)
            files.remove(self.site, _link_name(path))
            files.link(self.site, path, _link_name(path))

    def _carry_out(self, journal: dict[str, Any]) -> None:
        """From the commit point on; every part may be done twice."""
        ops = journal["ops"]
        for op in ops:
            if op["after"] is None:
                files.remove(self.site, safe(op["path"]))
                files.remove_bytecode(self.site, op["path"])
        for directory in journal["rmdirs"]:
            files.remove_dir(self.site, safe(directory))
        for op in ops:
            self._put_in_place(op["temp"], safe(op["path"]))
        for op in ops:
            files.remove_bytecode(self.site, op["path"])
        files.sync_dirs(self.site, [op["path"] for op in ops])
        if journal["ledger"]:
            if self.site.lstat(_NEXT) is not None:
                files.replace(self.site, _NEXT, LEDGER)
            self._append_log(journal["log"])
        else:
            files.remove(self.site, LEDGER)
            files.remove(self.site, _LOG)
        files.sync_dirs(self.site, [LEDGER])
        self._forget_unused(read_ledger(self.site))
        files.remove(self.site, JOURNAL)
        files.sync_dirs(self.site, [JOURNAL])
        if not journal["ledger"]:
            self.drop_bare_directory()

    def _put_in_place(self, temp: str | None, path: str) -> None:
        if temp is None or self.site.lstat(temp) is None:
            return  # a removal, or done before the kill
        if temp.startswith(f"{_LINKS}/"):
            files.touch(self.site, temp)
        files.replace(self.site, temp, path)

    # -- directories

    def _layout(self, operations: list[Operation], old: Ledger | None) -> _Layout:
        gone = {kept_dir.path: kept_dir for kept_dir in (old.dirs_removed if old is not None else ())}
        creates: dict[str, KeptDir] = {}
        for op in operations:
            if op.after is None:
                continue
            for directory in reversed(parents(op.path)):
                if directory not in creates and not files.is_dir(self.site, directory):
                    creates[directory] = gone.get(directory, KeptDir(path=directory, mode=0o755, uid=-1, gid=-1))
        temps, relinks = {}, {}
        for number, op in enumerate(operations):
            if op.after is None:
                continue
            if self._can_relink(op):
                relinks[op.path] = _link_name(op.path)
            else:
                temps[op.path] = f"{op.path.rpartition('/')[0]}/.patchkit-{number}.tmp".lstrip("/")
        return _Layout(
            creates=tuple(creates.values()), removes=tuple(self._emptied(operations)), temps=temps, relinks=relinks
        )

    def _can_relink(self, op: Operation) -> bool:
        """Whether the hard link kept for `op.path` is just what `op` is to put back."""
        name = _link_name(op.path)
        state = self.site.read(name)
        if op.after is None or not op.after.is_state(state):
            return False
        assert state is not None
        return files.kept(state, self.site.meta(name)) == op.after

    def _emptied(self, operations: list[Operation]) -> list[KeptDir]:
        """The directories that the operations leave empty, innermost first, with what they are."""
        leaving = {op.path for op in operations if op.after is None and op.before is not None}
        staying = {op.path for op in operations if op.after is not None}
        found: dict[str, KeptDir] = {}
        for path in sorted(leaving, key=lambda p: -p.count("/")):
            for directory in parents(path):
                inside = [f"{directory}/{name}" for name in files.entries(self.site, directory)]
                left = [p for p in inside if p not in leaving and p not in found and not p.endswith("/__pycache__")]
                if left or any(p.startswith(directory + "/") for p in staying):
                    break
                meta = self.site.lstat(directory)
                if meta is not None and directory not in found:
                    mode = meta.st_mode & 0o7777
                    found[directory] = KeptDir(path=directory, mode=mode, uid=meta.st_uid, gid=meta.st_gid)
        return sorted(found.values(), key=lambda kept_dir: -kept_dir.path.count("/"))

    # -- patchkit's own directory

    def _make_own_dirs(self) -> None:
        for directory in (LEDGER_DIR, _PRISTINE):
            files.make_dir(self.site, directory, 0o755, None, None)

    def _write_own(self, path: str, text: str) -> None:
        temp = f"{path}.tmp"
        files.remove(self.site, temp)
        files.write_new(self.site, temp, text.encode("ascii"), Kept(sha256="", kind=REGULAR, mode=0o644))
        files.replace(self.site, temp, path)
        files.sync_dirs(self.site, [path])

    def _append_log(self, line: str) -> None:
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        with self.site.parent(_LOG) as (fd, name):
            handle = os.open(name, flags, 0o644, dir_fd=fd)
        with open(handle, "ab") as stream:
            stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
            stream.write(f"{stamp} {line}\n".encode("utf-8", "backslashreplace"))

    def _forget_unused(self, ledger: Ledger | None) -> None:
        """Drop kept bytes and links that no ledger needs any more."""
        blobs = ledger.blobs if ledger is not None else set()
        links = {_link_name(path) for path in ledger.files} if ledger is not None else set()
        for name in files.entries(self.site, _PRISTINE):
            if name not in blobs:
                files.remove(self.site, f"{_PRISTINE}/{name}")
        for name in files.entries(self.site, _LINKS):
            if f"{_LINKS}/{name}" not in links:
                files.remove(self.site, f"{_LINKS}/{name}")

    def drop_bare_directory(self) -> None:
        """Remove the ledger directory if it holds neither a ledger nor a journal."""
        if not files.is_dir(self.site, LEDGER_DIR):
            return
        if _own_file(self.site, LEDGER) is not None or _own_file(self.site, JOURNAL) is not None:
            return
        for leftover in (_NEXT, f"{_NEXT}.tmp", f"{JOURNAL}.tmp", _LOG):
            files.remove(self.site, leftover)
        self._forget_unused(None)
        for directory in (_PRISTINE, _LINKS, LEDGER_DIR):
            files.remove_dir(self.site, directory)


def _link_name(path: str) -> str:
    return f"{_LINKS}/{hashlib.sha256(path.encode('utf-8', 'surrogateescape')).hexdigest()[:32]}"


def _commit_journal(operations: list[Operation], new: Ledger | None, layout: _Layout, log: str) -> dict[str, Any]:
    return {
        "phase": "commit",
        "ops": [
            {
                "path": op.path,
                "temp": layout.temps.get(op.path) or layout.relinks.get(op.path),
                "before": kept_out(op.before),
                "after": kept_out(op.after),
            }
            for op in operations
        ],
        "rmdirs": [directory.path for directory in layout.removes],
        "ledger": new is not None,
        "log": log,
    }


def _with_dirs(new: Ledger, old: Ledger | None, layout: _Layout) -> Ledger:
    """`new` with the directories that a revert removes and restores."""
    made = list(old.dirs_created) if old is not None else []
    gone = list(old.dirs_removed) if old is not None else []
    were_gone = {kept_dir.path for kept_dir in gone}
    made += [directory.path for directory in layout.creates if directory.path not in were_gone]
    created_now = {directory.path for directory in layout.creates}
    gone = [kept_dir for kept_dir in gone if kept_dir.path not in created_now]
    gone += [directory for directory in layout.removes if directory.path not in made]
    removed_now = {directory.path for directory in layout.removes}
    made = [path for path in made if path not in removed_now]
    return replace(new, dirs_created=tuple(made), dirs_removed=tuple(gone))
