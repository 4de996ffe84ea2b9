"""What commands print: data on stdout, everything else on stderr."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

from patchkit.core.report import Report, errors_json, plain_lines, to_json
from patchkit.core.verdicts import Outcome

if TYPE_CHECKING:
    from collections.abc import Iterable

    from patchkit.core.errors import PatchkitError


def print_json(document: dict[str, Any]) -> None:
    """The one JSON object of a run."""
    print(json.dumps(document, indent=2, ensure_ascii=True))


def print_lines(lines: Iterable[str]) -> None:
    """Plain lines on stdout."""
    for line in lines:
        print(printable(line))


def print_error(error: PatchkitError) -> None:
    """An error for people: one `error:` line a problem, then the next command to type."""
    for problem in error.problems:
        print(printable(f"error: {problem}"), file=sys.stderr)
    if error.hint:
        print(printable(f"hint: {error.hint}"), file=sys.stderr)


def print_failure(command: str, error: PatchkitError) -> None:
    """The JSON object of a run that failed before it had a report."""
    print_json(
        {
            "command": command,
            "image": None,
            "stack": None,
            "target": None,
            "stand_in": False,
            "outcome": Outcome.REFUSED.value,
            "errors": errors_json(error),
        }
    )


def emit(report: Report, *, as_json: bool) -> int:
    """Print a report the way that was asked for, and return its exit code."""
    if as_json:
        print_json(to_json(report))
        return report.exit_code
    if sys.stdout.isatty() and report.outcome is not Outcome.UNCHANGED:
        from patchkit.report.terminal import show  # the terminal library is loaded only for a terminal

        show(report)
    else:
        print_lines(plain_lines(report))
    if report.error is not None:
        sys.stdout.flush()
        print_error(report.error)
    return report.exit_code


def printable(text: str) -> str:
    """`text` without what the streams cannot encode: file names need not be UTF-8."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def emit_all(command: str, reports: list[Report], *, as_json: bool) -> int:
    """Print the reports of several images, as one object with --json; return the highest exit code."""
    worst = max((report.exit_code for report in reports), default=0)
    if not as_json:
        for report in reports:
            emit(report, as_json=False)
        return worst
    print_json(
        {
            "command": command,
            "image": None,
            "stack": None,
            "target": None,
            "stand_in": False,
            "outcome": Outcome.REFUSED.value if worst else Outcome.REPORTED.value,
            "images": [to_json(report) for report in reports],
            "errors": [entry for report in reports for entry in errors_json(report.error)],
        }
    )
    return worst
