"""Takes off what steps did that do more than change files, with the files around that.

Undoing such a step may change files that were patched before it: a package comes back as it was packed, a
command puts back a copy that it made. So the files go back to their pristine bytes first, the steps are
undone, last first, and after each one the files that were patched before it are put back once more.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from patchkit.core import effects, failed, files
from patchkit.core.change import take_off
from patchkit.core.errors import RefusedByMachineError
from patchkit.core.layout import Operation
from patchkit.core.ledger import Kept, Ledger, LedgerFile, LedgerStep
from patchkit.core.operate import Target, is_taken, taken_off
from patchkit.core.transaction import Transaction, read_pristine

if TYPE_CHECKING:
    from collections.abc import Iterable

    from patchkit.core.report import Report
    from patchkit.core.site import Site

#: What a file is to be: as the ledger remembers it (None: not there), and its bytes.
Wanted = tuple[Kept | None, bytes]
Task = tuple[LedgerStep, effects.Record]


@dataclass(frozen=True, slots=True, kw_only=True)
class Undone:
    """What came of undoing steps: the ledger by then, and each step with why it is still there, or None."""

    ledger: Ledger
    steps: list[tuple[LedgerStep, str | None]]


def operations_to(site: Site, wanted: dict[str, Wanted], ledger: Ledger) -> list[Operation]:
    """The operations from what is on disk, where `ledger` holds, to `wanted`."""
    operations = []
    for path, (kept, data) in sorted(wanted.items()):
        state = None if path in ledger.files and is_taken(ledger, path) else site.read(path)
        current = None if state is None else files.kept(state, site.meta(path))
        if current != kept and not (kept is not None and kept.uid is None and kept.is_state(state)):
            operations.append(Operation(path=path, before=current, after=kept, data=data))
    return operations


def pristine(site: Site, ledger: Ledger, paths: Iterable[str]) -> dict[str, Wanted]:
    """The pristine form of those of `paths` that the ledger holds."""
    found: dict[str, Wanted] = {}
    for path in paths:
        if path in ledger.files:
            before = ledger.files[path].before
            found[path] = before, b"" if before is None else read_pristine(site, before)
    return found


def at_rest(ledger: Ledger, records: Iterable[effects.Record]) -> dict[str, LedgerFile]:
    """The ledger's files that were patched before one of `records` was carried out, as they are when they are
    put back: the ledger keeps their bytes until all is undone."""
    paths = {path for record in records for path in record.get("over", ())}
    return {
        path: LedgerFile(before=file.before, after=file.before, steps=())
        for path, file in ledger.files.items()
        if path in paths
    }


def undo_steps(
    site: Site, transaction: Transaction, ledger: Ledger, tasks: list[Task], held: tuple[LedgerStep, ...] = ()
) -> Undone:
    """Undo `tasks`, last first; the files of `ledger` are at rest. `held` are the steps that it has then."""
    done: list[tuple[LedgerStep, str | None]] = []
    left: list[Task] = []
    for number in reversed(range(len(tasks))):
        step, record = tasks[number]
        why = effects.undo(step.id, record, site)
        done.append((step, why))
        if why is not None:
            left.insert(0, tasks[number])
        still = [*tasks[:number], *left]
        operations = operations_to(site, pristine(site, ledger, record.get("over", ())), ledger)
        ids = {s.id for s, _ in still}
        others = tuple(s for s in held if s.id not in ids)
        # what was patched after a step that is undone by now is no longer known
        over = set(record.get("over", ()))
        kept = [{"over": over.intersection(r.get("over", ()))} for _, r in left]
        records = [*(s.effect for s in others if s.effect is not None), *(r for _, r in tasks[:number]), *kept]
        new = replace(ledger, steps=(*others, *(s for s, _ in still)), files=at_rest(ledger, records))
        text = f"not undone: step {step.id}" if why is not None else f"undone: step {step.id}"
        ledger = transaction.commit(operations, ledger, new, text) or new
    return Undone(ledger=ledger, steps=done)


def _forced(target: Target, ledger: Ledger) -> str:
    """The command that reverts and leaves what cannot be undone."""
    return target.caller.spell("revert", "--force", image=ledger.image)


def take_all_off(target: Target, transaction: Transaction, ledger: Ledger, report: Report, *, force: bool) -> Report:
    """Restore every file, undo the other steps, last first, and remove the ledger.

    Raises RefusedByMachineError before anything is touched where a step cannot be undone; with `force`
    what it did stays, and the report says so.
    """
    problems = _obstacles(target, ledger)
    if problems and not force:
        hint = f"put the files back and leave what it did: {_forced(target, ledger)}"
        if not target.is_machine:
            hint = f"revert inside the container while it runs; or {hint}"
        refused = RefusedByMachineError(*problems, hint=hint)
        refused.report = report
        raise refused
    tasks = [(step, step.effect) for step in ledger.effects.values() if step.effect is not None]
    resting = at_rest(ledger, (record for _, record in tasks))
    bare = replace(ledger, steps=tuple(step for step, _ in tasks), files=resting, complete=False)
    take_off(target, transaction, ledger, bare)
    bare = replace(bare, dirs_created=(), dirs_removed=())
    undone: dict[str, str | None] = {}
    if target.is_machine:
        made = undo_steps(target.site, transaction, bare, tasks)
        bare, undone = made.ledger, {step.id: why for step, why in reversed(made.steps)}
    said = [why for why in undone.values() if why is not None]
    if said and not force:
        hint = f"run it again; or leave what it did: {_forced(target, ledger)}"
        refused = RefusedByMachineError("the files are put back, but not all is undone", *said, hint=hint)
        refused.report = failed.report(taken_off(report), None, undone)
        raise refused
    transaction.commit([], bare, None, "")
    return taken_off(replace(report, notes=(*report.notes, *(said or problems))))


def _obstacles(target: Target, ledger: Ledger) -> list[str]:
    """Why steps of the ledger cannot be undone here at all."""
    problems = []
    for step_id, step in ledger.effects.items():
        assert step.effect is not None
        if step.effect["state"] != effects.THERE and not target.is_machine:
            why: str | None = f"step {step_id} ({step.effect['kind']}): only on the running machine can it be undone"
        else:
            why = effects.irreversible(step_id, step.effect)
        problems += [why] if why is not None else []
    return problems
