"""A report on a terminal: a table of steps, then findings and notes."""

from __future__ import annotations

from patchkit.core.report import Report, StepReport, file_text, head_line
from patchkit.core.verdicts import Verdict
from patchkit.io.console import Cell, print_lines, print_table

_STYLES = {
    Verdict.APPLIED: "green",
    Verdict.APPLIES: "green",
    Verdict.OFFSET: "yellow",
    Verdict.UPSTREAM: "cyan",
    Verdict.DEFERRED: "cyan",
}


def show(report: Report) -> None:
    """Print `report` on stdout."""
    print_lines([(head_line(report), "bold")])
    if report.steps:
        print_table(("step", "verdict", "files"), [_row(step) for step in report.steps])
    findings: list[Cell] = []
    for step in report.steps:
        if step.detail:
            findings.append((f"{step.id}:", "bold"))
            findings += [(f"  {line}", "") for line in step.detail]
    print_lines([*findings, *((f"note: {note}", "yellow") for note in report.notes)])


def _row(step: StepReport) -> tuple[Cell, Cell, Cell]:
    if step.verdict is None:
        return (step.id, ""), ("-", "dim"), (_files(step), "")
    return (step.id, ""), (step.verdict.value, _STYLES.get(step.verdict, "red")), (_files(step), "")


def _files(step: StepReport) -> str:
    return "\n".join(file_text(change) for change in step.changes)
