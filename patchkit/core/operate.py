"""apply, revert and verify on one open target (diff and status: `inspect`): the whole tool, but for where locks and
trees come from. The one implementation behind the command line and the bundle.

What finds that everything is done already stands here, and is light; what does more is loaded when it is needed.
"""

from __future__ import annotations

from patchkit.core.errors import DriftError, IdentityError, RefusedByMachineError
from patchkit.core.holding import is_interrupted, locked, read_ledger, repair
from patchkit.core.paths import parents
from patchkit.core.report import Report, StepReport
from patchkit.core.roots import Caller
from patchkit.core.selection import FILE_KINDS, require_resolved, select
from patchkit.core.site import machine_says
from patchkit.core.tree import UnreadableError
from patchkit.core.values import Value, replace
from patchkit.core.verdicts import Outcome, Verdict

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from patchkit.core.ledger import Ledger, LedgerStep
    from patchkit.core.lockfile import Lock, LockedStep
    from patchkit.core.site import Site

    ReadInput = Callable[[LockedStep], bytes]


class Target(Value):
    """A tree to work on. `managed`: patchkit made it itself from the lock's sources, so that its
    identity is known; `stand_in_meant`: the person said that another release is meant; `is_machine`:
    its root is `/`, so that steps can be run on it; `caller`: how the person reaches it, for hints."""

    site: Site
    label: str
    managed: bool = False
    stand_in_meant: bool = False
    is_machine: bool = False
    caller: Caller = Caller()


class Request(Value):
    """What to apply: the lock, how to read its inputs, and which part of it."""

    lock: Lock
    read_input: ReadInput
    only: tuple[str, ...] = ()
    stage: str | None = None
    dry_run: bool = False
    notes: tuple[str, ...] = ()


def apply(request: Request, target: Target) -> Report:
    """Apply the stack: all or nothing, in place of whatever version of it is there.

    Returns the report; its `error` is set for a conflict or drift, and nothing is changed then.
    Raises every other PatchkitError (configuration, identity, busy, the machine's refusal).
    """
    steps = check_request(request, is_machine=target.is_machine)
    with locked(target.site):
        repaired = None
        if request.dry_run:
            require_whole(target)
        else:
            repaired = repair(target.site)
        ledger = read_ledger(target.site)
        if ledger is None and not request.dry_run:
            _drop_bare_directory(target)
        stand_in = check_identity(request.lock, target, ledger)
        report = base_report("apply", request.lock, target, stand_in, steps)
        report = replace(report, notes=(*request.notes, *((repaired,) if repaired else ())))
        if ledger is not None:
            drifted = drift(target, ledger)
            if drifted:
                from patchkit.core.drifted import drift_report

                return drift_report(report, ledger, drifted, target.caller)
            if _is_current(ledger, request, steps, target):
                return unchanged(report, ledger)
        if request.stage is not None and not _of_stage(steps, request.stage) and not request.only:
            return _nothing_to_do(report, ledger, request.stage)
        from patchkit.core.transaction import Transaction  # the no-op above needs none of it

        if target.is_machine and (
            any(is_active(step, request.stage) for step in steps) or (ledger is not None and ledger.effects)
        ):
            from patchkit.core.segments import carry_out
        else:
            from patchkit.core.change import carry_out

        return carry_out(request, target, Transaction(target.site), steps, ledger, report)


def _drop_bare_directory(target: Target) -> None:
    from patchkit.core.transaction import Transaction

    with machine_says(f"cannot change {target.site.path}; nothing was changed"):
        Transaction(target.site).drop_bare_directory()


def _of_stage(steps: tuple[LockedStep, ...], stage: str) -> bool:
    return any(step.stage == stage for step in steps)


def _nothing_to_do(report: Report, ledger: Ledger | None, stage: str) -> Report:
    """The report of a run whose stage has no step."""
    held = {step.id: verdict_in_ledger(step) for step in ledger.steps} if ledger is not None else {}
    steps = tuple(replace(step, verdict=held.get(step.id, Verdict.DEFERRED)) for step in report.steps)
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
            hint=f"{target.caller.spell('apply')} (or revert) finishes or undoes it first",
        )


def check_identity(lock: Lock, target: Target, ledger: Ledger | None) -> bool:
    """Whether the target is a stand-in. Raises IdentityError where it is another image and nobody
    said that this is meant."""
    if ledger is not None and ledger.image != lock.image.name:
        raise IdentityError(
            f"{target.label}: it carries the stack of image {ledger.image}, not of {lock.image.name}",
            hint=f"take that off first: {target.caller.spell('revert', image=ledger.image)}",
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
            from patchkit.core.drifted import difference

            found[path] = difference(file.after, state)
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


def unchanged(report: Report, ledger: Ledger) -> Report:
    """`report` for a target that is as its ledger says: each step's verdict is the ledger's."""
    held = {step.id: verdict_in_ledger(step) for step in ledger.steps}
    steps = tuple(replace(step, verdict=held.get(step.id), detail=()) for step in report.steps)
    notes = (*report.notes, *standing_notes(ledger, report))
    return replace(report, outcome=Outcome.UNCHANGED, stand_in=ledger.stand_in, steps=steps, notes=notes)


def verdict_in_ledger(step: LedgerStep) -> Verdict:
    """What the ledger says of a step: one that was begun and not finished is not applied."""
    if step.effect is not None and step.effect["state"] == "begun":
        return Verdict.PARTIAL
    return Verdict.UPSTREAM if step.upstream else Verdict.APPLIED


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


def taken_off(report: Report) -> Report:
    """`report` once the stack is off: its steps would apply again."""
    steps = tuple(replace(step, verdict=Verdict.APPLIES) for step in report.steps)
    return replace(report, outcome=Outcome.REVERTED, steps=steps)


def revert(image: str, target: Target, *, force: bool = False, lock: Lock | None = None) -> Report:
    """Put back every pristine file and forget the ledger. `lock` may be stale: only a report about a
    tree without a ledger needs it.

    With drift, refuses (the report's `error`), unless `force`: the drifted bytes are given up then.
    Raises DriftError for a tampered ledger, BusyError, RefusedByMachineError.
    """
    from patchkit.core.reverting import revert as carried_out

    return carried_out(image, target, force=force, lock=lock)


def verify(lock: Lock, target: Target, only: tuple[str, ...] = ()) -> Report:
    """Compare the target with its ledger, and the ledger with the lock. Changes nothing.

    Clean means: this stack, this version, this lock, every file as patchkit left it and every
    pristine file still there to be put back. Anything else
    is exit 4 (the report's `error`), named file by file and step by step.
    """
    from patchkit.core.verifying import verify as carried_out

    return carried_out(lock, target, only)
