"""What an import says: the same facts as lines for people and as one JSON object."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from patchkit.app.import_types import places
from patchkit.core.errors import FindingError
from patchkit.core.report import errors_json
from patchkit.core.verdicts import Outcome

if TYPE_CHECKING:
    from collections.abc import Iterator

    from patchkit.app.import_script import Plan
    from patchkit.app.import_types import Finding

_HEADS = {
    Outcome.APPLIED: "imported",
    Outcome.PLANNED: "would be imported (dry run, nothing was written)",
    Outcome.UNCHANGED: "nothing to import",
}


def outcome(plan: Plan, *, dry_run: bool) -> Outcome:
    """What the run did, in one word."""
    if not plan.steps:
        return Outcome.UNCHANGED
    return Outcome.PLANNED if dry_run else Outcome.APPLIED


def error(plan: Plan, *, dry_run: bool) -> FindingError | None:
    """The error of an import that leaves something to a person; None where everything was translated."""
    count = len(plan.findings)
    if not count:
        return None
    places = "1 place needs" if count == 1 else f"{count} places need"
    rest = "nothing was written" if dry_run or not plan.steps else "the rest was written"
    return FindingError(
        f"{plan.script}: {places} a person; {rest}", hint="each is named above with its line and what to do"
    )


def to_json(plan: Plan, *, dry_run: bool) -> dict[str, Any]:
    """The import as the JSON object of the contract."""
    steps = [
        {
            "id": step.id,
            "kind": step.kind,
            "file": step.file,
            "lines": list(step.lines),
            "paths": list(step.paths),
            "unresolved": _has_null(step.data),
        }
        for step in plan.steps
    ]
    return {
        "command": "import",
        "image": plan.image,
        "stack": None,
        "target": None,
        "stand_in": False,
        "outcome": outcome(plan, dry_run=dry_run).value,
        "script": plan.script,
        "steps": steps,
        "version": {"now": plan.version, "proposed": plan.proposed},
        "written": [] if dry_run else list(plan.files),
        "files": [{"path": path, "content": _text(data)} for path, data in plan.files.items()] if dry_run else [],
        "findings": [_finding(plan, finding) for finding in plan.findings],
        "dropped": [{"line": d.line, "what": d.what, "why": d.why} for d in plan.dropped],
        "notes": list(plan.notes),
        "errors": errors_json(error(plan, dry_run=dry_run)),
    }


def _finding(plan: Plan, finding: Finding) -> dict[str, Any]:
    return {
        "code": finding.code,
        "path": plan.script,
        "line": finding.line,
        "called_from": list(finding.calls),
        "message": finding.message,
        "fix": finding.fix,
    }


def _has_null(value: Any) -> bool:
    """Whether a fact is missing anywhere in a step."""
    if isinstance(value, dict):
        return any(_has_null(item) for item in value.values())
    return any(_has_null(item) for item in value) if isinstance(value, list) else value is None


def _text(data: bytes) -> str:
    return data.decode("utf-8", "backslashreplace")


def lines(plan: Plan, *, dry_run: bool) -> Iterator[str]:
    """The import as plain text: steps, what needs a person, what was left behind and why."""
    count = len(plan.steps)
    head = _HEADS[outcome(plan, dry_run=dry_run)]
    yield f"import {plan.image}: {head}, {count} step{'' if count == 1 else 's'} from {plan.script}"
    width = max((len(step.id) for step in plan.steps), default=0)
    for step in plan.steps:
        missing = "  (unresolved)" if _has_null(step.data) else ""
        what = ", ".join(step.paths) or ", ".join(_names(step.data))
        yield f"  {step.id:<{width}}  {step.kind:<7}  {places(step.lines)}: {what}{missing}".rstrip()
    for path in plan.files:
        yield f"{'would write' if dry_run else 'wrote'}: {path}"
    if dry_run and plan.stack_file in plan.files:
        yield from _text(plan.files[plan.stack_file]).rstrip("\n").split("\n")
    for finding in plan.findings:
        calls = f" (called from {places(finding.calls)})" if finding.calls else ""
        yield f"not translated: {plan.script}:{finding.line}: {finding.message}{calls}"
        yield f"    {finding.fix}"
    yield from _dropped(plan)
    for note in plan.notes:
        yield f"note: {note}"


def _names(data: Any) -> list[str]:
    pip = data.get("pip")
    if not isinstance(pip, dict):
        return [str(name) for name in data.get("upstream", ())]
    return [item if isinstance(item, str) else item["name"] for item in pip["requirements"]]


def _dropped(plan: Plan) -> Iterator[str]:
    """What was left behind, one line a kind."""
    groups: dict[tuple[str, str], list[int]] = {}
    for dropped in plan.dropped:
        groups.setdefault((dropped.what, dropped.why), []).append(dropped.line)
    for (what, why), found in groups.items():
        yield f"dropped: {places(found)}: {what}: {why}"
