"""A scan as text and as data."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from patchkit.waivers.scan_types import Report, ScanFinding


def data(report: Report) -> dict[str, Any]:
    """The object that `--json` prints, without what every command adds."""
    return {
        "findings": [
            {
                "path": each.path,
                "line": each.line,
                "kind": each.kind,
                "touches": each.touches,
                "waiver": each.waiver,
                "text": printable(each.text),
            }
            for each in report.findings
        ],
        "files": report.files,
        "unread": [{"path": path, "why": why} for path, why in report.unread],
    }


def lines(report: Report) -> list[str]:
    """One line a finding, then the sum."""
    out = [line(each) for each in report.findings]
    out += [f"{path}: not read whole: {why}" for path, why in report.unread]
    open_ = sum(each.waiver is None for each in report.findings)
    found = f"{len(report.findings)} findings, {open_} covered by no waiver" if report.findings else "nothing found"
    return [*out, f"{report.files} files: {found}"]


def line(finding: ScanFinding) -> str:
    """`path:line: kind: what is touched (waiver)`"""
    waiver = "covered by no waiver" if finding.waiver is None else f"covered by {finding.waiver}"
    return f"{finding.path}:{finding.line}: {finding.kind}: {printable(finding.touches)} ({waiver})"


def uncovered(report: Report) -> bool:
    """Whether anything is covered by no waiver: exit code 5."""
    return any(each.waiver is None for each in report.findings)


def printable(text: str) -> str:
    """Text of a file as a terminal may see it: on one line, without control characters."""
    text = re.sub(r"\s+", " ", text)
    return "".join(c if c.isprintable() else c.encode("unicode_escape", "surrogatepass").decode() for c in text)
