"""Steps that do more than change files, by kind: `run` and `pip`. They need a running machine.

What decides is evidence on the machine, not a marker. What a step did is remembered in the ledger as a
record: `kind`, `action` (what the step said), `state` (`begun`: it may have been done in part; `done`;
`there`: it was there before) and what undoing it takes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from patchkit.core import pips, runs
from patchkit.core.errors import RefusedByMachineError

if TYPE_CHECKING:
    from patchkit.core.lockfile import LockedStep
    from patchkit.core.operate import ReadInput
    from patchkit.core.site import Site

Record = dict[str, Any]
BEGUN, DONE, THERE = "begun", "done", "there"


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """A step carried out: its record, one line for a person, and its output for the log."""

    record: Record
    line: str
    output: str


def is_done(step: LockedStep, record: Record | None, site: Site) -> bool:
    """Whether what the step is for is there already."""
    if step.kind == "pip":
        return pips.is_done(step.action, record, site)
    return runs.is_done(step.action, record, site)


def plan_line(step: LockedStep, site: Site) -> str:
    """What carrying it out would do, in one line."""
    if step.kind == "pip":
        return pips.moves_line(step.action, site)
    return f"would run: {runs.shown(step.action['argv'])}"


def require_needs(steps: list[LockedStep], stage: str | None) -> None:
    """Raise RefusedByMachineError where the machine lacks what one of `steps` needs; they are what is to be
    carried out of `stage` (None: of all)."""
    lacks = [(step, lacking(step)) for step in steps]
    lacks = [(step, missing) for step, missing in lacks if missing]
    if not lacks:
        return
    problems = []
    for step, missing in lacks:
        tail = "; run it later: apply --stage runtime" if stage is None and step.stage == "runtime" else ""
        problems.append(f"step {step.id} ({step.kind}): cannot run here: needs {missing}{tail}")
    if stage is None and all(step.stage == "runtime" for step, _ in lacks):
        hint = "apply the rest now: apply --stage build"
    else:
        names = dict.fromkeys(name for step, _ in lacks for name in step.action["needs"] if _lacks(step, [name]))
        hint = f"run it where there is: {', '.join(names)}"
    raise RefusedByMachineError(*problems, hint=hint)


def lacking(step: LockedStep) -> str:
    """What of a step's `needs` this machine does not have, each with how that is known; "" where nothing."""
    return ", ".join(_lacks(step, step.action["needs"])) if step.kind == "run" else ""


def _lacks(step: LockedStep, needs: list[str]) -> list[str]:
    return runs.lacking(needs, dict(step.action["env"]))


def look(step: LockedStep, record: Record | None, site: Site, read_input: ReadInput) -> str:
    """What carrying it out would do, in one line, as far as that can be told without doing it. Raises PatchkitError."""
    if step.kind == "pip":
        return pips.planned_line(step, pips.look(step, record, site, read_input), site)
    return plan_line(step, site)


def begin(step: LockedStep, site: Site, over: list[str]) -> Record:
    """The record of a step that is about to be carried out: enough to undo whatever it does. `over` are the files
    that are patched before it."""
    if step.kind == "pip":
        return {**pips.begin(step, site), "over": over}
    return {"kind": step.kind, "action": step.action, "state": BEGUN, "over": over}


def merged(record: Record, old: Record | None) -> Record:
    """`record` of a step that the ledger had a record of before, so that a revert leads to what was first."""
    if record["kind"] != "pip":
        return record
    over = record["over"] if old is None or old["state"] == THERE else old.get("over", [])
    return {**pips.merged(record, old), "over": over}


def settled(record: Record) -> Record:
    """`record` at the end of a run, without what only a roll-back of that run needs."""
    return pips.settled(record) if record["kind"] == "pip" else record


def perform(step: LockedStep, record: Record, site: Site, read_input: ReadInput) -> Done:
    """Carry the step out. Raises RefusedByMachineError or UnreachableError; it may then be done in part."""
    if step.kind == "pip":
        record, line, output = pips.perform(step, record, site, read_input)
        return Done(record=record, line=line, output=output)
    ended = runs.perform(step.id, step.action, site)
    line = f"ran {runs.shown(step.action['argv'])}: exit status 0, {ended.seconds:.1f} s"
    record = {**record, "state": DONE, "status": ended.status, "seconds": round(ended.seconds, 3)}
    return Done(record=record, line=line, output=ended.output)


def irreversible(step_id: str, record: Record) -> str | None:
    """Why a step cannot be reverted at all; None where it can, or has nothing to revert."""
    if record["state"] != THERE and record["kind"] == "run" and record["action"]["revert"] is None:
        return f"step {step_id} (run) cannot be reverted: it names no `revert`"
    return None


def undo(step_id: str, record: Record, site: Site) -> str | None:
    """Undo what the record says was done; why it is still there, or None."""
    if record["state"] == THERE:
        return None
    if record["kind"] == "pip":
        return pips.undo(step_id, record, site)
    return runs.undo(step_id, record["action"], site)


def problem(step_id: str, record: Record, site: Site) -> str | None:
    """What is no longer as the step left it, or None."""
    if record["kind"] == "pip":
        return pips.problem(step_id, record, site)
    action = record["action"]
    broken = [runs.asked(proof) for proof in runs.proofs(action) if not runs.holds(proof, action, site)]
    return f"step {step_id} (run): it does not hold any more that {' and that '.join(broken)}" if broken else None
