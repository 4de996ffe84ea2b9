"""What is told of a run that failed: where the output of its commands is, and how its steps stand."""

from __future__ import annotations

import tempfile
from typing import TYPE_CHECKING

from patchkit.core.operate import verdict_in_ledger
from patchkit.core.values import replace
from patchkit.core.verdicts import Outcome, Verdict

if TYPE_CHECKING:
    from patchkit.core.errors import PatchkitError
    from patchkit.core.ledger import Ledger
    from patchkit.core.report import Report, StepReport


def tell(error: PatchkitError, printed: list[str]) -> None:
    """Keep what the run's commands printed, the failed one's last, outside the tree, which a roll-back leaves
    without a log; `error` says where."""
    if error.output:
        printed = [*printed, f"{error.problems[0].partition(chr(10))[0]}\n{error.output}"]
    if not printed:
        return
    text = "".join(part if part.endswith("\n") else f"{part}\n" for part in printed)
    try:
        with tempfile.NamedTemporaryFile("wb", prefix="patchkit-", suffix=".log", delete=False) as stream:
            stream.write(text.encode("utf-8", "backslashreplace"))
    except OSError as why:
        error.add(f"what the commands printed could not be kept: {why.strerror}")
        return
    error.add(f"what the commands printed is kept in {stream.name}")


def report(made: Report, first: Ledger | None, undone: dict[str, str | None]) -> Report:
    """`made` after a roll-back: `undone` are the steps that it was about, with why one is still there; `first`
    is the ledger that holds again."""
    held = {step.id: verdict_in_ledger(step) for step in first.steps} if first is not None else {}

    def after(step: StepReport) -> StepReport:
        if step.id not in undone:
            return step
        why = undone[step.id]
        if why is not None:
            return replace(step, verdict=Verdict.PARTIAL, detail=(why,))
        return replace(step, verdict=held.get(step.id, Verdict.APPLIES), detail=("rolled back",))

    return replace(made, outcome=Outcome.REFUSED, steps=tuple(after(step) for step in made.steps))
