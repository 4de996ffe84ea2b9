"""`waiver check`: all rules, then the baseline."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from typing import TYPE_CHECKING

from patchkit.core.errors import FindingError
from patchkit.waivers import coverage, documents, links, statements, text
from patchkit.waivers.rules import Finding

if TYPE_CHECKING:
    from patchkit.model.waiver import Suppression
    from patchkit.waivers.subject import Subject

SOON = 14


@dataclass(frozen=True, slots=True, kw_only=True)
class Exempt:
    """A stack that needs no waiver, and why."""

    image: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What was found. `covered` says how many steps each waiver covers, `notes` what a person should know besides."""

    findings: tuple[Finding, ...]
    suppressed: tuple[Finding, ...]
    exempt: tuple[Exempt, ...]
    covered: tuple[str, ...]
    notes: tuple[str, ...]

    @property
    def error(self) -> FindingError | None:
        """The error of the run; None where nothing was found."""
        if not self.findings:
            return None
        number = len(self.findings)
        problem = f"waiver check: {number} finding{'' if number == 1 else 's'}"
        return FindingError(problem, hint="docs/waiver-rules.md explains each code")


def check(subject: Subject, today: date, *, soon: int = SOON) -> Result:
    """Apply every rule. Pure: the clock and the disk are the caller's."""
    found = [
        *coverage.check(subject),
        *statements.check(subject, today, soon),
        *links.check(subject, today),
        *documents.check(subject),
        *text.check(subject),
    ]
    found.sort(key=lambda each: (each.path, each.line, each.code, each.message))
    open_, suppressed, about = _baseline(subject, found, today)
    exempt = [stack for stack in subject.stacks if not stack.stack.governed]
    return Result(
        findings=(*open_, *about),
        suppressed=tuple(suppressed),
        exempt=tuple(Exempt(image=e.name, reason=" ".join((e.stack.reason or "").split())) for e in exempt),
        covered=tuple(_covered(subject)),
        notes=tuple(_notes(subject)),
    )


def _covered(subject: Subject) -> list[str]:
    return [
        f"{waiver.path} covers {len(waiver.waiver.covers)} steps of {waiver.waiver.image or 'no image'}"
        for waiver in subject.waivers
    ]


def _notes(subject: Subject) -> list[str]:
    notes = []
    for waiver in subject.waivers:
        stack = subject.stack(waiver.waiver.image)
        if stack is None:
            continue
        locked = [step for step in stack.lock.steps if step.id in waiver.waiver.steps]
        open_ = [step.id for step in locked if step.unresolved]
        if open_:
            notes.append(
                f"{waiver.path}: of {len(locked)} covered steps {len(open_)} have facts that are not known, and the "
                f"document says so: {', '.join(open_)}"
            )
    return notes


def _baseline(
    subject: Subject, found: list[Finding], today: date
) -> tuple[list[Finding], list[Finding], list[Finding]]:
    """What stays open, what is suppressed, and what is to be said of the suppressions themselves."""
    suppressions = subject.baseline.suppressions if subject.baseline else ()
    used: set[int] = set()
    expired: set[int] = set()
    open_: list[Finding] = []
    suppressed: list[Finding] = []
    for finding in found:
        hits = [at for at, each in enumerate(suppressions) if _fits(each, finding)]
        valid = [at for at in hits if date.fromisoformat(suppressions[at].expires) >= today]
        used |= set(hits)
        expired |= set(hits) - set(valid)
        (suppressed if valid else open_).append(finding)
    about = []
    for at, each in enumerate(suppressions):
        what = " ".join(part for part in (each.code, each.path, each.step, each.subject) if part)
        line = subject.baseline_line("suppressions", at)
        if at not in used:
            code, message = "suppression-unused", f"suppressions[{at}]: there is no finding {what} any more"
        elif at in expired:
            code, message = "suppression-expired", f"suppressions[{at}]: {what} expired on {each.expires}"
        else:
            continue
        about.append(Finding(code=code, path=subject.baseline_path, line=line, subject=what, message=message))
    return open_, suppressed, about


def _fits(suppression: Suppression, finding: Finding) -> bool:
    return (
        suppression.code == finding.code
        and suppression.path == finding.path
        and suppression.step in (None, finding.step)
        and suppression.subject in (None, finding.subject)
    )
