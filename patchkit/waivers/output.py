"""The findings of `waiver check` in every form: lines, JSON, SARIF for code hosts, annotations of GitHub Actions."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any

from patchkit.core.report import errors_json
from patchkit.core.verdicts import Outcome
from patchkit.waivers.rules import RULES, Finding, rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from patchkit.waivers.check import Result


def lines(result: Result) -> Iterator[tuple[str, str]]:
    """The result as lines, each with its style on a terminal."""
    for finding in result.findings:
        style = "yellow" if rule(finding.code).warning else "red"
        yield f"{finding.path}:{finding.line}: {finding.code}: {finding.message}", style
        yield f"    fix: {finding.remedy}", ""
    for sentence in result.covered:
        yield sentence, ""
    for exempt in result.exempt:
        yield f"{exempt.image} is exempt from waivers (governed: false): {exempt.reason}", ""
    for note in notes(result):
        yield f"note: {note}", ""
    if not result.findings:
        yield "waiver check: no findings", "green"


def notes(result: Result) -> tuple[str, ...]:
    """What a person should know besides."""
    number = len(result.suppressed)
    return (*result.notes, *([f"{number} suppressed by the baseline"] if number else []))


def to_json(result: Result) -> dict[str, Any]:
    """The result as the JSON object of the contract (design.md, JSON)."""
    return {
        "command": "waiver check",
        "image": None,
        "stack": None,
        "target": None,
        "stand_in": False,
        "outcome": (Outcome.REFUSED if result.findings else Outcome.CLEAN).value,
        "findings": [finding_json(finding) for finding in result.findings],
        "suppressed": [finding_json(finding) for finding in result.suppressed],
        "exempt": [{"image": each.image, "reason": each.reason} for each in result.exempt],
        "notes": list(notes(result)),
        "errors": errors_json(result.error),
    }


def finding_json(finding: Finding) -> dict[str, Any]:
    """One finding; `subject` names the very thing, for baselines."""
    return {
        "code": finding.code,
        "path": finding.path,
        "line": finding.line,
        "step": finding.step,
        "subject": finding.subject,
        "message": finding.message,
        "fix": finding.remedy,
    }


def sarif(result: Result, version: str) -> str:
    """The findings as SARIF 2.1.0, suppressed ones marked as such; ends in a newline."""
    codes = [each.code for each in RULES]
    results = [
        {
            "ruleId": finding.code,
            "ruleIndex": codes.index(finding.code),
            "level": _level(finding),
            "message": {"text": f"{finding.message}. To mend it: {finding.remedy}"},
            "locations": [
                {
                    "physicalLocation": {
                        "artifactLocation": {"uri": finding.path, "uriBaseId": "%SRCROOT%"},
                        "region": {"startLine": finding.line},
                    }
                }
            ],
            "partialFingerprints": {"patchkit/v1": _fingerprint(finding)},
            **({"suppressions": [{"kind": "external"}]} if suppressed else {}),
        }
        for suppressed, each in ((False, result.findings), (True, result.suppressed))
        for finding in each
    ]
    rules = [
        {
            "id": each.code,
            "shortDescription": {"text": each.meaning},
            "help": {"text": f"Example: {each.example}\nTo mend it: {each.fix}"},
            "defaultConfiguration": {"level": "warning" if each.warning else "error"},
        }
        for each in RULES
    ]
    document = {
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [
            {
                "tool": {"driver": {"name": "patchkit waiver check", "version": version, "rules": rules}},
                "columnKind": "unicodeCodePoints",
                "results": results,
            }
        ],
    }
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


def _level(finding: Finding) -> str:
    return "warning" if rule(finding.code).warning else "error"


def _fingerprint(finding: Finding) -> str:
    return hashlib.sha256("\0".join(finding.key).encode("utf-8", "backslashreplace")).hexdigest()


def github(result: Result) -> Iterator[str]:
    """The findings as workflow commands of GitHub Actions, one line each."""
    for finding in result.findings:
        place = f"file={_property(finding.path)},line={finding.line},title={_property(finding.code)}"
        yield f"::{_level(finding)} {place}::{_data(f'{finding.message}. To mend it: {finding.remedy}')}"
    for exempt in result.exempt:
        yield f"::notice title=exempt from waivers::{_data(f'{exempt.image}: {exempt.reason}')}"
    for note in notes(result):
        yield f"::notice::{_data(note)}"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")


def baseline(findings: tuple[Finding, ...], reason: str, until: str) -> str:
    """The text of a baseline that accepts these findings until a day."""
    head = (
        "# yaml-language-server: $schema=../docs/schemas/baseline.schema.json\n"
        "# Findings that `patchkit waiver check` does not fail on; each needs its reason and an end.\n"
    )
    if not findings:
        return f"{head}suppressions: []\n"
    entries = []
    for finding in findings:
        keys = [("code", finding.code), ("path", finding.path), ("step", finding.step), ("subject", finding.subject)]
        keys += [("reason", reason), ("expires", until)]
        pairs = [f"{key}: {json.dumps(value, ensure_ascii=False)}" for key, value in keys if value is not None]
        entries.append("  - " + "\n    ".join(pairs) + "\n")
    return f"{head}suppressions:\n" + "".join(entries)
