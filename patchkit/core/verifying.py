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
from patchkit.core.verdicts import Outcome, Verdict

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
        error: PatchkitError = DriftError(f"{target.label}: the stack is not applied here", hint=_apply(lock, target))
        return replace(report, outcome=Outcome.DRIFTED, error=error)
    report = base_report("verify", lock, target, ledger.stand_in, steps)
    if not ledger.steps and steps:
        error = DriftError(f"{target.label}: none of the steps is applied here", hint=_apply(lock, target))
        return replace(report, outcome=Outcome.DRIFTED, error=error)
    drifted, broken = drift(target, ledger), _broken(target, ledger)
    if drifted:
        report = _with_broken(drift_report(report, ledger, drifted, target.caller), broken)
        assert report.error is not None
        error = DriftError(*report.error.problems, *broken.values(), hint=report.error.hint)
        return replace(report, outcome=Outcome.DRIFTED, notes=standing_notes(ledger, report), error=error)
    for kept in {file.before for file in ledger.files.values() if file.before is not None}:
        read_pristine(target.site, kept)
    report = _with_broken(unchanged(report, ledger), broken)
    if not ledger.complete or any(step.verdict is Verdict.PARTIAL for step in report.steps):
        error = DriftError(
            f"{target.label}: an earlier run ended before its last step",
            hint=f"{_apply(lock, target)} goes on with it, revert takes it off",
        )
        return replace(report, outcome=Outcome.DRIFTED, error=error)
    if broken:
        error = DriftError(*broken.values(), hint=f"carry it out again: {_apply(lock, target)}")
        return replace(report, outcome=Outcome.DRIFTED, error=error)
    if ledger.lock != lock.digest:
        error = DriftError(
            f"{target.label}: applied is stack version {ledger.version} (lock {ledger.lock[:19]}…),"
            f" the lock here is version {lock.version} ({lock.digest[:19]}…)",
            hint=f"upgrade it in place: {_apply(lock, target)}",
        )
        return replace(report, outcome=Outcome.DRIFTED, error=error)
    absent = [step.id for step in report.steps if step.verdict is None]
    notes = (*report.notes, f"not applied here: {', '.join(absent)}") if absent else report.notes
    return replace(report, outcome=Outcome.CLEAN, notes=(*notes, *unseen_notes(target, ledger)))


def unseen_notes(target: Target, ledger: Ledger) -> tuple[str, ...]:
    """Which steps of the ledger were not looked at, and why."""
    if not ledger.effects or target.is_machine:
        return ()
    return (f"not looked at, since only the running machine tells: {', '.join(ledger.effects)}",)


def _broken(target: Target, ledger: Ledger) -> dict[str, str]:
    """The steps whose effect is there no more, with what is missing."""
    if not ledger.effects or not target.is_machine:
        return {}
    from patchkit.core.segments import broken_effects

    return broken_effects(target, ledger)


def _with_broken(report: Report, broken: dict[str, str]) -> Report:
    steps = tuple(
        replace(step, verdict=Verdict.DRIFTED, detail=(*step.detail, broken[step.id])) if step.id in broken else step
        for step in report.steps
    )
    return replace(report, steps=steps)


def _apply(lock: Lock, target: Target) -> str:
    return target.caller.spell("apply", image=lock.image.name)
