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

from patchkit.core import effects, failed, files, undoing
from patchkit.core.change import Held, Prepared, log_text, prepare, take_off
from patchkit.core.errors import DriftError, PatchkitError, RefusedByMachineError
from patchkit.core.ledger import Ledger, LedgerStep
from patchkit.core.operate import Request, Target, drift, is_active, is_taken, verdict_in_ledger
from patchkit.core.plan import PlannedStep
from patchkit.core.selection import FILE_KINDS
from patchkit.core.tree import UnreadableError
from patchkit.core.verdicts import GOOD, Outcome, Verdict

if TYPE_CHECKING:
    from patchkit.core.layout import Operation
    from patchkit.core.lockfile import LockedStep
    from patchkit.core.report import Report, StepReport
    from patchkit.core.site import Site
    from patchkit.core.transaction import Transaction

_LOG_LIMIT = 1 << 14
_BEGUN = "an earlier run has begun it and not finished it"


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
        self.printed: list[str] = []  # what its commands printed, each after a line that says which
        self.undone: dict[str, str | None] = {}  # after a roll-back: each step, and why it is still there
        self.made: Report | None = None  # what was judged last
        self.notes: list[str] = []
        self.start = _start(self.site, steps, ledger)
        self.pristine = {} if ledger is None else undoing.pristine(self.site, ledger, ledger.files)

    def go(self) -> Report:
        """Carry it out. Every PatchkitError that it raises says how far it came, and where the output is kept."""
        try:
            return self._go()
        except PatchkitError as error:
            failed.tell(error, self.printed)
            error.report = failed.report(self.made or self.report, self.first, self.undone)
            raise

    def _go(self) -> Report:
        pending = self._pending(-1)
        effects.require_needs([self.steps[i] for i in self.active if not self._is_done(i)], self.request.stage)
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
            raise self._rolled_back(error) from error.__cause__

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
                self._begin(step, sorted(made.ledger.files))
                made = self._prepare(pending)
            self._commit(made)
            if self._is_done(pending):  # the files before it have brought that about
                self._not_begun(step)
            else:
                self._perform(step)
            after = pending

    def _begin(self, step: LockedStep, over: list[str]) -> None:
        old = self.records.get(step.id)
        record = effects.begin(step, self.site, over)
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
        self.printed += [f"{step.id}: {done.line}\n{done.output}"] if done.output else []
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
        made = prepare(self.request, self.target, self.steps[:pending], report, held)
        self.made = made.report
        return made

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
            elif i not in self.active and verdict_in_ledger(known[step.id]) is Verdict.PARTIAL:
                verdict, detail = Verdict.DEFERRED, (_BEGUN, f"waits for stage {step.stage}")
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
        self.now = self.transaction.commit(made.operations, self.now, made.ledger, log_text(made.ledger))

    def _put(self, ledger: Ledger, line: str, output: str = "", operations: list[Operation] | None = None) -> None:
        """Put another ledger in place, with a line and a command's output in its log."""
        kept = output.encode("utf-8", "backslashreplace")[-_LOG_LIMIT:].decode("utf-8", "ignore")
        text = line + "".join(f"\n    {each}" for each in kept.splitlines())
        self.now = self.transaction.commit(operations or [], self.now, ledger, text)

    def _undo_dropped(self) -> None:
        """Undo the steps that are no longer in the stack, on the pristine files."""
        assert self.now is not None
        resting = undoing.at_rest(self.now, [step.effect for step in self.records.values() if step.effect is not None])
        bare = replace(self.now, steps=tuple(self.records.values()), files=resting, complete=False)
        take_off(self.target, self.transaction, self.now, bare)
        bare = replace(bare, dirs_created=(), dirs_removed=())
        gone = [self.records.pop(step_id) for step_id in self.dropped]
        tasks = [(step, step.effect) for step in gone if step.effect is not None]
        held = tuple(self.records.values())
        undone = undoing.undo_steps(self.site, self.transaction, bare, tasks, held)
        self.notes += [why or f"no longer among the steps, undone: {step.id}" for step, why in undone.steps]
        self.now = undone.ledger
        self._put(replace(self.now, steps=held), f"undone: {', '.join(self.dropped)}")

    def _rolled_back(self, error: Exception) -> PatchkitError:
        """Put the files back to where they were before this run, undo its steps, and say what is left."""
        first = self.first
        try:
            said = self._roll_back()
        except (PatchkitError, OSError, UnreadableError) as second:
            said = [f"{self.site.path}: not rolled back: {second}"]
        if first is not None and self.dropped:
            said.append(f"not put back: what was undone at the start of this run: {', '.join(self.dropped)}")
        if not isinstance(error, PatchkitError):
            error = RefusedByMachineError(f"{self.site.path}: {error}")
        error.add(*said)
        return error

    def _roll_back(self) -> list[str]:
        assert self.now is not None
        mine = [(self.records[step_id], record) for step_id, record in self.begun.items()]
        held = () if self.first is None else self.first.steps
        merged = [step.effect for step, _ in mine if step.effect is not None]
        between = replace(
            self.first or self.now,
            steps=(*(step for step in held if step.id not in self.begun), *(step for step, _ in mine)),
            files=undoing.at_rest(self.now, [*merged, *self.begun.values()]),
            complete=False,
        )
        wanted = undoing.pristine(self.site, self.now, self.now.files)
        operations = undoing.operations_to(self.site, wanted, self.now)
        touched = {*self.now.files, *(self.first.files if self.first is not None else ())}
        self._put(between, "a run failed: the files were put back", operations=operations)
        undone = undoing.undo_steps(self.site, self.transaction, self.now, mine, held)
        self.now = undone.ledger
        said: list[str] = []
        left: list[LedgerStep] = []
        for step, why in undone.steps:
            record = self.begun[step.id]
            self.undone[step.id] = why
            said.append(why or f"rolled back: step {step.id} ({record['kind']})")
            if why is not None and effects.irreversible(step.id, record) is None:
                left.insert(0, step)
        self._put_files_back(touched, left)
        return [self._as_before(), *said]

    def _put_files_back(self, touched: set[str], left: list[LedgerStep]) -> None:
        """The last part of a roll-back: all of `touched` as it was when the run began. `left` could not be
        undone: of what was patched after one of them nobody knows what it should be."""
        assert self.now is not None
        first = self.first
        if left:
            known = {path for step in left for path in self.begun[step.id]["over"]}
            touched = touched & known if first is None else touched & {*known, *first.files}
        wanted = {path: self.start[path] for path in touched if path in self.start}
        if first is None:
            operations = undoing.operations_to(self.site, wanted, self.now)
            then = None
            if left:
                resting = undoing.at_rest(self.now, [self.begun[step.id] for step in left])
                then = replace(self.now, steps=tuple(left), files=resting)
            text = "a step could not be undone"
        else:
            same = {p: f for p, f in self.now.files.items() if p in first.files and f.before == first.files[p].before}
            lost = {path: kept for path, kept in self.pristine.items() if path not in same}
            pristine = undoing.operations_to(self.site, lost, self.now)
            if pristine or same.keys() != self.now.files.keys():  # the ledger takes its copies from them
                self._put(replace(self.now, files=same), "pristine files were put back", operations=pristine)
                assert self.now is not None
            operations, then, text = undoing.operations_to(self.site, wanted, self.now), first, "rolled back"
        self.transaction.commit(operations, self.now, then, text)

    def _as_before(self) -> str:
        """What is true of the stack's files after a roll-back, by their bytes."""
        other = []
        for path, (kept, _) in self.start.items():
            try:
                state = self.site.read(path)
            except UnreadableError:
                state = None
            if (state is not None) if kept is None else not kept.is_state(state):
                other.append(path)
        if not other:
            return "rolled back: every file of the stack is as it was before this run"
        return f"rolled back: the files of the stack; what a step changed and did not put back: {', '.join(other)}"


def _with(steps: tuple[LedgerStep, ...], records: dict[str, LedgerStep]) -> tuple[LedgerStep, ...]:
    return tuple(records.get(step.id, step) for step in steps)


def _start(site: Site, steps: tuple[LockedStep, ...], ledger: Ledger | None) -> dict[str, undoing.Wanted]:
    """The files of the stack as they are before a run, to come back to."""
    held = ledger.files if ledger is not None else {}
    found: dict[str, undoing.Wanted] = {}
    for path in sorted({*held, *(path for step in steps for path in step.touches or ())}):
        try:
            state = None if ledger is not None and path in held and is_taken(ledger, path) else site.read(path)
        except UnreadableError:
            continue
        found[path] = (None, b"") if state is None else (files.kept(state, site.meta(path)), state.data)
    return found


def broken_effects(target: Target, ledger: Ledger) -> dict[str, str]:
    """The finished steps that do more than change files whose effect is there no more, with what is: for `verify`."""
    found = {}
    for step_id, step in ledger.effects.items():
        assert step.effect is not None
        if step.effect["state"] == effects.BEGUN:
            continue
        why = effects.problem(step_id, step.effect, target.site)
        if why is not None:
            found[step_id] = why
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
                verdict = verdict_in_ledger(records[step.id])
                detail = (_BEGUN,) if verdict is Verdict.PARTIAL else ()
                found[step.id] = PlannedStep(step=step, verdict=verdict, detail=detail)
        elif effects.is_done(step, _record(records, step.id), target.site):
            held = step.id in records and not records[step.id].upstream
            found[step.id] = PlannedStep(step=step, verdict=Verdict.APPLIED if held else Verdict.UPSTREAM)
        else:
            lacks = effects.lacking(step)
            detail = (effects.plan_line(step, target.site), *((f"cannot run here: needs {lacks}",) if lacks else ()))
            begun = step.id in records and verdict_in_ledger(records[step.id]) is Verdict.PARTIAL
            verdict = Verdict.PARTIAL if begun else Verdict.APPLIES
            found[step.id] = PlannedStep(step=step, verdict=verdict, detail=(*((_BEGUN,) if begun else ()), *detail))
    return found
