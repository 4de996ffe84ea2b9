"""What a stack would do to a tree: every step's verdict and the files in the end. Pure decisions.

Steps are tried in order on an overlay. A step that does not fit changes nothing; later steps are
judged without it, and those that share its files are blocked.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from patchkit.core.judge import ReadInput, is_ref, judge
from patchkit.core.selection import FILE_KINDS
from patchkit.core.tree import FileState, Overlay, Tree
from patchkit.core.verdicts import GOOD, Verdict

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from patchkit.core.lockfile import FileChange, FileRef, LockedStep

#: The detail of `upstream` for leading steps whose bytes the tree holds without a ledger.
HELD_ALREADY = "by the lock's hashes, the tree holds the stack up to this step already"


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


def make_plan(
    steps: tuple[LockedStep, ...],
    tree: Tree,
    read_input: ReadInput,
    *,
    stage: str | None = None,
    held: Collection[str] = (),
    effects: Mapping[str, PlannedStep] | None = None,
    there: int = 0,
) -> Plan:
    """Try `steps` in order on `tree`, which must be pristine but for the first `there` steps
    (`count_there`). `stage` leaves the other stage's steps
    for later, but for those `held` by the target already. `effects` are the steps that do more than change files,
    judged where they can be. Raises ConfigError where an input is broken."""
    overlay = Overlay(tree)
    detail = (HELD_ALREADY,)
    planned = [
        PlannedStep(step=step, verdict=Verdict.UPSTREAM, changes=step.changes, detail=detail) for step in steps[:there]
    ]
    for step in steps[there:]:
        known = (effects or {}).get(step.id)
        planned.append(known or _plan_step(step, overlay, read_input, None if step.id in held else stage, planned))
    return Plan(steps=tuple(planned), final=dict(overlay.changes))


def count_there(steps: tuple[LockedStep, ...], tree: Tree) -> int:
    """How many of the leading steps `tree` holds already, by the lock's hashes of every file that they
    write: judged together, as a later step may have changed what an earlier one made."""
    expected: dict[str, FileRef | None] = {}
    found = 0
    for number, step in enumerate(steps, 1):
        if step.kind not in FILE_KINDS or not step.after:
            break
        expected.update(step.after)
        if all(is_ref(ref, tree, path) for path, ref in expected.items()):
            found = number
    return found


def _plan_step(
    step: LockedStep, overlay: Overlay, read_input: ReadInput, stage: str | None, before: list[PlannedStep]
) -> PlannedStep:
    if step.unresolved:
        detail = tuple(f"{fact}; {fact.command}" for fact in step.unresolved)
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
