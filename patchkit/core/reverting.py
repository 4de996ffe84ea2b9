"""revert: takes a stack off a target, files and all."""

from __future__ import annotations

from typing import TYPE_CHECKING

from patchkit.core.drifted import drift_report
from patchkit.core.errors import DriftError, IdentityError
from patchkit.core.holding import locked, read_ledger
from patchkit.core.operate import Target, base_report, drift, taken_off, verdict_in_ledger
from patchkit.core.report import Report, StepReport
from patchkit.core.site import machine_says
from patchkit.core.transaction import Transaction
from patchkit.core.values import replace
from patchkit.core.verdicts import Outcome

if TYPE_CHECKING:
    from patchkit.core.ledger import Ledger
    from patchkit.core.lockfile import Lock


def revert(image: str, target: Target, *, force: bool = False, lock: Lock | None = None) -> Report:
    """What `operate.revert` does."""
    with locked(target.site):
        transaction = Transaction(target.site)
        repaired = transaction.recover(force=force)
        ledger = read_ledger(target.site)
        if ledger is None:
            with machine_says(f"cannot change {target.site.path}; nothing was changed"):
                transaction.drop_bare_directory()
            notes = ("nothing was applied here",) + ((repaired,) if repaired else ())
            if lock is not None:
                report = base_report("revert", lock, target, target.managed and not lock.exact, ())
                return replace(report, outcome=Outcome.UNCHANGED, notes=notes)
            return Report(command="revert", image=image, outcome=Outcome.UNCHANGED, target=target.label, notes=notes)
        if ledger.image != image:
            raise IdentityError(
                f"{target.label}: it carries the stack of image {ledger.image}, not of {image}",
                hint=target.caller.spell("revert", image=ledger.image),
            )
        report = _ledger_report("revert", target, ledger, repaired)
        drifted = drift(target, ledger)
        if drifted and not force:
            return _refused_revert(report, target, ledger, drifted)
        if ledger.effects:
            from patchkit.core.undoing import take_all_off

            return take_all_off(target, transaction, ledger, report, force=force)
        from patchkit.core.change import take_off

        take_off(target, transaction, ledger)
        return taken_off(report)


def _refused_revert(report: Report, target: Target, ledger: Ledger, drifted: dict[str, str]) -> Report:
    refused = drift_report(report, ledger, drifted, target.caller)
    assert refused.error is not None
    hint = f"keep a copy of what you need, then: {target.caller.spell('revert', '--force', image=report.image)}"
    return replace(refused, error=DriftError(*refused.error.problems, hint=hint))


def _ledger_report(command: str, target: Target, ledger: Ledger, repaired: str | None) -> Report:
    steps = tuple(
        StepReport(id=step.id, verdict=verdict_in_ledger(step), changes=step.changes) for step in ledger.steps
    )
    return Report(
        command=command,
        image=ledger.image,
        outcome=Outcome.REFUSED,
        version=ledger.version,
        lock=ledger.lock,
        target=target.label,
        stand_in=ledger.stand_in,
        steps=steps,
        notes=(repaired,) if repaired else (),
    )
