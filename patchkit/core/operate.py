"""apply, revert, verify, diff and status on one open target: the whole tool, but for where locks and
trees come from. The one implementation behind the command line and the bundle."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from patchkit.core.errors import DriftError, IdentityError, PatchkitError, RefusedByMachineError
from patchkit.core.lockfile import Lock, LockedStep
from patchkit.core.paths import parents
from patchkit.core.report import Report, StepReport
from patchkit.core.selection import FILE_KINDS, require_resolved, select
from patchkit.core.site import machine_says
from patchkit.core.transaction import Transaction, is_interrupted, locked, read_ledger, read_pristine
from patchkit.core.tree import UnreadableError
from patchkit.core.verdicts import Outcome, Verdict

if TYPE_CHECKING:
    from patchkit.core.ledger import Ledger
    from patchkit.core.site import Site

ReadInput = Callable[[LockedStep], bytes]


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A tree to work on. `managed`: patchkit made it itself from the lock's sources, so that its
    identity is known; `stand_in_meant`: the person said that another release is meant; `is_machine`:
    its root is `/`, so that steps can be run on it."""

    site: Site
    label: str
    managed: bool = False
    stand_in_meant: bool = False
    is_machine: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What to apply: the lock, how to read its inputs, and which part of it."""

    lock: Lock
    read_input: ReadInput
    only: tuple[str, ...] = ()
    stage: str | None = None
    dry_run: bool = False
    notes: tuple[str, ...] = field(default_factory=tuple)


def apply(request: Request, target: Target) -> Report:
    """Apply the stack: all or nothing, in place of whatever version of it is there.

    Returns the report; its `error` is set for a conflict or drift, and nothing is changed then.
    Raises every other PatchkitError (configuration, identity, busy, the machine's refusal).
    """
    steps = check_request(request, is_machine=target.is_machine)
    with locked(target.site):
        transaction = Transaction(target.site)
        if request.dry_run:
            require_whole(target)
            repaired = None
        else:
            repaired = transaction.recover()
        ledger = read_ledger(target.site)
        if ledger is None and not request.dry_run:
            with machine_says(f"cannot change {target.site.path}; nothing was changed"):
                transaction.drop_bare_directory()
        stand_in = check_identity(request.lock, target, ledger)
        report = base_report("apply", request.lock, target, stand_in, steps)
        report = replace(report, notes=(*request.notes, *((repaired,) if repaired else ())))
        if ledger is not None:
            drifted = drift(target, ledger)
            if drifted:
                return drift_report(report, ledger, drifted)
            if _is_current(ledger, request, steps, target):
                return _unchanged(report, ledger)
        if request.stage is not None and not _of_stage(steps, request.stage) and not request.only:
            return _nothing_to_do(report, ledger, request.stage)
        if target.is_machine and (
            any(is_active(step, request.stage) for step in steps) or (ledger is not None and ledger.effects)
        ):
            from patchkit.core.segments import carry_out
        else:
            from patchkit.core.change import carry_out  # the no-op above needs none of it

        return carry_out(request, target, transaction, steps, ledger, report)


def _of_stage(steps: tuple[LockedStep, ...], stage: str) -> bool:
    return any(step.stage == stage for step in steps)


def _nothing_to_do(report: Report, ledger: Ledger | None, stage: str) -> Report:
    """The report of a run whose stage has no step."""
    held = {step.id for step in ledger.steps} if ledger is not None else set()
    steps = tuple(
        replace(step, verdict=Verdict.APPLIED if step.id in held else Verdict.DEFERRED) for step in report.steps
    )
    return replace(
        report, outcome=Outcome.UNCHANGED, steps=steps, notes=(*report.notes, f"no step is of stage {stage}")
    )


def check_request(request: Request, *, is_machine: bool) -> tuple[LockedStep, ...]:
    """The steps that `request` means, if they can be applied at all. Raises ConfigError for unknown
    or unresolved steps and a selection that is not closed, RefusedByMachineError for steps that
    need a running machine where the target is none."""
    steps = select(request.lock, request.only)
    require_resolved(request.lock, steps)
    if not is_machine:
        _require_runnable(steps, request.stage)
    return steps


def is_active(step: LockedStep, stage: str | None) -> bool:
    """Whether `step` does more than change files and is of a stage that is meant now."""
    return step.kind not in FILE_KINDS and stage in (None, step.stage)


def _require_runnable(steps: tuple[LockedStep, ...], stage: str | None) -> None:
    """Refuse the steps that a plain directory cannot run, before anything is touched."""
    now = [step for step in steps if is_active(step, stage)]
    if not now:
        return
    rest = [step.id for step in steps if step.kind in FILE_KINDS]
    raise RefusedByMachineError(
        *(
            f"step {step.id} ({step.kind}): a plain directory cannot run it; it needs a running container"
            for step in now
        ),
        hint=f"apply the other steps: --only {','.join(rest)}" if rest else "apply it inside the container",
    )


def require_whole(target: Target) -> None:
    """Raise DriftError where a killed run has left its journal: only a writing command repairs it."""
    if is_interrupted(target.site):
        raise DriftError(
            f"{target.label}: an earlier run was interrupted here and has not been repaired",
            hint="patchkit apply (or revert) finishes or undoes it first",
        )


def check_identity(lock: Lock, target: Target, ledger: Ledger | None) -> bool:
    """Whether the target is a stand-in. Raises IdentityError where it is another image and nobody
    said that this is meant."""
    if ledger is not None and ledger.image != lock.image.name:
        raise IdentityError(
            f"{target.label}: it carries the stack of image {ledger.image}, not of {lock.image.name}",
            hint=f"take that off first: patchkit revert --image {ledger.image}",
        )
    if target.managed:
        return not lock.exact
    from patchkit.core.identity import contradiction

    why = contradiction(lock.image, target.site)
    if why is None:
        return False
    if target.stand_in_meant or (ledger is not None and ledger.stand_in):
        return True
    raise IdentityError(
        f"{target.label}: {why}",
        hint="name the right image; or say that a stand-in is meant: --stand-in",
    )


def base_report(command: str, lock: Lock, target: Target, stand_in: bool, steps: tuple[LockedStep, ...]) -> Report:
    """The report's head, with every step still unjudged."""
    return Report(
        command=command,
        image=lock.image.name,
        outcome=Outcome.REFUSED,
        version=lock.version,
        lock=lock.digest,
        target=target.label,
        stand_in=stand_in,
        steps=tuple(
            StepReport(id=step.id, verdict=None, changes=step.changes, upstream=step.upstream) for step in steps
        ),
    )


def drift(target: Target, ledger: Ledger) -> dict[str, str]:
    """The ledger's files that are not as patchkit left them: path to what is different."""
    found: dict[str, str] = {}
    for path, file in ledger.files.items():
        if is_taken(ledger, path):
            continue
        try:
            state = target.site.read(path)
        except UnreadableError as error:
            found[path] = str(error)
            continue
        if file.after is None:
            if state is not None:
                found[path] = "it was deleted by the stack and is there again"
        elif state is None:
            found[path] = "it is gone"
        elif not file.after.is_state(state):
            found[path] = _difference(file.after.kind, file.after.mode, file.after.sha256, state)
    return found


def is_taken(ledger: Ledger, path: str) -> bool:
    """Whether the stack removed the file `path` and put a directory of its own in its place, or a file
    in the place of the directory it was in: then no file can be there."""
    if ledger.files[path].after is not None:
        return False
    above = parents(path)
    return any(
        file.after is not None and (other in above or other.startswith(f"{path}/"))
        for other, file in ledger.files.items()
    )


def _difference(kind: str, mode: int, sha256: str, state: object) -> str:
    from patchkit.core.tree import FileState

    assert isinstance(state, FileState)
    if state.kind != kind:
        return f"expected a {kind}, found a {state.kind}"
    if state.sha256 != sha256:
        return f"its content was changed: expected sha256 {sha256[:12]}…, found {state.sha256[:12]}…"
    return f"its mode was changed: expected {mode:o}, found {state.mode:o}"


def drift_report(report: Report, ledger: Ledger, drifted: dict[str, str]) -> Report:
    """`report` for a target with drift: the error names each file with its steps."""
    problems = [
        f"{path} (step {', '.join(ledger.files[path].steps) or '-'}): {why}" for path, why in sorted(drifted.items())
    ]
    error = DriftError(
        *problems,
        hint=f"look at it: patchkit diff --image {report.image}; give it up:"
        f" patchkit revert --force --image {report.image}, then apply",
    )
    changed = {step_id for path in drifted for step_id in ledger.files[path].steps}
    in_ledger = {step.id for step in ledger.steps}
    steps = tuple(
        replace(
            step,
            verdict=Verdict.DRIFTED if step.id in changed else Verdict.APPLIED if step.id in in_ledger else None,
            detail=tuple(f"{p}: {why}" for p, why in sorted(drifted.items()) if step.id in ledger.files[p].steps),
        )
        for step in report.steps
    )
    return replace(report, outcome=Outcome.REFUSED, steps=steps, error=error)


def _is_current(ledger: Ledger, request: Request, steps: tuple[LockedStep, ...], target: Target) -> bool:
    stage, held = request.stage, [step.id for step in ledger.steps]
    meant = [
        s.id
        for s in steps
        if (stage in (None, s.stage) and (s.kind in FILE_KINDS or target.is_machine)) or s.id in held
    ]
    if not ledger.complete or ledger.lock != request.lock.digest or held != meant:
        return False
    if target.is_machine and any(is_active(step, stage) for step in steps):
        from patchkit.core.segments import all_done

        return all_done(steps, target, ledger, stage)
    return True


def _unchanged(report: Report, ledger: Ledger) -> Report:
    upstream = {step.id for step in ledger.steps if step.upstream}
    applied = {step.id for step in ledger.steps}
    steps = tuple(
        replace(step, verdict=_verdict_in_ledger(step.id, applied, upstream), detail=()) for step in report.steps
    )
    notes = (*report.notes, *standing_notes(ledger, report))
    return replace(report, outcome=Outcome.UNCHANGED, stand_in=ledger.stand_in, steps=steps, notes=notes)


def _verdict_in_ledger(step_id: str, applied: set[str], upstream: set[str]) -> Verdict | None:
    if step_id in upstream:
        return Verdict.UPSTREAM
    return Verdict.APPLIED if step_id in applied else None


def standing_notes(ledger: Ledger, report: Report) -> tuple[str, ...]:
    """What every output about this target must say: stand-in, or not pinned by hash."""
    if ledger.stand_in:
        return (f"stand-in: these are files of another release than image {report.image}",)
    if not ledger.pinned:
        return (not_pinned(report.image),)
    return ()


def not_pinned(image: str) -> str:
    """The sentence about an image whose files the lock does not know, and its cure."""
    return (
        f"not pinned by hash: the lock of {image} was made from a stand-in, the hunks were applied strictly;"
        f" cure: patchkit lock --image {image} --from ROOT_OF_THE_IMAGE"
    )


def revert(image: str, target: Target, *, force: bool = False, lock: Lock | None = None) -> Report:
    """Put back every pristine file and forget the ledger. `lock` may be stale: only a report about a
    tree without a ledger needs it.

    With drift, refuses (the report's `error`), unless `force`: the drifted bytes are given up then.
    Raises DriftError for a tampered ledger, BusyError, RefusedByMachineError.
    """
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
                hint=f"patchkit revert --image {ledger.image}",
            )
        report = _ledger_report("revert", target, ledger, repaired)
        drifted = drift(target, ledger)
        if drifted and not force:
            return _refused_revert(report, ledger, drifted)
        if ledger.effects:
            from patchkit.core.segments import take_all_off

            return take_all_off(target, transaction, ledger, report, force=force)
        from patchkit.core.change import take_off

        take_off(target, transaction, ledger)
        return taken_off(report)


def taken_off(report: Report) -> Report:
    """`report` once the stack is off: its steps would apply again."""
    steps = tuple(replace(step, verdict=Verdict.APPLIES) for step in report.steps)
    return replace(report, outcome=Outcome.REVERTED, steps=steps)


def _refused_revert(report: Report, ledger: Ledger, drifted: dict[str, str]) -> Report:
    refused = drift_report(report, ledger, drifted)
    assert refused.error is not None
    hint = f"keep a copy of what you need, then: patchkit revert --force --image {report.image}"
    return replace(refused, error=DriftError(*refused.error.problems, hint=hint))


def _ledger_report(command: str, target: Target, ledger: Ledger, repaired: str | None) -> Report:
    steps = tuple(StepReport(id=step.id, verdict=Verdict.APPLIED, changes=step.changes) for step in ledger.steps)
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


def verify(lock: Lock, target: Target, only: tuple[str, ...] = ()) -> Report:
    """Compare the target with its ledger, and the ledger with the lock. Changes nothing.

    Clean means: this stack, this version, this lock, every file as patchkit left it and every
    pristine file still there to be put back. Anything else
    is exit 4 (the report's `error`), named file by file and step by step.
    """
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
    report = _unchanged(report, ledger)
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
