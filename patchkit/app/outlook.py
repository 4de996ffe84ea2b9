"""`status` whole: what is on disk, what became of each pull request, whether the image has it, what to do.

Reads the stacks and their trees, asks what is to be asked (forge, clones, the committed record), and hands facts to
the pure rules of `patchkit.upstream`. What one source cannot tell, another may; a failure is told beside what is
known, and ends the run only where nothing is.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING

from patchkit.app import on_disk
from patchkit.app.upstreams import Upstreams, Wish
from patchkit.core.errors import ConfigError, PatchkitError, RefusedByMachineError, UnreachableError
from patchkit.core.judge import AS_MADE
from patchkit.core.plan import HELD_ALREADY
from patchkit.core.report import Report
from patchkit.core.verdicts import Outcome, Verdict
from patchkit.model.load import load_image, load_stack
from patchkit.model.stack import PatchStep
from patchkit.upstream.actions import Known, Plan, Question, advise
from patchkit.upstream.facts import Fate, Ref, State
from patchkit.upstream.outlook import StackOutlook, StepOutlook
from patchkit.upstream.record import Record, combine, parse, render
from patchkit.upstream.taken import taken_from

if TYPE_CHECKING:
    from argparse import Namespace

    from patchkit.app.on_disk import OnDisk
    from patchkit.app.project import Project
    from patchkit.core.lockfile import Lock
    from patchkit.core.report import StepReport
    from patchkit.model.image import Image
    from patchkit.model.stack import Stack, Step

__all__ = ["Wish", "look", "save"]

RECORD = ("patches", "upstream.json")
#: What a verdict on the image's own files says of a step's change: there, or as it was before.
_CONTENT = {
    Verdict.UPSTREAM: True,
    Verdict.APPLIED: False,
    Verdict.APPLIES: False,
    Verdict.OFFSET: False,
    Verdict.DRIFTED: False,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """One stack with its image and its tree. `taken` is the commit from which a step's patch was taken, by the
    step's id; `carried` the diff that a cherry-pick of one whole pull request carries."""

    name: str
    image: Image | None = None
    stack: Stack | None = None
    disk: OnDisk
    taken: dict[str, str] = field(default_factory=dict)
    carried: dict[Ref, bytes] = field(default_factory=dict)

    def refs(self) -> list[Ref]:
        """The pull requests that its steps come from, and those that their removal plans wait for."""
        found = []
        for step in self.stack.steps if self.stack is not None else ():
            found += [Ref.parse(text) for text in step.upstream]
            found += [plan.ref] if (plan := plan_of(step)) is not None and plan.ref is not None else []
        return found


def plan_of(step: Step) -> Plan | None:
    """The step's removal plan as the rules read it: without a `ref` of its own it waits for the step's only one."""
    if step.removal is None:
        return None
    ref = step.removal.ref
    return Plan(when=step.removal.when, ref=None if ref is None else Ref.parse(ref))


def look(
    project: Project, names: list[str], wish: Wish, args: Namespace, *, several: bool
) -> tuple[tuple[StackOutlook, ...], Record]:
    """The outlook of each named image's stack, and the record with what is known now.

    With `several`, a stack that cannot be read is told beside the others; else what is wrong is raised.
    """
    subjects = [_subject(project, name, args, several=several) for name in names]
    refs = list(dict.fromkeys(ref for subject in subjects for ref in subject.refs()))
    recorded = read_record(project)
    usable = recorded if wish.as_of is None else recorded.as_of(wish.as_of)
    others = [load_image(Path(project.image_file(name))) for name in project.images()] if refs else []
    now = datetime.now(timezone.utc)
    with Upstreams(wish, now) as upstreams:
        upstreams.gather(refs, others, {s.image.name: s.disk.versions for s in subjects if s.image is not None})
        carried = {ref: diff for subject in subjects for ref, diff in subject.carried.items()}
        stories = {ref: upstreams.tell(ref, carried=carried.get(ref)) for ref in refs}
        fates = {ref: combine(usable.fates.get(ref), stories[ref].fate) or stories[ref].fate for ref in refs}
        for ref in refs:
            upstreams.learn(ref, fates[ref], stories[ref].turns)
        stacks = tuple(_stack(subject, fates, upstreams, others, now) for subject in subjects)
        if _nothing_is_known(stacks, upstreams):
            stacks = tuple(_unreachable(stack, upstreams) for stack in stacks)
    known = {ref: fate for ref, fate in fates.items() if fate.as_of is not None}
    return stacks, Record(fates={**recorded.fates, **known})


def _subject(project: Project, name: str, args: Namespace, *, several: bool) -> Subject:
    try:
        image = load_image(Path(project.image_file(name)))
        stack = load_stack(Path(project.stack_file(name)))
        lock = project.lock(name)
        disk = on_disk.look(project, lock, args)
    except PatchkitError as error:
        if not several:
            raise
        report = Report(command="status", image=name, outcome=Outcome.REFUSED, error=error)
        return Subject(name=name, disk=on_disk.OnDisk(report=report))
    taken = {}
    for step in stack.steps:
        commit = taken_from(step, lambda found: _patch_head(project, name, found))
        if commit is not None:
            taken[step.id] = commit
    carried = _carried(project, stack, lock)
    return Subject(name=name, image=image, stack=stack, disk=disk, taken=taken, carried=carried)


def _carried(project: Project, stack: Stack, lock: Lock) -> dict[Ref, bytes]:
    """The diffs of the steps that alone carry a pull request as it is, with upstream's own paths: patch-ids of
    these speak for a head that nobody has."""
    steps = {step.id: step for step in lock.steps}
    every = [text for step in stack.steps for text in step.upstream]
    found = {}
    for step in stack.steps:
        alone = len(step.upstream) == 1 and every.count(step.upstream[0]) == 1
        whole = isinstance(step, PatchStep) and step.strip == 1 and step.prefix is None
        pinned = steps[step.id].input
        if alone and whole and step.type == "cherry-pick" and pinned is not None and pinned.path is not None:
            found[Ref.parse(step.upstream[0])] = project.read_input(steps[step.id])
    return found


def _patch_head(project: Project, image: str, name: str) -> str:
    """The header of the stack's patch file `name`: what stands before its first diff."""
    from patchkit.model.load import patch_file

    text = patch_file(Path(project.stack_file(image)), name).read_bytes()
    return text.partition(b"\ndiff --git ")[0].partition(b"\n--- ")[0].decode("utf-8", "replace")


def _content(subject: Subject, step: StepReport) -> bool | None:
    """What the image's own files say of a step's change. Those of a stand-in, another release, say nothing; nor
    does a tree that holds our own bytes without a ledger: there somebody put the stack on by hand."""
    if subject.disk.report.stand_in or step.verdict is None:
        return None
    if step.verdict is Verdict.UPSTREAM and _is_by_hand(subject):
        return None
    return _CONTENT.get(step.verdict)


def _is_by_hand(subject: Subject) -> bool:
    """Whether the tree holds what only our own steps make: bytes by the lock's hashes, or a step that is ours alone."""
    there = [step for step in subject.disk.report.steps if step.verdict is Verdict.UPSTREAM]
    return any(not step.upstream or set(step.detail) & {AS_MADE, HELD_ALREADY} for step in there)


def _stack(
    subject: Subject, fates: dict[Ref, Fate], upstreams: Upstreams, others: list[Image], now: datetime
) -> StackOutlook:
    report = subject.disk.report
    if subject.stack is None or subject.image is None:
        return StackOutlook(report=report, steps=(), basis="not looked at")
    steps = tuple(
        _step(subject, subject.image, step, told, fates, upstreams, others)
        for step, told in zip(subject.stack.steps, report.steps, strict=True)
    )
    mine = [fates[ref] for ref in dict.fromkeys(subject.refs())]
    return StackOutlook(report=report, steps=steps, basis=upstreams.basis(mine, now))


def _step(
    subject: Subject,
    image: Image,
    step: Step,
    told: StepReport,
    fates: dict[Ref, Fate],
    upstreams: Upstreams,
    others: list[Image],
) -> StepOutlook:
    content = _content(subject, told)

    def known(ref: Ref) -> Known:
        return Known(
            fate=fates[ref],
            containment=upstreams.contained(ref, image, content),
            first_image=upstreams.first_image(ref, image, others),
            near=upstreams.near(ref, image),
            trouble=upstreams.trouble(ref),
        )

    refs = [Ref.parse(text) for text in step.upstream]
    plan = plan_of(step)
    awaited = known(plan.ref) if plan is not None and plan.ref is not None and plan.ref not in refs else None
    every = tuple(known(ref) for ref in refs)
    question = Question(known=every, content=content, taken=subject.taken.get(step.id), plan=plan, awaited=awaited)
    return StepOutlook(step=told, known=every, advice=advise(question), plan=plan)


def _nothing_is_known(stacks: tuple[StackOutlook, ...], upstreams: Upstreams) -> bool:
    """Whether pull requests were asked for, none was answered, and nothing tells anything of any of them."""
    every = [(step, known) for stack in stacks for step in stack.steps for known in step.known]
    return bool(every) and all(
        upstreams.trouble(known.fate.ref) is not None
        and known.fate.state is State.UNKNOWN
        and not known.fate.closed
        and step.advice.in_image is None
        for step, known in every
    )


def _unreachable(stack: StackOutlook, upstreams: Upstreams) -> StackOutlook:
    """The stack with an error that says why nothing is known; an error that it has already stays."""
    troubles = dict.fromkeys(known.trouble for step in stack.steps for known in step.known if known.trouble)
    if not troubles or stack.report.error is not None:
        return stack
    error = UnreachableError(*troubles, hint=upstreams.hint or "patchkit status --offline")
    return replace(stack, report=replace(stack.report, error=error))


def read_record(project: Project) -> Record:
    """The committed record; empty where there is none. Raises ConfigError."""
    path = project.path(*RECORD)
    try:
        with open(path, encoding="utf-8") as stream:
            text = stream.read()
    except FileNotFoundError:
        return Record(fates={})
    except (OSError, ValueError) as error:
        raise ConfigError(f"{project.shown(path)}: {error}", hint="git checkout patches/upstream.json") from None
    return parse(text, project.shown(path))


def save(project: Project, record: Record) -> None:
    """Write the record, whole or not at all; a record that says the same is left alone."""
    path = project.path(*RECORD)
    text = render(record).encode()
    temporary = f"{path}.{os.getpid()}.tmp"
    try:
        if os.path.exists(path) and Path(path).read_bytes() == text:
            return
        with open(temporary, "wb") as stream:
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(temporary, path)
    except OSError as error:
        raise RefusedByMachineError(
            f"{project.shown(path)}: cannot be written: {error.strerror}", hint="free space, or correct its permissions"
        ) from None
