"""Whether a change that was killed after its commit point may be finished: nobody else touched anything since."""

from __future__ import annotations

from typing import TYPE_CHECKING

from patchkit.core import files
from patchkit.core.errors import DriftError
from patchkit.core.ledger import LEDGER, Ledger, parse
from patchkit.core.tree import UnreadableError

if TYPE_CHECKING:
    from patchkit.core.journal import Entry, Journal
    from patchkit.core.site import Site
    from patchkit.core.tree import FileState

_HINT = (
    "put the file back as it was before or after that run (pristine bytes: .patchkit/pristine/SHA256), then run"
    " the same command again; or keep a copy and give it up: the command `revert --force` on this very target"
)


def check_redo(site: Site, journal: Journal, *, force: bool = False) -> None:
    """Raise DriftError, naming every file that is neither as it was before the change nor as it is to
    be after it, and every piece of the change that is lost.

    `force` gives up files that the redo itself replaces, or that a revert can still put back after it.
    """
    problems = []
    ledger = _new_ledger(site, journal)
    if journal.ledger and ledger is None:
        problems.append(f"{site.path}/{LEDGER}: the new ledger of an interrupted run is gone or was changed")
    held = ledger.files if ledger is not None else {}
    dirs = {target for _, target in journal.moves} | set(journal.rmdirs)
    for entry in journal.entries:
        why = _entry_problem(site, entry, dirs)
        replaced = entry.temp is not None and site.lstat(entry.temp) is not None
        if why is not None and not (force and (replaced or entry.path in held)):
            problems.append(f"{site.path}/{entry.path}: {why}")
    for temp, target in journal.moves:
        if files.is_dir(site, temp) and not _is_part(site, target, journal):
            problems.append(f"{site.path}/{target}: somebody made this directory since a run was interrupted")
    if problems:
        raise DriftError(*problems, hint=_HINT)


def _new_ledger(site: Site, journal: Journal) -> Ledger | None:
    """The ledger that the change puts in place, whether or not it has done so yet."""
    for path in (f"{LEDGER}.tmp", LEDGER):
        state = _look(site, path)
        if state is not None and state.sha256 == journal.ledger:
            return parse(state.data, f"{site.path}/{path}")
    return None


def _entry_problem(site: Site, entry: Entry, dirs: set[str]) -> str | None:
    """What is wrong with one file. `dirs` are paths where the change itself puts or removes a directory."""
    if entry.temp is not None:
        assert entry.after is not None
        waiting = _look(site, entry.temp)
        if waiting is not None and not entry.after.is_state(waiting):
            return f"an interrupted run was about to put {entry.temp} here, and somebody has changed that since"
    else:
        waiting = None
    state = None if entry.path in dirs and files.is_dir(site, entry.path) else _look(site, entry.path)
    if state is None if entry.after is None else entry.after.is_state(state):
        return None
    if state is None or (entry.before is not None and entry.before.is_state(state)):
        if entry.after is None or waiting is not None:
            return None
        return f"an interrupted run was about to put {entry.temp} here, and that is gone"
    return "an interrupted run was about to change this file, and somebody else has changed it since"


def _is_part(site: Site, target: str, journal: Journal) -> bool:
    """Whether the directory `target` holds nothing but what the change puts there: where nothing can be
    renamed, it is filled entry by entry."""
    known = {entry.path for entry in journal.entries if entry.after is not None}
    for name in files.entries(site, target):
        inside = f"{target}/{name}"
        if inside in known and not files.is_dir(site, inside):
            continue  # its content is looked at as every entry's is
        if not any(path.startswith(f"{inside}/") for path in known) or not _is_part(site, inside, journal):
            return False
    return True


def _look(site: Site, path: str) -> FileState | None:
    """What stands at `path`, None where nothing can, as the way there leads through a file or a link."""
    try:
        return site.read(path)
    except UnreadableError as error:
        if "/" not in path or files.is_dir(site, path.rpartition("/")[0]):
            raise DriftError(f"{site.path}/{path}: {error}", hint=_HINT) from None
        return None
