"""What a command found or did, as data: the one object behind the terminal's lines and the JSON."""

from __future__ import annotations

from patchkit.core.values import Value, replace
from patchkit.core.verdicts import Outcome, Verdict

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from patchkit.core.errors import PatchkitError
    from patchkit.core.lockfile import FileChange


class StepReport(Value):
    """One step's line. `verdict` is None where there is no tree to judge it on."""

    id: str
    verdict: Verdict | None
    changes: tuple[FileChange, ...] = ()
    detail: tuple[str, ...] = ()
    upstream: tuple[str, ...] = ()


class Report(Value):
    """The result of one command on one target.

    `notes` are sentences that a person must see (stand-in, not pinned, repaired, hard links);
    `error` is set where the command failed: the report then says how far the judgement got.
    """

    command: str
    image: str
    outcome: Outcome
    version: int | None = None
    lock: str | None = None
    target: str | None = None
    stand_in: bool = False
    steps: tuple[StepReport, ...] = ()
    notes: tuple[str, ...] = ()
    error: PatchkitError | None = None

    @property
    def exit_code(self) -> int:
        """0, or the error's."""
        return 0 if self.error is None else self.error.exit_code


def to_json(report: Report) -> dict[str, Any]:
    """The report as the JSON object of the contract (design.md, JSON)."""
    stack = None if report.version is None else {"version": report.version, "lock": report.lock}
    return {
        "command": report.command,
        "image": report.image,
        "stack": stack,
        "target": report.target,
        "stand_in": report.stand_in,
        "outcome": report.outcome.value,
        "steps": [step_json(step, report.command) for step in report.steps],
        "notes": list(report.notes),
        "errors": errors_json(report.error),
    }


def step_json(step: StepReport, command: str) -> dict[str, Any]:
    """One step as JSON; `status` names the verdict `on_disk`; what is upstream, a bundle
    cannot know, and the full tool fills in (patchkit.report.upstream)."""
    files = [
        {"path": c.path, "change": c.change.value, **({"from": c.source} if c.source else {})} for c in step.changes
    ]
    verdict = None if step.verdict is None else step.verdict.value
    if command != "status":
        return {"id": step.id, "verdict": verdict, "files": files, "detail": "\n".join(step.detail)}
    upstream = [
        {
            "ref": ref,
            "state": "unknown",
            "landed_as": None,
            "reverted_by": None,
            "superseded_by": None,
            "first_release": None,
            "as_of": None,
        }
        for ref in step.upstream
    ]
    return {
        "id": step.id,
        "on_disk": verdict,
        "in_image": None,
        "action": None,
        "why": "",
        "detail": "\n".join(step.detail),
        "files": files,
        "upstream": upstream,
    }


def errors_json(error: PatchkitError | None) -> list[dict[str, str]]:
    """An error as the contract's list, one entry a problem."""
    if error is None:
        return []
    about = len(error.problems) - len(error.also)
    return [
        {"code": error.code, "message": problem, "hint": error.hint if at < about else ""}
        for at, problem in enumerate(error.problems)
    ]


def failure_json(command: str, error: PatchkitError) -> dict[str, Any]:
    """The JSON object of a run that failed, as far as it came."""
    if error.report is not None:
        return to_json(replace(error.report, error=error))
    return {
        "command": command,
        "image": None,
        "stack": None,
        "target": None,
        "stand_in": False,
        "outcome": Outcome.REFUSED.value,
        "errors": errors_json(error),
    }


def several_json(command: str, reports: list[Report]) -> dict[str, Any]:
    """The reports of several images as one object: `images` holds one report each."""
    failed = any(report.error is not None for report in reports)
    return {
        "command": command,
        "image": None,
        "stack": None,
        "target": None,
        "stand_in": False,
        "outcome": Outcome.REFUSED.value if failed else Outcome.REPORTED.value,
        "images": [to_json(report) for report in reports],
        "errors": [entry for report in reports for entry in errors_json(report.error)],
    }


def plain_lines(report: Report) -> list[str]:
    """The report as plain text, one line a step and one a finding: for pipes and inside containers."""
    lines = [head_line(report)]
    width = max((len(step.id) for step in report.steps), default=0)
    for step in report.steps:
        verdict = "-" if step.verdict is None else step.verdict.value
        lines.append(f"  {step.id:<{width}}  {verdict:<10}  {files_text(step)}".rstrip())
        lines += [f"      {line}" for line in step.detail]
    lines += [f"note: {note}" for note in report.notes]
    return lines


_LOCK_WORDS = {
    Outcome.APPLIED: "locked",
    Outcome.UNCHANGED: "locked already, nothing to do",
    Outcome.CLEAN: "the lock is fresh",
    Outcome.REFUSED: "refused, the lock is as it was",
}


def head_line(report: Report) -> str:
    """`apply nightly-c50aca: already applied, stack version 1, lock sha256:…`"""
    words = (
        _LOCK_WORDS
        if report.command == "lock"
        else {
            Outcome.APPLIED: "applied",
            Outcome.UNCHANGED: "already applied, nothing to do" if report.command == "apply" else "nothing to do",
            Outcome.UPGRADED: "upgraded in place",
            Outcome.REVERTED: "reverted to the pristine files",
            Outcome.PLANNED: "would be applied (dry run, nothing was changed)",
            Outcome.REFUSED: "refused, nothing was changed",
            Outcome.CLEAN: "clean",
            Outcome.DRIFTED: "not as it should be",
            Outcome.REPORTED: "written" if report.command == "bundle" else "as it is on disk",
        }
    )
    parts = [f"{report.command} {report.image}: {words[report.outcome]}"]
    if report.version is not None:
        parts.append(f"stack version {report.version}")
    if report.lock:
        parts.append(f"lock {report.lock[:19]}…")
    if report.stand_in:
        parts.append("STAND-IN")
    text = ", ".join(parts)
    what = "file" if report.command == "bundle" else "tree"
    return f"{text}\n  {what}: {report.target}" if report.target else text


def files_text(step: StepReport) -> str:
    """`vllm/a.py (modified), vllm/c.py (renamed from vllm/b.py)`"""
    return ", ".join(file_text(change) for change in step.changes)


def file_text(change: FileChange) -> str:
    """`vllm/c.py (renamed from vllm/b.py)`"""
    return f"{change.path} ({change.change.value}{f' from {change.source}' if change.source else ''})"
