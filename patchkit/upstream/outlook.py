"""One stack's steps with what is known of their pull requests: the data behind the table, the JSON and the Markdown."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from patchkit.core.errors import FindingError
from patchkit.upstream.actions import Action
from patchkit.upstream.facts import State

if TYPE_CHECKING:
    from patchkit.core.report import Report, StepReport
    from patchkit.upstream.actions import Advice, Known, Plan

#: What `--fail-on` takes: the actions, and a pull request whose state is unknown or not confirmed.
FAIL_ON = (*(action.value for action in Action), "unknown")


@dataclass(frozen=True, slots=True, kw_only=True)
class StepOutlook:
    """One step: what is on disk (`step`), its pull requests, what to do, and its removal plan."""

    step: StepReport
    known: tuple[Known, ...]
    advice: Advice
    plan: Plan | None = None

    @property
    def findings(self) -> frozenset[str]:
        """The words of FAIL_ON that are true of this step."""
        unsure = any(known.fate.state is State.UNKNOWN or known.trouble is not None for known in self.known)
        return frozenset({self.advice.action.value, *(["unknown"] if unsure else [])})


@dataclass(frozen=True, slots=True, kw_only=True)
class StackOutlook:
    """A stack: `report` is what is on disk, `basis` says how fresh the rest is."""

    report: Report
    steps: tuple[StepOutlook, ...]
    basis: str


def finding(stacks: tuple[StackOutlook, ...], fail_on: tuple[str, ...]) -> FindingError | None:
    """The error of `--fail-on`: one problem for each step that has one of these words; None where none has."""
    problems = [
        f"{stack.report.image}: step {outlook.step.id}: {outlook.advice.action.value}"
        f"{', unknown' if 'unknown' in hits else ''}: {outlook.advice.why}"
        for stack in stacks
        for outlook in stack.steps
        if (hits := outlook.findings & set(fail_on))
    ]
    if not problems:
        return None
    return FindingError(
        *problems, hint=f"--fail-on {','.join(fail_on)} asked for this; patchkit status shows all steps"
    )
