"""Locks one image and reports on it; one image's failure must not keep the others from being locked."""

from __future__ import annotations

from typing import TYPE_CHECKING

from patchkit.app.lock import check_lock, lock_stack
from patchkit.core.errors import PatchkitError
from patchkit.core.report import Report, StepReport
from patchkit.core.verdicts import Outcome

if TYPE_CHECKING:
    from patchkit.app.project import Project
    from patchkit.core.lockfile import Lock


def check_report(project: Project, name: str) -> Report:
    """Whether the lock of image `name` is fresh; the report's `error` says what is not."""
    try:
        return _report(check_lock(project, name), Outcome.CLEAN, ())
    except PatchkitError as error:
        return Report(command="lock", image=name, outcome=Outcome.REFUSED, error=error)


def lock_report(project: Project, name: str, *, amend: bool, vendor: bool, source: str | None) -> Report:
    """Lock image `name` (see `lock_stack`); a failure is the report's `error`."""
    try:
        made = lock_stack(project, name, amend=amend, vendor=vendor, source=source)
    except PatchkitError as error:
        return Report(command="lock", image=name, outcome=Outcome.REFUSED, error=error)
    received = (f"{made.bytes_received / 1e6:.2f} MB received",) if made.bytes_received else ()
    outcome = Outcome.APPLIED if made.changed else Outcome.UNCHANGED
    return _report(made.lock, outcome, (*made.notes, *received))


def _report(lock: Lock, outcome: Outcome, notes: tuple[str, ...]) -> Report:
    return Report(
        command="lock",
        image=lock.image.name,
        outcome=outcome,
        version=lock.version,
        lock=lock.digest,
        steps=tuple(StepReport(id=s.id, verdict=None, changes=s.changes, upstream=s.upstream) for s in lock.steps),
        notes=notes,
    )
