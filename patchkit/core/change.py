"""Turns a plan into operations on files, checks what must hold before them, and commits."""

from __future__ import annotations

import sys
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from patchkit.core import files
from patchkit.core.errors import ConflictError, DriftError
from patchkit.core.judge import show
from patchkit.core.layout import Operation
from patchkit.core.ledger import Kept, Ledger, LedgerFile, LedgerStep
from patchkit.core.lockfile import Lock, LockedStep, pristine_refs
from patchkit.core.operate import Request, Target, is_taken, standing_notes
from patchkit.core.paths import parents
from patchkit.core.plan import Plan, PlannedStep, count_there, make_plan
from patchkit.core.selection import FILE_KINDS
from patchkit.core.transaction import Transaction, read_pristine
from patchkit.core.tree import LINK, FileState, Overlay, Tree, UnreadableError
from patchkit.core.verdicts import GOOD, Outcome, Verdict

if TYPE_CHECKING:
    from patchkit.core.report import Report
    from patchkit.core.site import Site


def pristine_view(site: Site, ledger: Ledger | None) -> Overlay:
    """The tree as it was before patchkit: the site, with the ledger's pristine files over it."""
    changes: dict[str, FileState | None] = {}
    for path, file in (ledger.files if ledger is not None else {}).items():
        before = file.before
        changes[path] = (
            None if before is None else FileState(kind=before.kind, mode=before.mode, data=read_pristine(site, before))
        )
    return Overlay(site, changes)


def carry_out(
    request: Request,
    target: Target,
    transaction: Transaction,
    steps: tuple[LockedStep, ...],
    ledger: Ledger | None,
    report: Report,
) -> Report:
    """Plan `steps` from the pristine files and bring the target there. The target is locked, whole,
    and without drift. `report` is the head to fill in."""
    held = Held(first=ledger, now=ledger, records=ledger.effects if ledger is not None else {})
    made = prepare(request, target, steps, report, held)
    if made.ledger is None:
        return made.report
    if request.dry_run:
        return replace(made.report, outcome=Outcome.PLANNED)
    transaction.commit(made.operations, ledger, made.ledger, log_text(made.ledger))
    return replace(made.report, outcome=Outcome.APPLIED if ledger is None else Outcome.UPGRADED)


def log_text(ledger: Ledger) -> str:
    """The log's line about a ledger that is about to be put in place."""
    whole = "applied" if ledger.complete else "partly applied"
    return (
        f"{whole} {ledger.image} version {ledger.version} lock {ledger.lock}: {', '.join(s.id for s in ledger.steps)}"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """What a target holds while it is changed: the ledger before the run and now, the records of steps
    that do more than change files, what is planned for them, and how many of the steps the lock's
    hashes speak about (None: all). `complete`: nothing comes after this change."""

    first: Ledger | None
    now: Ledger | None
    records: dict[str, LedgerStep]
    effects: dict[str, PlannedStep] = field(default_factory=dict)
    bound: int | None = None
    complete: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """A change ready to be committed; `ledger` is None where the report's `error` says why there is none."""

    report: Report
    ledger: Ledger | None = None
    operations: list[Operation] = field(default_factory=list)


def prepare(request: Request, target: Target, steps: tuple[LockedStep, ...], report: Report, held: Held) -> Prepared:
    """Plan `steps` from the pristine files, and all that leads there. Nothing is changed."""
    pristine = pristine_view(target.site, held.now)
    pinned, there = is_pinned(steps[: held.bound], pristine), 0
    if not pinned and held.now is None and request.stage is None:
        # a tree may hold the stack without a ledger: it was built in, or the ledger was lost
        there = count_there(steps[: held.bound], pristine)
        pinned = there > 0 and is_pinned(steps[there : held.bound], pristine)
    if not pinned and _must_be_pinned(request.lock, target, report):
        return Prepared(report=_not_the_images_files(steps[: held.bound], pristine, report))
    ids = {step.id for step in held.first.steps} if held.first is not None else set()
    plan = make_plan(
        steps, pristine, request.read_input, stage=request.stage, held=ids, effects=held.effects, there=there
    )
    report = with_plan(report, plan, held.first)
    if not plan.fits:
        bad = [planned for planned in plan.steps if planned.verdict not in GOOD]
        problems = [f"step {p.step.id}: {p.verdict.value}" + "".join(f"\n{line}" for line in p.detail) for p in bad]
        hint = "mend the patch for these files, then: patchkit lock"
        return Prepared(report=replace(report, outcome=Outcome.REFUSED, error=ConflictError(*problems, hint=hint)))
    broken, notes = _compile(plan, pristine)
    if broken:
        return Prepared(report=_does_not_compile(report, plan, broken))
    new, operations = _new_ledger(request, target, plan, held, pristine, report, pinned)
    notes = (*report.notes, *standing_notes(new, report), *notes, *_hard_links(target.site, operations))
    return Prepared(report=replace(report, notes=notes), ledger=new, operations=operations)


def take_off(target: Target, transaction: Transaction, ledger: Ledger, then: Ledger | None = None) -> None:
    """Restore every file of the ledger and put `then` in its place (None: no ledger)."""
    site = target.site
    operations = []
    problems = []
    for path, file in ledger.files.items():
        try:
            state = None if is_taken(ledger, path) else site.read(path)
        except UnreadableError as error:
            problems.append(f"{site.path}/{path}: {error}")
            continue
        before = None if state is None else files.kept(state, None)
        data = b"" if file.before is None else read_pristine(site, file.before)
        operations.append(Operation(path=path, before=before, after=file.before, data=data))
    if problems:
        raise DriftError(
            *problems, hint="patchkit gives up files, nothing else: move it away by hand, then run it again"
        )
    transaction.commit(operations, ledger, then, "" if then is None else "the files were put back")


def standing(tree: Tree, path: str) -> FileState | None:
    """As `tree.read`, but nothing stands where the way leads through a file or a link of the tree."""
    try:
        return tree.read(path)
    except UnreadableError:
        for above in parents(path):
            with suppress(UnreadableError):
                if tree.read(above) is not None:
                    return None
        raise


def is_pinned(steps: tuple[LockedStep, ...], pristine: Tree) -> bool:
    """Whether every file that `steps` start from is the one the lock was made from."""
    for path, ref in pristine_refs(steps).items():
        try:
            state = standing(pristine, path)
        except UnreadableError:
            return False
        if (state is None) if ref is not None else (state is not None):
            return False
        if ref is not None and not ref.holds(state):
            return False
    return True


def _must_be_pinned(lock: Lock, target: Target, report: Report) -> bool:
    """The lock's hashes bind on the image they are of, and in a tree patchkit made from its sources."""
    return target.managed or (lock.exact and not report.stand_in)


def _not_the_images_files(steps: tuple[LockedStep, ...], pristine: Tree, report: Report) -> Report:
    wrong: dict[str, str] = {}
    for path, ref in pristine_refs(steps).items():
        try:
            state = standing(pristine, path)
        except UnreadableError as why:
            wrong[path] = str(why)
            continue
        if ref is None and state is not None:
            wrong[path] = "the lock says that the image does not hold it"
        elif ref is not None and state is None:
            wrong[path] = "it is not there"
        elif ref is not None and state is not None and not ref.holds(state):
            wrong[path] = f"expected sha256 {ref.sha256[:12]}…, found {state.sha256[:12]}…"
    touched = {step.id: [p for p in step.before if p in wrong] for step in steps}
    touched = {step.id: touched.get(step.id, []) for step in report.steps}
    reported = tuple(
        replace(
            step,
            verdict=Verdict.DRIFTED if touched[step.id] else None,
            detail=tuple(f"{p}: {wrong[p]}" for p in touched[step.id]),
        )
        for step in report.steps
    )
    error = DriftError(
        *(f"{path}: not the file that the lock was made from: {why}" for path, why in sorted(wrong.items())),
        hint="take the tree from the image anew; or, if the image itself changed: patchkit lock --from ROOT",
    )
    return replace(report, outcome=Outcome.REFUSED, steps=reported, error=error)


def with_plan(report: Report, plan: Plan, ledger: Ledger | None) -> Report:
    """`report` with the plan's verdicts; a step that the ledger holds unchanged is `applied`."""
    held = {step.id: step.spec for step in ledger.steps} if ledger is not None else {}
    planned = {p.step.id: p for p in plan.steps}
    steps = []
    for step in report.steps:
        p = planned.get(step.id)
        if p is None:
            steps.append(step)
            continue
        same = (
            p.step.kind in FILE_KINDS
            and held.get(step.id) == p.step.spec
            and p.verdict in (Verdict.APPLIES, Verdict.OFFSET)
        )
        steps.append(replace(step, verdict=Verdict.APPLIED if same else p.verdict, changes=p.changes, detail=p.detail))
    notes = report.notes
    gone = [step_id for step_id in held if step_id not in {step.id for step in report.steps}]
    if gone:
        notes = (*notes, f"no longer among the steps, its files are put back: {', '.join(gone)}")
    return replace(report, steps=tuple(steps), notes=notes)


def _compile(plan: Plan, pristine: Tree) -> tuple[dict[str, str], tuple[str, ...]]:
    """Compile every patched Python file: the ones that break, and notes about those that were
    broken for this interpreter before."""
    broken: dict[str, str] = {}
    notes: list[str] = []
    for path, state in sorted(plan.final.items()):
        if state is None or state.kind == LINK or not path.endswith(".py"):
            continue
        problem = _syntax(state.data, path)
        if problem is None:
            continue
        before = standing(pristine, _origin(path, sources_of(plan), pristine))
        if before is not None and _syntax(before.data, path) is not None:
            version = f"{sys.version_info[0]}.{sys.version_info[1]}"
            notes.append(f"not compiled: {path}: its pristine text does not compile with Python {version} either")
            continue
        broken[path] = problem
    return broken, tuple(notes)


def _does_not_compile(report: Report, plan: Plan, broken: dict[str, str]) -> Report:
    """`report` for a plan that would leave broken Python: the steps that write it conflict."""
    problems = []
    found: dict[str, tuple[str, ...]] = {}
    for path, problem in broken.items():
        why = f"{path} does not compile after the patch: {problem}"
        writers = plan.writers(path)
        problems.append(f"step {', '.join(writers)}: {why}")
        found.update({step_id: (*found.get(step_id, ()), why) for step_id in writers})
    steps = tuple(
        replace(step, verdict=Verdict.CONFLICT, detail=found[step.id]) if step.id in found else step
        for step in report.steps
    )
    error = ConflictError(*problems, hint="mend the patch, then: patchkit lock")
    return replace(report, outcome=Outcome.REFUSED, steps=steps, error=error)


def _syntax(data: bytes, path: str) -> str | None:
    import warnings

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            compile(data, path, "exec", dont_inherit=True)
    except SyntaxError as error:
        text = "" if error.text is None else f": {show(error.text.encode('utf-8', 'replace'))}"
        return f"line {error.lineno}: {error.msg}{text}"
    except (ValueError, RecursionError, MemoryError, OverflowError) as error:
        return f"{type(error).__name__}: {error}"
    return None


def _new_ledger(
    request: Request,
    target: Target,
    plan: Plan,
    held: Held,
    pristine: Overlay,
    report: Report,
    pinned: bool,
) -> tuple[Ledger, list[Operation]]:
    """The ledger after the change, and the operations that lead there from what is on disk."""
    site, old = target.site, held.now
    touched: dict[str, LedgerFile] = {}
    operations: list[Operation] = []
    sources = sources_of(plan)
    known = old.files if old is not None else {}
    for path in sorted({*known, *plan.final}):
        was = standing(pristine, path)
        now = plan.final.get(path, was)
        before = known[path].before if path in known else _kept(site, path, was)
        after = _target_state(path, now, before, _origin(path, sources, pristine), site, known)
        if after != before:
            touched[path] = LedgerFile(before=before, after=after, steps=plan.writers(path))
        current = known[path].after if path in known else before
        if after != current:
            data = b"" if now is None else now.data
            operations.append(Operation(path=path, before=current, after=after, data=data))
    new = Ledger(
        image=request.lock.image.name,
        version=request.lock.version,
        lock=request.lock.digest,
        stand_in=report.stand_in,
        pinned=pinned,
        steps=_ledger_steps(plan, held),
        complete=held.complete,
        files=touched,
        dirs_created=old.dirs_created if old is not None else (),
        dirs_removed=old.dirs_removed if old is not None else (),
    )
    return new, operations


def _ledger_steps(plan: Plan, held: Held) -> tuple[LedgerStep, ...]:
    """The planned steps that change files, with the records of the others in their places, or last."""
    records = dict(held.records)
    steps = []
    for p in plan.steps:
        if p.step.id in records:
            steps.append(records.pop(p.step.id))
        elif p.step.kind in FILE_KINDS and p.verdict is not Verdict.DEFERRED:
            upstream = p.verdict is Verdict.UPSTREAM
            steps.append(LedgerStep(id=p.step.id, spec=p.step.spec, upstream=upstream, changes=p.changes))
    return (*steps, *records.values())


def sources_of(plan: Plan) -> dict[str, str]:
    """Where each renamed or copied file comes from."""
    return {c.path: c.source for p in plan.steps for c in p.changes if c.source is not None}


def _origin(path: str, sources: dict[str, str], pristine: Tree) -> str:
    """The pristine file that `path` is made of, through any number of renames; else `path` itself."""
    seen = {path}
    origin = path
    while standing(pristine, origin) is None:
        origin = sources.get(origin, "")
        if not origin or origin in seen:
            return path
        seen.add(origin)
    return origin


def _kept(site: Site, path: str, state: FileState | None) -> Kept | None:
    return None if state is None else files.kept(state, site.meta(path))


def _target_state(
    path: str,
    now: FileState | None,
    before: Kept | None,
    origin: str,
    site: Site,
    known: dict[str, LedgerFile],
) -> Kept | None:
    """What `path` is to be: the planned bytes and mode, with the owner and attributes of the file it
    was, or of the file it is renamed or copied from."""
    if now is None:
        return None
    if before is not None and before.is_state(now):
        return before
    like = before
    if like is None and origin != path:
        like = known[origin].before if origin in known else _kept(site, origin, site.read(origin))
    if like is None:
        return Kept(sha256=now.sha256, kind=now.kind, mode=now.mode)
    return replace(like, sha256=now.sha256, kind=now.kind, mode=now.mode)


def _hard_links(site: Site, operations: list[Operation]) -> tuple[str, ...]:
    notes = []
    for op in operations:
        meta = site.meta(op.path) if op.before is not None and op.after != op.before else None
        if meta is not None and meta.links > 1 and op.before is not None and op.before.kind != LINK:
            notes.append(f"{op.path} has {meta.links - 1} more hard link(s): the other names keep the old bytes")
    return tuple(notes)
