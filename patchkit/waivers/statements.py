"""Rules of statements: what only a person can say is said, for every covered step."""

from __future__ import annotations

from datetime import date
from typing import TYPE_CHECKING

from patchkit.model.waiver import GAP
from patchkit.model.yamlfile import spell
from patchkit.waivers.rules import Finding

if TYPE_CHECKING:
    from collections.abc import Iterator

    from patchkit.model.stack import Step
    from patchkit.model.yamlfile import Plain, Where
    from patchkit.waivers.subject import StackFacts, Subject, WaiverFacts

_NEEDED = (
    "repository", "pull_request", "model", "owner", "filed", "expires", "entrypoint", "config", "covers", "recipes",
)  # fmt: skip


def check(subject: Subject, today: date, soon: int) -> Iterator[Finding]:
    """What is not stated, and what has run out."""
    for waiver in subject.waivers:
        yield from _needed(waiver)
        yield from _gaps(waiver, waiver.document.data, ())
        yield from _dates(waiver, today, soon)
        stack = subject.stack(waiver.waiver.image)
        if waiver.waiver.removal is None:
            yield Finding(
                code="removal-missing",
                path=waiver.path,
                line=1,
                subject="removal",
                message="removal: the waiver says nowhere how it is retired",
            )
        if stack is not None:
            for step in stack.stack.steps:
                if step.id in waiver.waiver.steps:
                    yield from _step(waiver, stack, step)


def _needed(waiver: WaiverFacts) -> Iterator[Finding]:
    for key in _NEEDED:
        if getattr(waiver.waiver, key) in (None, ()):
            yield Finding(
                code="statement-missing",
                path=waiver.path,
                line=waiver.line(key),
                subject=key,
                message=f"{key}: not stated",
            )


def _gaps(waiver: WaiverFacts, data: Plain, where: Where) -> Iterator[Finding]:
    if isinstance(data, dict):
        for key, value in data.items():
            yield from _gaps(waiver, value, (*where, key))
    elif isinstance(data, list):
        for at, value in enumerate(data):
            yield from _gaps(waiver, value, (*where, at))
    elif isinstance(data, str) and GAP in data:
        place = spell(where)
        message = f"{place}: {' '.join(data.split())}"
        yield Finding(code="gap", path=waiver.path, line=waiver.line(*where), subject=place, message=message)


def _dates(waiver: WaiverFacts, today: date, soon: int) -> Iterator[Finding]:
    said = waiver.waiver
    if said.expires is None:
        return
    line = waiver.line("expires")
    end = date.fromisoformat(said.expires)
    if said.filed is not None and end < date.fromisoformat(said.filed):
        message = f"expires: {said.expires} is before the day of filing, {said.filed}"
        yield Finding(code="statement-missing", path=waiver.path, line=line, subject="expires", message=message)
    left = (end - today).days
    if left < 0:
        message = f"expires: it expired on {said.expires}, {_days(-left)} ago"
        yield Finding(code="expired", path=waiver.path, line=line, subject="expires", message=message)
    elif left <= soon:
        message = f"expires: it expires on {said.expires}, {f'in {_days(left)}' if left else 'today'}"
        yield Finding(code="expires-soon", path=waiver.path, line=line, subject="expires", message=message)


def _days(number: int) -> str:
    return "1 day" if number == 1 else f"{number} days"


def _step(waiver: WaiverFacts, stack: StackFacts, step: Step) -> Iterator[Finding]:
    said = waiver.waiver
    if step.reason is None:
        message = f"step {step.id}: it has no `reason`"
        line = stack.line(step.id)
        yield Finding(
            code="reason-missing", path=stack.path, line=line, step=step.id, subject="reason", message=message
        )
    if not any(step.id in each.steps for each in said.why):
        message = f"step {step.id}: no symptom under `why` is tied to it"
        line = waiver.line("why")
        yield Finding(code="reason-missing", path=waiver.path, line=line, step=step.id, subject="why", message=message)
    if not step.upstream and not any(step.id in each.steps for each in said.no_upstream):
        message = f"step {step.id}: it names no upstream pull request, and `no_upstream` does not say why"
        line = stack.line(step.id, "upstream")
        yield Finding(
            code="upstream-missing", path=stack.path, line=line, step=step.id, subject="upstream", message=message
        )
    conditions = () if said.removal is None else said.removal.conditions
    if step.removal is None and not any(step.id in each.steps for each in conditions):
        message = f"step {step.id}: it has no removal plan"
        line = stack.line(step.id)
        yield Finding(
            code="removal-missing", path=stack.path, line=line, step=step.id, subject="removal", message=message
        )
    elif step.removal is not None and step.removal.when == "manual" and step.removal.note is None:
        message = f"step {step.id}: its removal is manual, and no note says what to wait for"
        line = stack.line(step.id, "removal")
        yield Finding(
            code="removal-missing", path=stack.path, line=line, step=step.id, subject="removal.note", message=message
        )
