"""What the commands of the full tool print: reports with tables on a terminal, and several reports at once."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from patchkit.core import program
from patchkit.core.program import print_error, print_json, print_lines
from patchkit.core.verdicts import Outcome

if TYPE_CHECKING:
    from patchkit.core.report import Report

__all__ = ["emit", "emit_all", "print_error", "print_json", "print_lines"]


def emit(report: Report, *, as_json: bool) -> int:
    """Print a report the way that was asked for, and return its exit code."""
    if as_json or not sys.stdout.isatty() or report.outcome is Outcome.UNCHANGED:
        return program.emit(report, as_json=as_json)
    from patchkit.report.terminal import show  # the terminal library is loaded only for a terminal

    return program.emit(report, as_json=False, show=show)


def emit_all(command: str, reports: list[Report], *, as_json: bool) -> int:
    """Print the reports of several images, as one object with --json; return the highest exit code."""
    from patchkit.core.report import several_json

    if as_json:
        print_json(several_json(command, reports))
    else:
        for report in reports:
            emit(report, as_json=False)
    return max((report.exit_code for report in reports), default=0)
