"""verify: is a target still as patchkit left it, and is that what the lock says?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from patchkit.core.drifted import drift_report
from patchkit.core.errors import DriftError, PatchkitError
from patchkit.core.holding import locked, read_ledger
from patchkit.core.operate import Target, base_report, check_identity, drift, require_whole, standing_notes, unchanged
from patchkit.core.selection import select
from patchkit.core.transaction import read_pristine
from patchkit.core.values import replace
from patchkit.core.verdicts import Outcome

if TYPE_CHECKING:
    from patchkit.core.ledger import Ledger
    from patchkit.core.lockfile import Lock, LockedStep
    from patchkit.core.report import Report


def verify(lock: Lock, target: Target, only: tuple[str, ...] = ()) -> Report:
    """What `operate.verify` does."""
    steps = select(lock, only)
    with locked(target.site, shared=True):
        require_whole(target)
        ledger = read_ledger(target.site)
        return _verify(lock, target, steps, ledger)


def _verify(lock: Lock, target: Target, steps: tuple[LockedStep, ...], ledger: Ledger | None) -> Report:
    stand_in = check_identity(lock, target, ledger)
    if ledger is None:
        report = base_report("verify", lock, target, stand_in, steps)
        error: PatchkitError = DriftError(
            f"{target.label}: the stack is not applied here", hint=f"patchkit apply --image {lock.image.name}"
        )
        return replace(report, outcome=Outcome.DRIFTED, error=error)
    report = base_report("verify", lock, target, ledger.stand_in, steps)
    if not ledger.steps and steps:
        error = DriftError(
            f"{target.label}: none of the steps is applied here", hint=f"patchkit apply --image {lock.image.name}"
        )
        return replace(report, outcome=Outcome.DRIFTED, error=error)
    drifted = drift(target, ledger)
    if drifted:
        report = drift_report(report, ledger, drifted)
        return replace(report, outcome=Outcome.DRIFTED, notes=standing_notes(ledger, report))
    for kept in {file.before for file in ledger.files.values() if file.before is not None}:
        read_pristine(target.site, kept)
    report = unchanged(report, ledger)
    if not ledger.complete:
        error = DriftError(
            f"{target.label}: an earlier run ended before its last step",
            hint=f"patchkit apply --image {lock.image.name} goes on with it, revert takes it off",
        )
        return replace(report, outcome=Outcome.DRIFTED, error=error)
    if ledger.effects and target.is_machine:
        from patchkit.core.segments import broken_effects

        broken = broken_effects(target, ledger)
        if broken:
            error = DriftError(*broken, hint=f"carry it out again: patchkit apply --image {lock.image.name}")
            return replace(report, outcome=Outcome.DRIFTED, error=error)
    if ledger.lock != lock.digest:
        error = DriftError(
            f"{target.label}: applied is stack version {ledger.version} (lock {ledger.lock[:19]}…),"
            f" the lock here is version {lock.version} ({lock.digest[:19]}…)",
            hint=f"upgrade it in place: patchkit apply --image {lock.image.name}",
        )
        return replace(report, outcome=Outcome.DRIFTED, error=error)
    absent = [step.id for step in report.steps if step.verdict is None]
    notes = (*report.notes, f"not applied here: {', '.join(absent)}") if absent else report.notes
    if ledger.effects and not target.is_machine:
        notes = (*notes, f"not looked at, since only the running machine tells: {', '.join(ledger.effects)}")
    return replace(report, outcome=Outcome.CLEAN, notes=notes)
