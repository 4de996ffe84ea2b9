"""What patchkit holds in a target, read: the lock on it, its ledger, the journal of a killed run.

Light: an `apply` that finds everything done needs no more than this. What changes a target is in `transaction`.
"""

from __future__ import annotations

import fcntl
from contextlib import contextmanager, suppress

from patchkit.core.errors import BusyError, DriftError
from patchkit.core.ledger import LEDGER, parse
from patchkit.core.paths import LEDGER_DIR
from patchkit.core.site import machine_says
from patchkit.core.tree import REGULAR, UnreadableError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from patchkit.core.ledger import Ledger
    from patchkit.core.site import Site

JOURNAL = f"{LEDGER_DIR}/journal.json"
PRISTINE = f"{LEDGER_DIR}/pristine"
ANEW = "take the tree from the image anew and apply to that"


@contextmanager
def locked(site: Site, *, shared: bool = False) -> Iterator[None]:
    """Hold the target: alone, or `shared` with other readers. Raises BusyError where another run does."""
    with machine_says(f"cannot lock {site.path}"):
        try:
            fcntl.flock(site.fd, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
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
    text = own_file(site, LEDGER)
    if text is not None:
        return parse(text, f"{site.path}/{LEDGER}")
    if _keeps_pristine(site) and not is_interrupted(site):
        raise DriftError(
            f"{site.path}/{LEDGER}: it is gone, but the pristine files it speaks of are still kept beside it",
            hint=f"put it back; or {ANEW}",
        )
    return None


def is_interrupted(site: Site) -> bool:
    """Whether a run was killed in the middle and has not been repaired yet."""
    return read_journal(site) is not None


def read_journal(site: Site) -> bytes | None:
    """The journal's text; None where there is none.

    Where files cannot be renamed (a container that does not run), it is removed before its committed
    form takes its place: that form then counts, for only whole it says so.
    """
    text = own_file(site, JOURNAL)
    if text is None and (staged := own_file(site, f"{JOURNAL}.tmp")) is not None:
        from patchkit.core.journal import COMMIT, parse

        with suppress(DriftError):  # cut off in the middle: nothing had begun
            if parse(staged, JOURNAL).phase == COMMIT:
                return staged
    return text


def own_file(site: Site, path: str) -> bytes | None:
    """A file of the ledger directory, or None. Raises DriftError where a link or directory stands there."""
    try:
        state = site.read(path)
    except UnreadableError as error:
        raise DriftError(f"{site.path}/{path}: {error}", hint=ANEW) from None
    if state is not None and state.kind != REGULAR:
        raise DriftError(f"{site.path}/{path}: it is a symbolic link; patchkit never makes one there", hint=ANEW)
    return None if state is None else state.data


def _keeps_pristine(site: Site) -> bool:
    from patchkit.core import files  # not where a ledger is

    return bool(files.entries(site, PRISTINE))


def repair(site: Site) -> str | None:
    """Finish or undo a killed run (`Transaction.recover`); what was done, or None where nothing was to do."""
    if not is_interrupted(site) and site.lstat(f"{JOURNAL}.tmp") is None:
        return None
    from patchkit.core.transaction import Transaction  # only after a kill

    return Transaction(site).recover()
