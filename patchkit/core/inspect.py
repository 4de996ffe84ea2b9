"""status and diff on one target: what is on disk, and the stack as one unified diff."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from patchkit.core.change import is_pinned, pristine_view, with_plan
from patchkit.core.drifted import drift_report
from patchkit.core.errors import ConflictError, DriftError
from patchkit.core.holding import locked, read_ledger
from patchkit.core.operate import (
    Request,
    Target,
    base_report,
    check_identity,
    drift,
    is_taken,
    not_pinned,
    require_whole,
    standing_notes,
)
from patchkit.core.plan import count_there, make_plan
from patchkit.core.render_diff import render_diff
from patchkit.core.selection import FILE_KINDS, require_resolved, select
from patchkit.core.tree import UnreadableError
from patchkit.core.verdicts import GOOD, Outcome
from patchkit.core.verifying import unseen_notes

if TYPE_CHECKING:
    from patchkit.core.ledger import Ledger
    from patchkit.core.lockfile import Lock
    from patchkit.core.report import Report
    from patchkit.core.tree import FileState, Tree


def status(request: Request, target: Target) -> Report:
    """Each step's verdict on the target, as it is. Changes nothing, fails for nothing it can report."""
    with locked(target.site, shared=True):
        return _status(request, target)


def _status(request: Request, target: Target) -> Report:
    lock = request.lock
    require_whole(target)
    ledger = read_ledger(target.site)
    stand_in = check_identity(lock, target, ledger)
    report = base_report("status", lock, target, stand_in, lock.steps)
    effects = None
    if any(step.kind not in FILE_KINDS for step in lock.steps):
        from patchkit.core.segments import judged

        effects = judged(lock.steps, target, ledger)
    tree = pristine_view(target.site, ledger)
    there = count_there(lock.steps, tree) if ledger is None and not is_pinned(lock.steps, tree) else 0
    plan = make_plan(lock.steps, tree, request.read_input, effects=effects, there=there)
    report = with_plan(report, plan, ledger)
    if ledger is None:
        return replace(report, outcome=Outcome.REPORTED, notes=_unapplied_notes(lock, target, stand_in))
    drifted = drift(target, ledger)
    if drifted:
        report = replace(drift_report(report, ledger, drifted, target.caller), error=None)
    notes = (*report.notes, *standing_notes(ledger, report))
    if not ledger.complete:
        again = target.caller.spell("apply", image=lock.image.name)
        notes = (*notes, f"an earlier run ended before its last step; {again} goes on with it")
    if ledger.lock != lock.digest:
        newer = target.caller.spell("apply", image=lock.image.name)
        notes = (*notes, f"applied is stack version {ledger.version}; {newer} brings version {lock.version}")
    notes = (*notes, *unseen_notes(target, ledger))
    return replace(report, outcome=Outcome.REPORTED, stand_in=ledger.stand_in, notes=notes)


def _unapplied_notes(lock: Lock, target: Target, stand_in: bool) -> tuple[str, ...]:
    notes = ("the stack is not applied here; the verdicts say what apply would find",)
    if stand_in:
        return (*notes, f"stand-in: these are files of another release than image {lock.image.name}")
    if not is_pinned(lock.steps, target.site):
        return (*notes, not_pinned(lock.image.name))
    return notes


def diff(request: Request, target: Target) -> tuple[Report, bytes]:
    """The stack as one unified diff in git's form: what is applied to the target, or, where nothing
    is, what `apply` would do. The report's `error` is set where the stack does not fit."""
    with locked(target.site, shared=True):
        return _diff(request, target)


def _diff(request: Request, target: Target) -> tuple[Report, bytes]:
    lock = request.lock
    require_whole(target)
    ledger = read_ledger(target.site)
    stand_in = check_identity(lock, target, ledger)
    steps = select(lock, request.only)
    report = base_report("diff", lock, target, stand_in, steps)
    pristine = pristine_view(target.site, ledger)
    if ledger is not None:
        notes = standing_notes(ledger, report)
        if request.only:
            notes = (*notes, "--only is left aside: this is all that is applied here, as it is on disk")
        report = replace(report, outcome=Outcome.REPORTED, notes=notes)
        return report, render_diff(_applied_files(target, ledger, pristine))
    require_resolved(lock, steps)
    plan = make_plan(steps, pristine, request.read_input)
    report = with_plan(report, plan, ledger)
    if not plan.fits:
        bad = [f"step {p.step.id}: {p.verdict.value}" for p in plan.steps if p.verdict not in GOOD]
        why = target.caller.spell("apply", "--dry-run", image=lock.image.name)
        error = ConflictError(*bad, hint=f"see why: {why}")
        return replace(report, error=error), b""
    text = render_diff({path: (pristine.read(path), state) for path, state in plan.final.items()})
    return replace(report, outcome=Outcome.REPORTED), text


def _applied_files(
    target: Target, ledger: Ledger, pristine: Tree
) -> dict[str, tuple[FileState | None, FileState | None]]:
    found = {}
    for path in ledger.files:
        try:
            state = None if is_taken(ledger, path) else target.site.read(path)
        except UnreadableError as error:
            hint = f"move it away by hand, then: {target.caller.spell('revert', '--force')}"
            raise DriftError(f"{target.site.path}/{path}: {error}", hint=hint) from None
        found[path] = (pristine.read(path), state)
    return found
