"""apply and revert of stacks with steps that do more than change files.

The stack is cut at the steps that have to be carried out now. The files before such a step are one
transaction; then the step; then the files up to the next one, judged on the tree as it is by then. The
ledger after each part says what is done, so that a run that was killed is gone on with, or reverted. A
run that fails puts the files back to where they were before it, undoes what it can of its steps, and
says what it cannot undo.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from patchkit.core import effects, files
from patchkit.core.change import Held, Prepared, log_text, prepare, take_off
from patchkit.core.errors import DriftError, PatchkitError, RefusedByMachineError
from patchkit.core.layout import Operation
from patchkit.core.ledger import Ledger, LedgerFile, LedgerStep
from patchkit.core.operate import Request, Target, drift, is_active, is_taken, taken_off
from patchkit.core.plan import PlannedStep
from patchkit.core.selection import FILE_KINDS
from patchkit.core.transaction import Transaction, read_pristine
from patchkit.core.tree import UnreadableError
from patchkit.core.verdicts import GOOD, Outcome, Verdict

if TYPE_CHECKING:
    from patchkit.core.lockfile import LockedStep
    from patchkit.core.report import Report, StepReport

_LOG_LIMIT = 1 << 14


def all_done(steps: tuple[LockedStep, ...], target: Target, ledger: Ledger, stage: str | None) -> bool:
    """Whether every step that is meant and does more than change files has its effect, by evidence."""
    records = ledger.effects
    return all(
        effects.is_done(step, _record(records, step.id), target.site) for step in steps if is_active(step, stage)
    )


def _record(records: dict[str, LedgerStep], step_id: str) -> effects.Record | None:
    return records[step_id].effect if step_id in records else None


def carry_out(
    request: Request,
    target: Target,
    transaction: Transaction,
    steps: tuple[LockedStep, ...],
    ledger: Ledger | None,
    report: Report,
) -> Report:
    """As `change.carry_out`, for a stack, or a ledger, with steps that do more than change files."""
    return _Run(request, target, transaction, steps, ledger, report).go()


class _Run:
    """One apply, part by part."""

    def __init__(
        self,
        request: Request,
        target: Target,
        transaction: Transaction,
        steps: tuple[LockedStep, ...],
        ledger: Ledger | None,
        report: Report,
    ) -> None:
        self.request, self.target, self.transaction = request, target, transaction
        self.steps, self.first, self.now, self.report = steps, ledger, ledger, report
        self.site = target.site
        self.active = [i for i, step in enumerate(steps) if is_active(step, request.stage)]
        self.records = ledger.effects if ledger is not None else {}
        self.dropped = [step_id for step_id in self.records if step_id not in {step.id for step in steps}]
        self.begun: dict[str, effects.Record] = {}  # what this run did, to be undone where it fails
        self.lines: dict[str, str] = {}
        self.notes: list[str] = []
        self.before = _bytes_of(target, ledger)

    def go(self) -> Report:
        pending = self._pending(-1)
        effects.require_needs([self.steps[i] for i in self.active if not self._is_done(i)])
        if self.request.dry_run:
            return self._planned()
        made = None if self.dropped else self._prepare(pending)
        if made is not None and made.ledger is None:
            return made.report
        if pending is not None:
            self._look(self.steps[pending])
        try:
            if self.dropped:
                self._undo_dropped()
            return self._parts()
        except (PatchkitError, OSError, UnreadableError) as error:
            if self.now is self.first:
                raise
            raise self._rolled_back(error) from error

    def _look(self, step: LockedStep) -> str:
        return effects.look(step, _record(self.records, step.id), self.site, self.request.read_input)

    def _is_done(self, index: int) -> bool:
        step = self.steps[index]
        return effects.is_done(step, _record(self.records, step.id), self.site)

    def _pending(self, after: int) -> int | None:
        """The first step after `after` that has to be carried out now."""
        return next((i for i in self.active if i > after and not self._is_done(i)), None)

    def _parts(self) -> Report:
        after = -1
        while True:
            pending = self._pending(after)
            if pending is None:
                self._found_there()
                made = self._prepare(None)
                self._commit(made)
                outcome = Outcome.UPGRADED if self.first is not None and self.first.complete else Outcome.APPLIED
                return replace(made.report, outcome=outcome)
            step = self.steps[pending]
            made = self._prepare(pending)
            if made.ledger is not None:
                self._begin(step)
                made = self._prepare(pending)
            self._commit(made)
            if self._is_done(pending):  # the files before it have brought that about
                self._not_begun(step)
            else:
                self._perform(step)
            after = pending

    def _begin(self, step: LockedStep) -> None:
        old = self.records.get(step.id)
        record = effects.begin(step, self.site)
        self.begun[step.id] = record
        record = effects.merged(record, old.effect if old is not None else None)
        self.records[step.id] = LedgerStep(id=step.id, spec=step.spec, upstream=False, changes=(), effect=record)

    def _not_begun(self, step: LockedStep) -> None:
        old = self.first.effects.get(step.id) if self.first is not None else None
        del self.begun[step.id], self.records[step.id]
        if old is not None:
            self.records[step.id] = old

    def _perform(self, step: LockedStep) -> None:
        held = self.records[step.id]
        assert held.effect is not None
        done = effects.perform(step, held.effect, self.site, self.request.read_input)
        self.records[step.id] = replace(held, effect=done.record)
        self.lines[step.id] = done.line
        assert self.now is not None
        self._put(replace(self.now, steps=_with(self.now.steps, self.records)), f"{step.id}: {done.line}", done.output)
        changed = drift(self.target, self.now)
        if changed:
            raise DriftError(
                *(
                    f"step {step.id} ({step.kind}): it changed {path}, which step"
                    f" {', '.join(self.now.files[path].steps)} had patched: {why}"
                    for path, why in sorted(changed.items())
                ),
                hint="put the steps that patch this file after it",
            )

    def _found_there(self) -> None:
        """Record the steps whose effect was there without patchkit."""
        for step in (self.steps[i] for i in self.active):
            old = self.records.get(step.id)
            if old is None:
                record = {"kind": step.kind, "action": step.action, "state": effects.THERE}
                self.records[step.id] = LedgerStep(id=step.id, spec=step.spec, upstream=True, changes=(), effect=record)
                continue
            assert old.effect is not None
            state = effects.DONE if old.effect["state"] == effects.BEGUN else old.effect["state"]
            record = {**effects.settled(old.effect), "action": step.action, "state": state}
            self.records[step.id] = replace(old, spec=step.spec, effect=record)

    def _prepare(self, pending: int | None) -> Prepared:
        bound = self.active[0] if self.active else None
        held = Held(
            first=self.first,
            now=self.now,
            records=self.records,
            effects=self._judged(),
            bound=bound if pending is None or bound is None else min(bound, pending),
            complete=pending is None,
        )
        report = replace(self.report, notes=(*self.report.notes, *self.notes))
        return prepare(self.request, self.target, self.steps[:pending], report, held)

    def _judged(self) -> dict[str, PlannedStep]:
        """The steps that do more than change files, as they stand."""
        found = {}
        known = self.first.effects if self.first is not None else {}
        for i, step in enumerate(self.steps):
            if step.kind in FILE_KINDS or step.unresolved:
                continue
            verdict = Verdict.APPLIED
            detail: tuple[str, ...] = ()
            if step.id in self.lines:
                verdict, detail = Verdict.APPLIES, (self.lines[step.id],)
            elif i in self.active and not self._is_done(i):
                verdict, detail = Verdict.APPLIES, (effects.plan_line(step, self.site),)
            elif i in self.active and step.id not in known:
                verdict, detail = Verdict.UPSTREAM, ("what it is for is there already",)
            elif step.id not in known:
                continue
            found[step.id] = PlannedStep(step=step, verdict=verdict, detail=detail)
        return found

    def _planned(self) -> Report:
        """The dry run: the files after a step that is still to be carried out are judged on the tree as it
        is now; where they do not fit it, that step may still change that."""
        pending = self._pending(-1)
        part = self._prepare(pending)
        if part.ledger is None or pending is None:
            return part.report if part.ledger is None else replace(part.report, outcome=Outcome.PLANNED)
        self.lines[self.steps[pending].id] = self._look(self.steps[pending])
        whole = self._prepare(None).report
        waits = f"judged again after step {self.steps[pending].id}; on the tree as it is now: "
        ids = {step.id for step in self.steps[:pending]}

        def softened(step: StepReport) -> StepReport:
            if step.id in ids or step.verdict is None or step.verdict in GOOD:
                return step
            return replace(step, verdict=Verdict.DEFERRED, detail=(waits + step.verdict.value, *step.detail))

        notes = part.report.notes if whole.error is not None else whole.notes
        steps = tuple(softened(step) for step in whole.steps)
        return replace(whole, outcome=Outcome.PLANNED, steps=steps, notes=notes, error=None)

    def _commit(self, made: Prepared) -> None:
        if made.ledger is None:
            assert made.report.error is not None
            raise made.report.error
        self.transaction.commit(made.operations, self.now, made.ledger, log_text(made.ledger))
        self.now = made.ledger

    def _put(self, ledger: Ledger, line: str, output: str = "") -> None:
        """Put another ledger in place, with a line and a command's output in its log; no file changes."""
        kept = output.encode("utf-8", "backslashreplace")[-_LOG_LIMIT:].decode("utf-8", "ignore")
        text = line + "".join(f"\n    {each}" for each in kept.splitlines())
        self.transaction.commit([], self.now, ledger, text)
        self.now = ledger

    def _undo_dropped(self) -> None:
        """Undo the steps that are no longer in the stack, on the pristine files."""
        assert self.now is not None
        bare = replace(self.now, steps=tuple(self.records.values()), files={}, complete=False)
        take_off(self.target, self.transaction, self.now, bare)
        self.now = replace(bare, dirs_created=(), dirs_removed=())
        for step_id in reversed(self.dropped):
            record = self.records.pop(step_id).effect
            assert record is not None
            why = effects.undo(step_id, record, self.site)
            self.notes.append(why or f"no longer among the steps, undone: {step_id}")
        self._put(replace(self.now, steps=tuple(self.records.values())), f"undone: {', '.join(self.dropped)}")

    def _rolled_back(self, error: Exception) -> PatchkitError:
        """Put the files back to where they were before this run, undo its steps, and say what is left."""
        first = self.first
        try:
            said = self._roll_back()
        except (PatchkitError, OSError, UnreadableError) as second:
            said = [f"{self.site.path}: not rolled back: {second}"]
        if first is not None and self.dropped:
            said.append(f"not put back: what was undone at the start of this run: {', '.join(self.dropped)}")
        if isinstance(error, PatchkitError):
            return type(error)(*error.problems, *said, hint=error.hint)
        return RefusedByMachineError(f"{self.site.path}: {error}", *said)

    def _roll_back(self) -> list[str]:
        assert self.now is not None
        mine = tuple(self.records[step_id] for step_id in self.begun)
        old = () if self.first is None else self.first.steps
        base = self.first or replace(self.now, files={}, dirs_created=(), dirs_removed=())
        between = replace(base, steps=(*(s for s in old if s.id not in self.begun), *mine), complete=False)
        self.transaction.commit(self._way_back(between), self.now, between, "a run failed: the files were put back")
        self.now = between
        said = ["rolled back: every file of the stack is as it was before this run"]
        left: list[LedgerStep] = []
        for step in reversed(mine):
            record = self.begun[step.id]
            why = effects.undo(step.id, record, self.site)
            said.append(why or f"rolled back: step {step.id} ({record['kind']})")
            if why is not None and effects.irreversible(step.id, record) is None:
                left.insert(0, step)
        if left and self.first is None:
            self._put(replace(between, steps=tuple(left)), "a step could not be undone")
        else:
            self.transaction.commit([], between, self.first, "rolled back")
        return said

    def _way_back(self, goal: Ledger) -> list[Operation]:
        """The operations from what is on disk to the files of `goal`."""
        assert self.now is not None
        operations = []
        for path in sorted({*self.now.files, *goal.files}):
            mine = self.now.files.get(path)
            wanted = goal.files[path].after if path in goal.files else None if mine is None else mine.before
            state = None if mine is not None and is_taken(self.now, path) else self.site.read(path)
            current = None if state is None else files.kept(state, self.site.meta(path))
            if current == wanted or (wanted is not None and wanted.is_state(state)):
                continue
            data = b"" if wanted is None else self._wanted_bytes(path, goal.files.get(path), mine)
            operations.append(Operation(path=path, before=current, after=wanted, data=data))
        return operations

    def _wanted_bytes(self, path: str, goal: LedgerFile | None, mine: LedgerFile | None) -> bytes:
        if goal is not None:
            return self.before[path]
        assert mine is not None
        assert mine.before is not None
        return read_pristine(self.site, mine.before)


def _with(steps: tuple[LedgerStep, ...], records: dict[str, LedgerStep]) -> tuple[LedgerStep, ...]:
    return tuple(records.get(step.id, step) for step in steps)


def _bytes_of(target: Target, ledger: Ledger | None) -> dict[str, bytes]:
    """The patched files as they are before a run, to come back to. There is no drift."""
    found = {}
    for path, file in (ledger.files if ledger is not None else {}).items():
        state = target.site.read(path) if file.after is not None else None
        if state is not None:
            found[path] = state.data
    return found


def take_all_off(target: Target, transaction: Transaction, ledger: Ledger, report: Report, *, force: bool) -> Report:
    """Restore every file, then undo the other steps, last first, and remove the ledger.

    Raises RefusedByMachineError before anything is touched where a step cannot be undone; with `force`
    what it did stays, and the report says so.
    """
    problems = []
    for step_id, step in ledger.effects.items():
        assert step.effect is not None
        if step.effect["state"] != effects.THERE and not target.is_machine:
            why: str | None = f"step {step_id} ({step.effect['kind']}): only on the running machine can it be undone"
        else:
            why = effects.irreversible(step_id, step.effect)
        problems += [why] if why is not None else []
    if problems and not force:
        hint = f"put the files back and leave what it did: patchkit revert --force --image {ledger.image}"
        if not target.is_machine:
            hint = f"revert inside the container while it runs; or {hint}"
        raise RefusedByMachineError(*problems, hint=hint)
    bare = replace(ledger, steps=tuple(ledger.effects.values()), files={}, complete=False)
    take_off(target, transaction, ledger, bare)
    bare = replace(bare, dirs_created=(), dirs_removed=())
    left: list[LedgerStep] = []
    said: list[str] = []
    for step_id, step in reversed(ledger.effects.items()):
        assert step.effect is not None
        if target.is_machine and (why := effects.undo(step_id, step.effect, target.site)) is not None:
            said.insert(0, why)
            left.insert(0, step)
    if left and not force:
        transaction.commit([], bare, replace(bare, steps=tuple(left)), "reverted in part")
        hint = f"run it again; or leave what it did: patchkit revert --force --image {ledger.image}"
        raise RefusedByMachineError("the files are put back, but not all is undone", *said, hint=hint)
    transaction.commit([], bare, None, "")
    return taken_off(replace(report, notes=(*report.notes, *(said or problems))))


def broken_effects(target: Target, ledger: Ledger) -> list[str]:
    """What steps that do more than change files have left and is there no more: for `verify`."""
    found = []
    for step_id, step in ledger.effects.items():
        assert step.effect is not None
        why = effects.problem(step_id, step.effect, target.site)
        found += [why] if why is not None else []
    return found


def judged(lock_steps: tuple[LockedStep, ...], target: Target, ledger: Ledger | None) -> dict[str, PlannedStep]:
    """The steps that do more than change files, as `status` shows them: nothing is changed."""
    found = {}
    records = ledger.effects if ledger is not None else {}
    for step in lock_steps:
        if step.kind in FILE_KINDS or step.unresolved:
            continue
        if not target.is_machine:
            if step.id in records:
                found[step.id] = PlannedStep(step=step, verdict=Verdict.APPLIED)
        elif effects.is_done(step, _record(records, step.id), target.site):
            held = step.id in records and not records[step.id].upstream
            found[step.id] = PlannedStep(step=step, verdict=Verdict.APPLIED if held else Verdict.UPSTREAM)
        else:
            detail = (effects.plan_line(step, target.site),)
            found[step.id] = PlannedStep(step=step, verdict=Verdict.APPLIES, detail=detail)
    return found
