"""Drift in words: what is different about a file, and the report of a target that somebody else changed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from patchkit.core.errors import DriftError
from patchkit.core.operate import verdict_in_ledger
from patchkit.core.values import replace
from patchkit.core.verdicts import Outcome, Verdict

if TYPE_CHECKING:
    from patchkit.core.ledger import Kept, Ledger
    from patchkit.core.report import Report
    from patchkit.core.roots import Caller
    from patchkit.core.tree import FileState


def difference(expected: Kept, state: FileState) -> str:
    """What is different about a file that the ledger remembers as `expected`."""
    if state.kind != expected.kind:
        return f"expected a {expected.kind}, found a {state.kind}"
    if state.sha256 != expected.sha256:
        return f"its content was changed: expected sha256 {expected.sha256[:12]}…, found {state.sha256[:12]}…"
    return f"its mode was changed: expected {expected.mode:o}, found {state.mode:o}"


def drift_report(report: Report, ledger: Ledger, drifted: dict[str, str], caller: Caller) -> Report:
    """`report` for a target with drift: the error names each file with its steps."""
    problems = [
        f"{path} (step {', '.join(ledger.files[path].steps) or '-'}): {why}" for path, why in sorted(drifted.items())
    ]
    error = DriftError(
        *problems,
        hint=f"look at it: {caller.spell('diff', image=report.image)}; give it up:"
        f" {caller.spell('revert', '--force', image=report.image)}, then apply",
    )
    changed = {step_id for path in drifted for step_id in ledger.files[path].steps}
    held = {step.id: verdict_in_ledger(step) for step in ledger.steps}
    steps = tuple(
        replace(
            step,
            verdict=Verdict.DRIFTED if step.id in changed else held.get(step.id),
            detail=tuple(f"{p}: {why}" for p, why in sorted(drifted.items()) if step.id in ledger.files[p].steps),
        )
        for step in report.steps
    )
    return replace(report, outcome=Outcome.REFUSED, steps=steps, error=error)
