"""What the document of a waiver shows: the statements, and all that follows from the stack, its lock and the record."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from patchkit.core.errors import ConfigError
from patchkit.model import diffstat
from patchkit.model.stack import Pin, PipStep, ReplaceStep
from patchkit.upstream.facts import Ref, State

if TYPE_CHECKING:
    from patchkit.core.lockfile import FileChange, LockedStep
    from patchkit.model.diffstat import FileCount
    from patchkit.model.image import Image
    from patchkit.model.stack import Removal, Stack, Step
    from patchkit.model.waiver import Waiver
    from patchkit.upstream.facts import Fate
    from patchkit.upstream.record import Record
    from patchkit.waivers.subject import StackFacts, WaiverFacts

FORMAT = 1
NOT_KNOWN = "not known"
_SHORT = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class PullView:
    """One upstream pull request: its address, and what the committed record says of it."""

    ref: str
    url: str
    title: str
    state: str
    said: str
    as_of: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FileView:
    """One file that a step changes. `count` is None where its lines were not or cannot be counted."""

    path: str
    change: str
    size: str
    count: FileCount | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PinView:
    """One package that a step installs over the image."""

    requirement: str
    index: str
    hashes: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StepView:
    """One covered step: everything that it does to the image."""

    id: str
    kind: str
    type: str
    reason: str | None
    removal: str
    files: tuple[FileView, ...]
    pins: tuple[PinView, ...]
    command: str | None
    stage: str
    pulls: tuple[PullView, ...]
    no_upstream: str | None
    unknown: tuple[str, ...]
    input: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """The whole document. `block` is its machine-readable part."""

    waiver: Waiver
    name: str
    image: Image
    stack: Stack
    lock: str
    inputs: tuple[tuple[str, str], ...]
    steps: tuple[StepView, ...]
    pulls: tuple[PullView, ...]
    as_of: str
    block: dict[str, Any]

    @property
    def totals(self) -> str:
        """`5 files in 12 hunks, +60 -4; 7 more, or folders, are not counted`: each file once a step."""
        counts = [file.count for step in self.steps for file in step.files if file.count is not None]
        left = sum(len(step.files) for step in self.steps) - len(counts)
        added, removed = sum(each.added for each in counts), sum(each.removed for each in counts)
        told = f"{len(counts)} files in {sum(each.hunks for each in counts)} hunks, +{added} -{removed}"
        return told + (f"; {left} more, or folders, are not counted" if left else "")

    @property
    def block_text(self) -> str:
        """The block as JSON that no fence can be broken by."""
        return json.dumps(self.block, indent=2, ensure_ascii=True).replace("`", "\\u0060")


def derive(waiver: WaiverFacts, stack: StackFacts, record: Record) -> View:
    """The document's content. Steps that are covered but are not in the stack are left out: `check` names them."""
    covered = set(waiver.waiver.steps)
    steps = tuple(_step(waiver.waiver, stack, step, record) for step in stack.stack.steps if step.id in covered)
    pulls = {pull.ref: pull for step in steps for pull in step.pulls}
    dates = sorted({pull.as_of for pull in pulls.values()})
    name = f"{waiver.waiver.repository or 'repository not stated'}#{waiver.stem}"
    inputs = tuple(sorted(stack.lock.inputs.items()))
    return View(
        waiver=waiver.waiver,
        name=name,
        image=stack.image,
        stack=stack.stack,
        lock=stack.lock.digest,
        inputs=inputs,
        steps=steps,
        pulls=tuple(pulls.values()),
        as_of=" to ".join([dates[0], dates[-1]][: len(dates)]) if dates else NOT_KNOWN,
        block=_block(name, waiver.waiver, stack, steps),
    )


def _block(name: str, waiver: Waiver, stack: StackFacts, steps: tuple[StepView, ...]) -> dict[str, Any]:
    return {
        "format": FORMAT,
        "waiver": name,
        "image": {"name": stack.name, "reference": stack.image.reference, "digest": stack.image.digest},
        "stack": {"version": stack.stack.version, "lock": stack.lock.digest},
        "inputs": dict(sorted(stack.lock.inputs.items())),
        "steps": {step.id: _step_block(step) for step in steps},
        "config": [entry.entry for entry in waiver.config],
        "recipes": [recipe.link for recipe in waiver.recipes],
        "filed": waiver.filed,
        "expires": waiver.expires,
    }


def _step_block(step: StepView) -> dict[str, Any]:
    files = {
        file.path: {"change": file.change}
        if file.count is None
        else {
            "change": file.change,
            "added": file.count.added,
            "removed": file.count.removed,
            "hunks": file.count.hunks,
        }
        for file in step.files
    }
    return {
        "kind": step.kind,
        "type": step.type,
        "files": files,
        "pins": [pin.requirement for pin in step.pins],
        "command": step.command,
        "input": step.input,
        "upstream": {pull.ref: f"{pull.state}, as of {pull.as_of}" for pull in step.pulls},
        "removal": step.removal,
        "unknown": list(step.unknown),
    }


def _step(waiver: Waiver, stack: StackFacts, step: Step, record: Record) -> StepView:
    locked = stack.locked(step.id)
    excuse = next((each.because for each in waiver.no_upstream if step.id in each.steps), None)
    return StepView(
        id=step.id,
        kind=step.kind,
        type=step.type,
        reason=step.reason,
        removal=removal_text(step.removal),
        files=files_of(stack, step),
        pins=pins_of(step, locked),
        command=_command(locked) if step.kind == "run" else None,
        stage=NOT_KNOWN if locked is None else locked.stage,
        pulls=tuple(pull_view(ref, record) for ref in step.upstream),
        no_upstream=None if step.upstream else excuse,
        unknown=_unknown(stack, step, locked),
        input=None if locked is None or locked.input is None else f"sha256:{locked.input.sha256}",
    )


def _unknown(stack: StackFacts, step: Step, locked: LockedStep | None) -> tuple[str, ...]:
    if locked is not None:
        return tuple(fact.what for fact in locked.unresolved)
    return (*(fact.what for fact in stack.stack.unresolved(step)), "what it does: the lock does not have it")


def files_of(stack: StackFacts, step: Step) -> tuple[FileView, ...]:
    """Every file that a step changes, as far as that is known; a folder where its files are not."""
    locked = stack.locked(step.id)
    if locked is None:
        return ()
    if locked.changes:
        counts = stack.counts.get(step.id)
        prefix = locked.action.get("prefix")
        return tuple(_file(step, change, diffstat.find(counts, change.path, prefix)) for change in locked.changes)
    if locked.touches is None:
        if step.kind == "pip" or not locked.unresolved:
            return ()
        return (FileView(path=f"files {NOT_KNOWN}", change=NOT_KNOWN, size=NOT_KNOWN),)
    return tuple(_unlisted(path, resolved=not locked.unresolved) for path in locked.touches)


def _unlisted(path: str, *, resolved: bool) -> FileView:
    """A path that the lock names without a change: not known yet, or unchanged."""
    change = "none: the tree has it already" if resolved else NOT_KNOWN
    shown = f"{path} (files {NOT_KNOWN})" if path.endswith("/") else path
    return FileView(path=shown, change=change, size="no line" if resolved else NOT_KNOWN)


def _file(step: Step, change: FileChange, count: FileCount | None) -> FileView:
    word = change.change.value + (f" from {change.source}" if change.source else "")
    if isinstance(step, ReplaceStep) and step.replace is not None:
        times = "once" if step.replace.count == 1 else f"{step.replace.count} times"
        return FileView(path=change.path, change=word, size=f"an exact text, {times}")
    if step.kind in ("file", "run"):
        return FileView(path=change.path, change=word, size="whole file")
    if count is None:
        return FileView(path=change.path, change=word, size="not counted")
    if count.binary:
        return FileView(path=change.path, change=word, size="binary", count=count)
    hunks = "1 hunk" if count.hunks == 1 else f"{count.hunks} hunks"
    return FileView(path=change.path, change=word, size=f"{hunks}, +{count.added} -{count.removed}", count=count)


def pins_of(step: Step, locked: LockedStep | None) -> tuple[PinView, ...]:
    """Every package that a step installs, by its pin; a version that is not known says so."""
    if not isinstance(step, PipStep) or step.pip is None:
        return ()
    hashes = {} if locked is None else {package.requirement: len(package.hashes) for package in locked.packages}
    index = {None: NOT_KNOWN, "default": "the default index"}.get(step.pip.index, step.pip.index)
    return tuple(
        PinView(
            requirement=text,
            index=str(index),
            hashes=f"{hashes[text]} sha256" if text in hashes else NOT_KNOWN,
        )
        for text in (requirement_text(item) for item in step.pip.requirements)
    )


def requirement_text(item: str | Pin) -> str:
    """A requirement as people write it; without a version where that is not known."""
    if isinstance(item, str):
        return item
    return f"{item.name}=={item.version}" if item.version else f"{item.name} (version {NOT_KNOWN})"


def _command(locked: LockedStep | None) -> str:
    argv = None if locked is None else locked.action.get("argv")
    return " ".join(argv) if argv else NOT_KNOWN


def removal_text(removal: Removal | None) -> str:
    """A step's removal plan as one sentence."""
    if removal is None:
        return "not stated"
    note = " ".join((removal.note or "").split())
    if removal.when == "manual":
        return note or "by hand; no condition is stated"
    verb = "the image contains" if removal.when == "contained" else "a release has"
    return f"Goes once {verb} {removal.ref}." + (f" {note}" if note else "")


def pull_view(text: str, record: Record) -> PullView:
    """A pull request with what the record says of it; nothing is made up where it says nothing."""
    ref = Ref.parse(text)
    url = f"https://{ref.host}/{ref.repo}/pull/{ref.number}"
    fate = record.fates.get(ref)
    if fate is None:
        return PullView(ref=text, url=url, title="", state=State.UNKNOWN.value, said="not recorded", as_of="never")
    return PullView(
        ref=text, url=url, title=fate.title, state=fate.state.value, said=_said(fate), as_of=fate.as_of or NOT_KNOWN
    )


def _said(fate: Fate) -> str:
    """`reverted by ROCm/aiter#4709 (518cfbc60b), superseded by ROCm/aiter#4916`"""
    landed = f" as {fate.landed_as[:_SHORT]}" if fate.landed_as else ""
    when = f" on {fate.landed_at[:10]}" if fate.landed_at else ""
    parts = [fate.state.value]
    match fate.state:
        case State.MERGED:
            parts = [f"merged{landed}{when}"]
        case State.REVERTED:
            by = f" by {fate.reverted_by}" if fate.reverted_by else ""
            commit = f" ({fate.reverted_as[:_SHORT]})" if fate.reverted_as else ""
            parts = [f"landed{landed}{when}", f"REVERTED{by}{commit}"]
        case State.ABANDONED:
            parts = ["closed without landing"]
        case _:
            pass
    if fate.merged_elsewhere:
        parts.append(f"into {fate.merged_elsewhere}, not the default branch")
    if fate.superseded_by:
        parts.append(f"superseded by {fate.superseded_by}")
    if fate.first_release:
        parts.append(f"first in release {fate.first_release}")
    return ", ".join(parts)


def stack_of(waiver: WaiverFacts, stack: StackFacts | None) -> StackFacts:
    """The stack that a waiver is about. Raises ConfigError where it covers nothing, or no image of the project."""
    if waiver.waiver.image is None:
        problem = f"{waiver.path}: covers: it covers no step, so there is nothing to render"
        raise ConfigError(problem, hint="covers: [IMAGE/STEP, ...]")
    if stack is None:
        problem = f"{waiver.path}:{waiver.line('covers')}: covers: there is no image {waiver.waiver.image}"
        raise ConfigError(problem, hint="patchkit image list")
    return stack
