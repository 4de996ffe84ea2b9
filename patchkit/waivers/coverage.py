"""Rules of coverage: every step, file and pin of a governed stack stands in exactly one waiver."""

from __future__ import annotations

from typing import TYPE_CHECKING

from patchkit.waivers.rules import Finding
from patchkit.waivers.view import pins_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from patchkit.model.stack import Step
    from patchkit.waivers.subject import StackFacts, Subject, WaiverFacts


def check(subject: Subject) -> Iterator[Finding]:
    """What is not covered, covered twice, or covered and gone."""
    for stack in subject.stacks:
        if stack.stack.governed:
            yield from _stack(subject, stack)
    if any(stack.stack.governed for stack in subject.stacks):
        yield from (_loose(path) for path in subject.shared_loose)
    for waiver in subject.waivers:
        yield from _gone(subject, waiver)
        yield from _strangers(waiver)


def _stack(subject: Subject, stack: StackFacts) -> Iterator[Finding]:
    covering = {
        step.id: [w for w in subject.waivers if f"{stack.name}/{step.id}" in w.waiver.covers]
        for step in stack.stack.steps
    }
    if covering and not any(covering.values()):
        yield Finding(
            code="stack-without-waiver",
            path=stack.path,
            line=stack.document.line(("image",)),
            subject=stack.name,
            message=f"image {stack.name}: no waiver covers any of its {len(covering)} steps",
            fix=f"patchkit waiver new PR --image {stack.name}",
        )
    elif covering:
        for step in stack.stack.steps:
            if not covering[step.id]:
                yield _uncovered(stack, step)
    for step_id, waivers in covering.items():
        for waiver in waivers[1:]:
            yield Finding(
                code="step-covered-twice",
                path=waiver.path,
                line=waiver.cover_line(step_id),
                step=step_id,
                subject=waivers[0].stem,
                message=f"step {step_id} of {stack.name} is covered by {waivers[0].path} too",
            )
    yield from (_loose(path) for path in stack.loose)


def _uncovered(stack: StackFacts, step: Step) -> Finding:
    pins = ", ".join(pin.requirement for pin in pins_of(step, stack.locked(step.id)))
    code, what = ("pin-undeclared", f" installs {pins} over the image and") if step.kind == "pip" else ("", "")
    return Finding(
        code=code or "step-uncovered",
        path=stack.path,
        line=stack.line(step.id),
        step=step.id,
        subject=pins or None,
        message=f"step {step.id} of {stack.name}{what} is covered by no waiver",
        fix=f"add {stack.name}/{step.id} to `covers` of the waiver that introduces it",
    )


def _loose(path: str) -> Finding:
    message = f"{path}: no step names this patch file, so no waiver covers it"
    return Finding(
        code="file-uncovered", path=path, line=1, subject=path, message=message, fix="make it a step, or remove it"
    )


def _gone(subject: Subject, waiver: WaiverFacts) -> Iterator[Finding]:
    for at, cover in enumerate(waiver.waiver.covers):
        image, _, step_id = cover.partition("/")
        stack = subject.stack(image)
        if stack is not None and stack.step(step_id) is not None:
            continue
        what = f"image {image} has no stack" if stack is None else f"{stack.path} has no step {step_id}"
        yield Finding(
            code="step-gone",
            path=waiver.path,
            line=waiver.line("covers", at),
            step=step_id,
            subject=cover,
            message=f"covers[{at}]: {what}",
        )


def _strangers(waiver: WaiverFacts) -> Iterator[Finding]:
    """Steps that the statements name and `covers` does not."""
    said = waiver.waiver
    conditions = () if said.removal is None else said.removal.conditions
    places: list[tuple[tuple[str | int, ...], tuple[str, ...]]] = [
        *((("why", at), each.steps) for at, each in enumerate(said.why)),
        *((("no_upstream", at), each.steps) for at, each in enumerate(said.no_upstream)),
        *((("removal", "conditions", at), each.steps) for at, each in enumerate(conditions)),
    ]
    covered = set(said.steps)
    for where, steps in places:
        for at, step_id in enumerate(steps):
            if step_id not in covered:
                yield Finding(
                    code="step-gone",
                    path=waiver.path,
                    line=waiver.line(*where, "steps", at),
                    step=step_id,
                    subject=str(where[0]),
                    message=f"{where[0]} names step {step_id}, which the waiver does not cover",
                )
