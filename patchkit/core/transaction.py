"""Changes a target all or nothing, and repairs it after a kill.

A redo log. *Prepare*: the journal names the temporary files that are about to be made; then they
are written beside their targets, complete with metadata, and fsynced; the tree is untouched.
*Commit*: the journal is replaced by one that says so; from here on the change is carried out, by
this run or by the next: remove, rename, drop byte-code, put the new ledger in place, forget the
journal. Each of these steps may be done twice. A journal found in the prepare phase is undone.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from patchkit.core import files
from patchkit.core.errors import DriftError, PatchkitError, RefusedByMachineError
from patchkit.core.holding import ANEW, JOURNAL, PRISTINE, is_interrupted, own_file, read_journal, read_ledger
from patchkit.core.ledger import LEDGER, PACKAGES, Kept, Ledger, render
from patchkit.core.paths import LEDGER_DIR
from patchkit.core.site import Site, machine_says
from patchkit.core.tree import REGULAR, FileState, UnreadableError
from patchkit.core.values import replace

if TYPE_CHECKING:
    from patchkit.core.journal import Journal
    from patchkit.core.layout import Layout, Operation

_LINKS = f"{LEDGER_DIR}/links"
_LOG = f"{LEDGER_DIR}/log"


def read_pristine(site: Site, kept: Kept) -> bytes:
    """The pristine bytes that the ledger keeps. Raises DriftError where they are gone or changed."""
    path = f"{PRISTINE}/{kept.sha256}"
    data = own_file(site, path)
    if data is None or FileState(data=data).sha256 != kept.sha256:
        found = "it is gone" if data is None else "its bytes were changed"
        raise DriftError(f"{site.path}/{path}: the ledger's copy of a pristine file: {found}", hint=ANEW)
    return data


class Transaction:
    """One change of a target, to be made while it is `locked`."""

    def __init__(self, site: Site) -> None:
        self.site = site

    # -- repair

    def recover(self, *, force: bool = False) -> str | None:
        """Finish or undo a killed run; what was done, for a person, or None where nothing was to do.

        Raises DriftError where somebody changed a file in between: then nothing is touched. `force`
        gives such a file up.
        """
        text = read_journal(self.site)
        repairing = f"cannot repair {self.site.path} after an interrupted run"
        if text is None:
            with machine_says(repairing):
                files.remove(self.site, f"{JOURNAL}.tmp")  # of a run killed before it had begun
            return None
        from patchkit.core.journal import PREPARE, parse  # only after a kill
        from patchkit.core.repair import check_redo

        journal = parse(text, f"{self.site.path}/{JOURNAL}")
        with machine_says(repairing):
            if journal.phase == PREPARE:
                self._undo(journal)
                done = "an interrupted run was undone"
            else:
                if not self._is_done(journal):
                    check_redo(self.site, journal, force=force)
                if own_file(self.site, JOURNAL) is None:
                    self._put_own(JOURNAL)
                self._carry_out(journal)
                done = "an interrupted run was finished"
        self.site.checkpoint()
        return done

    def _undo(self, journal: Journal) -> None:
        ledger = read_ledger(self.site)
        for entry in journal.entries:
            if entry.temp is not None:
                files.remove(self.site, entry.temp)
        for directory in reversed(journal.temp_dirs):
            files.remove_dir(self.site, directory)
        files.sync_dirs(self.site, [temp for temp, _ in journal.moves])
        self._forget_unused(ledger)
        files.remove(self.site, JOURNAL)
        files.sync_dirs(self.site, [JOURNAL])
        self.drop_bare_directory()

    # -- change

    def commit(self, operations: list[Operation], old: Ledger | None, new: Ledger | None, log: str) -> Ledger | None:
        """Carry out `operations` and put `new` in the place of `old` (None: no ledger at all).

        Returns `new` with its record of directories, which is completed here. Raises RefusedByMachineError where the
        machine refuses; before the commit point the tree is then as it was.
        """
        from patchkit.core.journal import begin
        from patchkit.core.journal import render as render_journal
        from patchkit.core.layout import lay_out

        with machine_says(f"cannot change {self.site.path}; nothing was changed"):
            layout = lay_out(self.site, operations, old, new)
            if new is not None:
                new = replace(new, dirs_created=layout.created, dirs_removed=layout.removed)
            ledger = "" if new is None else render(new)
            journal = begin(operations, layout, ledger)
            try:
                self._make_own_dirs()
                self._stage_own(JOURNAL, render_journal(journal).encode("ascii"))
                self._put_own(JOURNAL)
                files.sync_dirs(self.site, [JOURNAL])
                self._prepare(operations, old, new, layout)
                if new is not None:
                    self._stage_own(LEDGER, ledger.encode("ascii"))
                    self._stage_own(_LOG, (own_file(self.site, _LOG) or b"") + _log_line(log))
                self._stage_own(JOURNAL, render_journal(journal.committed()).encode("ascii"))
                files.sync_dirs(self.site, [JOURNAL])
                self._require_unchanged(operations, layout)
                self.site.checkpoint()
            except BaseException as error:
                self._undo_after(error, journal)
                raise
        with machine_says(f"the change of {self.site.path} was interrupted; run the same command again to finish it"):
            files.replace(self.site, f"{JOURNAL}.tmp", JOURNAL)  # the commit point
            files.sync_dirs(self.site, [JOURNAL])
            self._carry_out(journal)
        return new

    def _undo_after(self, error: BaseException, journal: Journal) -> None:
        """Undo a failed prepare phase. Where that fails, too, both reasons are told and the journal
        stays: the next run undoes the rest."""
        try:
            self._undo(journal)
        except (OSError, PatchkitError, UnreadableError) as second:
            raise RefusedByMachineError(
                f"{self.site.path}: {str(error) or type(error).__name__}; no file was changed",
                f"{self.site.path}: temporary files are left behind: {second}",
                hint="run the same command again: it removes them",
            ) from error

    def _prepare(self, operations: list[Operation], old: Ledger | None, new: Ledger | None, layout: Layout) -> None:
        known = old.files if old is not None else {}
        for op in operations:
            files.require_removable(self.site, op.path)
            for entry in files.bytecode(self.site, op.path):
                files.require_removable(self.site, entry)
        for temp, _ in layout.new_dirs:
            files.make_dir(self.site, temp, 0o700)
        for op in operations:
            if new is not None and op.path in new.files and op.path not in known:
                self._keep_pristine(op.path, new.files[op.path].before)
            if op.after is not None:
                self._write_temp(op, op.after, layout.temps[op.path])
        for temp, like in reversed(layout.new_dirs):
            mode, uid, gid = (0o755, None, None) if like is None else (like.mode, like.uid, like.gid)
            files.dress_dir(self.site, temp, mode, uid, gid)
        written = [*layout.temps.values(), *(temp for temp, _ in layout.new_dirs)]
        files.sync_dirs(self.site, [*written, f"{PRISTINE}/", f"{_LINKS}/"])

    def _write_temp(self, op: Operation, after: Kept, temp: str) -> None:
        """The new form of `op.path`; where a hard link of just that file was kept, it is the file."""
        kept_link = _link_name(op.path)
        state = self.site.read(kept_link)
        if state is not None and files.kept(state, self.site.meta(kept_link)) == after:
            files.link(self.site, kept_link, temp)
        else:
            files.write_new(self.site, temp, op.data, after)

    def _keep_pristine(self, path: str, before: Kept | None) -> None:
        """Copy the bytes of `path` into the ledger; a file with more hard links keeps one there."""
        if before is None:
            return
        state = self.site.read(path)
        if state is None or not before.is_state(state):
            raise self._changed_meanwhile(path)
        target = f"{PRISTINE}/{before.sha256}"
        if self.site.lstat(target) is None:
            files.write_new(self.site, target, state.data, Kept(sha256=before.sha256, kind=REGULAR, mode=0o644))
        else:
            read_pristine(self.site, before)
        meta = self.site.meta(path)
        if before.kind == REGULAR and meta is not None and meta.links > 1:
            files.make_dir(self.site, _LINKS)
            files.remove(self.site, _link_name(path))
            files.link(self.site, path, _link_name(path))

    def _require_unchanged(self, operations: list[Operation], layout: Layout) -> None:
        """The last look before the commit: what will be replaced is what the plan was made from."""
        for op in operations:
            try:
                state = self.site.read(op.path)
            except UnreadableError:
                state = None  # the file is under another file, or a directory: neither is `op.before`
                if op.after is not None and files.is_dir(self.site, op.path) and op.path not in layout.rmdirs:
                    raise self._changed_meanwhile(op.path) from None
            if (state is not None) if op.before is None else not op.before.is_state(state):
                raise self._changed_meanwhile(op.path)

    def _changed_meanwhile(self, path: str) -> DriftError:
        return DriftError(
            f"{self.site.path}/{path}: somebody changed it while patchkit was at work; nothing was changed",
            hint="run it again",
        )

    def _carry_out(self, journal: Journal) -> None:
        """From the commit point on; every part may be done twice. Once the ledger is in place no file
        is touched any more: what somebody does to one after that is their own."""
        if not self._is_done(journal):
            self._change_files(journal)
        if journal.ledger:
            self._put_own(_LOG)
            self._put_own(LEDGER)
        else:
            files.remove(self.site, LEDGER)
        files.sync_dirs(self.site, [LEDGER])
        if not journal.ledger:
            files.remove(self.site, _LOG)
        self._forget_unused(read_ledger(self.site))
        files.remove(self.site, JOURNAL)
        files.sync_dirs(self.site, [JOURNAL])
        if not journal.ledger:
            self.drop_bare_directory()

    def _is_done(self, journal: Journal) -> bool:
        """Whether the ledger is what it is to be: all that is left then is to tidy up."""
        text = own_file(self.site, LEDGER)
        if text is None or not journal.ledger:
            return text is None and not journal.ledger
        return hashlib.sha256(text).hexdigest() == journal.ledger

    def _change_files(self, journal: Journal) -> None:
        for entry in journal.entries:
            if entry.after is None and not files.is_dir(self.site, entry.path):
                files.remove(self.site, entry.path)
                files.remove_bytecode(self.site, entry.path)
        for directory in journal.rmdirs:
            files.remove_dir(self.site, directory)
        for temp, path in journal.moves:
            if self.site.lstat(temp) is not None:
                files.move(self.site, temp, path)
        for entry in journal.entries:
            files.remove_bytecode(self.site, entry.path)
        removed = [entry.path for entry in journal.entries if entry.after is None]
        files.sync_dirs(self.site, [*removed, *journal.rmdirs, *(path for _, path in journal.moves)])

    # -- patchkit's own directory

    def _make_own_dirs(self) -> None:
        for directory in (LEDGER_DIR, PRISTINE):
            files.make_dir(self.site, directory)
        files.sync_dirs(self.site, [LEDGER_DIR, PRISTINE])

    def _stage_own(self, path: str, data: bytes) -> None:
        """Write the next form of one of patchkit's own files, whole, beside it."""
        files.remove(self.site, f"{path}.tmp")
        files.write_new(self.site, f"{path}.tmp", data, Kept(sha256="", kind=REGULAR, mode=0o644))

    def _put_own(self, path: str) -> None:
        """Put the staged form of a file in its place, if that was not done yet."""
        if self.site.lstat(f"{path}.tmp") is not None:
            files.replace(self.site, f"{path}.tmp", path)

    def _forget_unused(self, ledger: Ledger | None) -> None:
        """Drop kept bytes, links and staged files that no ledger needs any more."""
        blobs = ledger.blobs if ledger is not None else set()
        links = {_link_name(path) for path in ledger.files} if ledger is not None else set()
        for name in files.entries(self.site, PRISTINE):
            if name not in blobs:
                files.remove(self.site, f"{PRISTINE}/{name}")
        for name in files.entries(self.site, _LINKS):
            if f"{_LINKS}/{name}" not in links:
                files.remove(self.site, f"{_LINKS}/{name}")
        packages = ledger.packages if ledger is not None else set()
        for name in files.entries(self.site, PACKAGES):
            if name not in packages:
                files.remove(self.site, f"{PACKAGES}/{name}")
        for directory in (_LINKS, PACKAGES):
            if not files.entries(self.site, directory):  # who may not remove it is refused, full as it is, too
                files.remove_dir(self.site, directory)
        for path in (LEDGER, _LOG, JOURNAL):
            files.remove(self.site, f"{path}.tmp")

    def drop_bare_directory(self) -> None:
        """Remove the ledger directory if it holds neither a ledger nor a journal."""
        if not files.is_dir(self.site, LEDGER_DIR) or is_interrupted(self.site) or read_ledger(self.site) is not None:
            return
        self._forget_unused(None)
        for directory in (PRISTINE, _LINKS, LEDGER_DIR):
            files.remove_dir(self.site, directory)


def _link_name(path: str) -> str:
    return f"{_LINKS}/{hashlib.sha256(path.encode('utf-8', 'surrogateescape')).hexdigest()[:32]}"


def _log_line(text: str) -> bytes:
    import time

    stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    return f"{stamp} {text}\n".encode("utf-8", "backslashreplace")
