"""What a stack would do to a tree: every step's verdict and the files in the end. Pure decisions.

Steps are tried in order on an overlay. A step that does not fit changes nothing; later steps are
judged without it, and those that share its files are blocked.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from patchkit.core.errors import ConfigError
from patchkit.core.judge import ReadInput, judge
from patchkit.core.tree import FileState, Overlay, Tree
from patchkit.core.verdicts import GOOD, Verdict

if TYPE_CHECKING:
    from patchkit.core.lockfile import FileChange, Lock, LockedStep

FILE_KINDS = ("patch", "replace")


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedStep:
    """One step's verdict; `detail` is one line a finding, for a person."""

    step: LockedStep
    verdict: Verdict
    changes: tuple[FileChange, ...] = ()
    detail: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """`final` maps every path that a step writes to its state in the end (None: removed)."""

    steps: tuple[PlannedStep, ...]
    final: dict[str, FileState | None]

    @property
    def fits(self) -> bool:
        """Whether every step may be applied."""
        return all(step.verdict in GOOD for step in self.steps)

    def writers(self, path: str) -> tuple[str, ...]:
        """The ids of the steps that write `path`."""
        return tuple(planned.step.id for planned in self.steps if path in planned.writes)


def select(lock: Lock, only: tuple[str, ...]) -> tuple[LockedStep, ...]:
    """The steps to apply, in the stack's order: all, or the closed selection `only`.

    Raises ConfigError for an unknown id, and where an unselected earlier step touches a selected
    step's files.
    """
    if not only:
        return lock.steps
    known = [step.id for step in lock.steps]
    strange = [step_id for step_id in only if step_id not in known]
    if strange:
        raise ConfigError(
            *(f"--only {step_id}: the stack of {lock.image.name} has no such step" for step_id in strange),
            hint=f"its steps are: {', '.join(known)}",
        )
    problems = [
        f"--only: step {step.id} builds on the files of step {earlier.id}, which is not selected"
        for index, step in enumerate(lock.steps)
        if step.id in only
        for earlier in lock.steps[:index]
        if earlier.id not in only and earlier.kind in FILE_KINDS and earlier.shares_files(step)
    ]
    if problems:
        raise ConfigError(*problems, hint="select the named steps, too")
    return tuple(step for step in lock.steps if step.id in only)


def require_resolved(lock: Lock, steps: tuple[LockedStep, ...]) -> None:
    """Raise ConfigError naming every fact of `steps` that is not known, with the command that resolves it."""
    unknown = [(step, fact) for step in steps for fact in step.unresolved]
    if not unknown:
        return
    ready = [step.id for step in lock.steps if not step.unresolved]
    problems = [f"step {step.id} is unresolved: {fact.what} is not known; {fact.command}" for step, fact in unknown]
    closed = _closed(lock, tuple(ready))
    hint = f"apply the rest now: --only {','.join(closed)}" if closed else "resolve them, then: patchkit lock"
    raise ConfigError(*problems, hint=hint)


def _closed(lock: Lock, ids: tuple[str, ...]) -> tuple[str, ...]:
    """The largest part of `ids` that `select` accepts and a plain directory can take."""
    kept: list[str] = []
    for index, step in enumerate(lock.steps):
        if step.id not in ids or step.kind not in FILE_KINDS:
            continue
        missing = [e for e in lock.steps[:index] if e.id not in kept and e.kind in FILE_KINDS and e.shares_files(step)]
        if not missing:
            kept.append(step.id)
    return tuple(kept)


def make_plan(steps: tuple[LockedStep, ...], tree: Tree, read_input: ReadInput, *, stage: str | None = None) -> Plan:
    """Try `steps` in order on `tree`, which must be pristine. `stage` leaves the other stage's steps
    for later. Raises ConfigError where an input is broken."""
    overlay = Overlay(tree)
    planned: list[PlannedStep] = []
    for step in steps:
        one = _plan_step(step, overlay, read_input, stage, planned)
        planned.append(one)
    return Plan(steps=tuple(planned), final=dict(overlay.changes))


def _plan_step(
    step: LockedStep, overlay: Overlay, read_input: ReadInput, stage: str | None, before: list[PlannedStep]
) -> PlannedStep:
    if step.unresolved:
        detail = tuple(f"{fact.what} is not known; {fact.command}" for fact in step.unresolved)
        return PlannedStep(step=step, verdict=Verdict.UNRESOLVED, detail=detail)
    if step.kind not in FILE_KINDS:
        when = f"a {step.kind} step of stage {step.stage}, for a machine that can run it"
        return PlannedStep(step=step, verdict=Verdict.DEFERRED, detail=(when,))
    if stage is not None and step.stage != stage:
        return PlannedStep(step=step, verdict=Verdict.DEFERRED, detail=(f"waits for stage {step.stage}",))
    judgement = judge(step, overlay, read_input)
    blockers = [p.step.id for p in before if p.verdict not in GOOD and p.step.shares_files(step)]
    if blockers:
        detail = (f"shares files with {', '.join(blockers)}, which cannot be applied",)
        return PlannedStep(step=step, verdict=Verdict.BLOCKED, changes=judgement.changes, detail=detail)
    for path, state in judgement.writes.items():
        overlay.write(path, state)
    return PlannedStep(
        step=step,
        verdict=judgement.verdict,
        changes=judgement.changes,
        detail=judgement.detail,
        writes=tuple(judgement.writes),
    )
