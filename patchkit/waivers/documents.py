"""Rules of documents: each is what is rendered, is named after its pull request, and leaves out no file and no pin."""

from __future__ import annotations

import difflib
import json
import re
from typing import TYPE_CHECKING, Any

from patchkit.waivers.rules import Finding

if TYPE_CHECKING:
    from collections.abc import Iterator

    from patchkit.waivers.subject import Subject, WaiverFacts

_BLOCK = re.compile(r"(?ms)^```json\n(.*?)^```$")
_LONG = 160
_MANY = 8


def check(subject: Subject) -> Iterator[Finding]:
    """What is wrong with the documents, and with the locks that they rest on."""
    for waiver in subject.waivers:
        yield from _name(waiver)
        yield from _lock(subject, waiver)
        if waiver.rendered is None:
            continue
        found = subject.documents.get(waiver.output)
        if found is None:
            message = f"{waiver.output}: there is no such file"
            yield Finding(code="document-missing", path=waiver.path, line=1, subject=waiver.output, message=message)
        elif found != waiver.rendered:
            yield from _uncovered(waiver, found, waiver.rendered)
            yield from _stale(waiver, found, waiver.rendered)
    outputs = {waiver.output for waiver in subject.waivers}
    for path in subject.documents:
        if path not in outputs:
            stem = path.rpartition("/")[2].removesuffix(".md")
            message = f"{path}: there is no waivers/{stem}.yaml"
            yield Finding(code="document-without-waiver", path=path, line=1, subject=path, message=message)


def _name(waiver: WaiverFacts) -> Iterator[Finding]:
    number = waiver.waiver.pull_request
    if number is not None and waiver.stem != str(number):
        yield Finding(
            code="name-differs",
            path=waiver.path,
            line=waiver.line("pull_request"),
            subject=str(number),
            message=f"pull_request: {number}, and the file is {waiver.path}",
            fix=f"rename it to waivers/{number}.yaml, or correct `pull_request`",
        )


def _lock(subject: Subject, waiver: WaiverFacts) -> Iterator[Finding]:
    stack = subject.stack(waiver.waiver.image)
    for sentence in () if stack is None else stack.stale:
        name = "" if stack is None else stack.name
        yield Finding(
            code="lock-stale",
            path=f"patches/{name}/stack.lock.json",
            line=1,
            subject=sentence.partition(":")[0],
            message=sentence,
            fix=f"patchkit lock --image {name}, then: patchkit waiver render",
        )


def block_of(text: str) -> dict[str, Any] | None:
    """The machine-readable part of a document; None where it has none that can be read."""
    blocks = _BLOCK.findall(text)
    try:
        found = json.loads(blocks[-1]) if blocks else None
    except ValueError:
        return None
    return found if isinstance(found, dict) and isinstance(found.get("steps"), dict) else None


def _uncovered(waiver: WaiverFacts, found: str, must: str) -> Iterator[Finding]:
    """Files, hunks and pins that the stack has, and no row of the document."""
    needed = block_of(must)
    there = block_of(found)
    for step_id, step in (needed or {"steps": {}})["steps"].items():
        listed = _listed(there, step_id)
        for path, facts in step["files"].items():
            gap = _file_gap(path, facts, listed, found)
            if gap is not None:
                message = f"step {step_id}: {gap}"
                yield Finding(
                    code="file-uncovered", path=waiver.output, line=1, step=step_id, subject=path, message=message
                )
        for pin in step["pins"]:
            if pin not in (found if listed is None else listed.get("pins", [])):
                message = f"step {step_id}: it installs {pin} over the image, and the document has no row for that"
                yield Finding(
                    code="pin-undeclared", path=waiver.output, line=1, step=step_id, subject=pin, message=message
                )


def _listed(block: dict[str, Any] | None, step_id: str) -> dict[str, Any] | None:
    """What a document's block says of a step; None where it has no block: then its text is searched."""
    if block is None:
        return None
    step = block["steps"].get(step_id)
    return step if isinstance(step, dict) else {}


def _file_gap(path: str, facts: dict[str, Any], listed: dict[str, Any] | None, text: str) -> str | None:
    missing = f"{path} is changed, and the document has no row for that"
    if listed is None:
        return None if path.partition(" (")[0] in text else missing
    files = listed.get("files")
    row = files.get(path) if isinstance(files, dict) else None
    if not isinstance(row, dict):
        return missing
    hunks, told = facts.get("hunks"), row.get("hunks")
    return None if hunks == told else f"{path} is changed in {hunks} hunks, and the document tells of {told}"


def _stale(waiver: WaiverFacts, found: str, must: str) -> Iterator[Finding]:
    line, differences = _lines(found, must)
    block, needed = block_of(found), block_of(must)
    if block is not None and needed is not None:
        differences = [*_facts(block, needed), *differences]
    shown = differences[:_MANY]
    if len(differences) > _MANY:
        shown.append(f"and {len(differences) - _MANY} more differences")
    message = f"it is not what is rendered from {waiver.path}: " + "; ".join(shown)
    yield Finding(code="document-stale", path=waiver.output, line=line, subject=waiver.stem, message=message)


def _lines(found: str, must: str) -> tuple[int, list[str]]:
    """The first line that differs, and each difference as a sentence."""
    old, new = found.splitlines(), must.splitlines()
    sentences = []
    first = None
    for kind, i1, i2, j1, j2 in difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if kind == "equal":
            continue
        first = i1 + 1 if first is None else first
        sentences += [f"line {at + 1} must not be there: {_cut(old[at])}" for at in range(i1, i2) if old[at]]
        sentences += [f"it lacks: {_cut(new[at])}" for at in range(j1, j2) if new[at]]
    return first or 1, sentences or ["its blank lines or line ends differ"]


def _cut(line: str) -> str:
    return line if len(line) <= _LONG else line[: _LONG - 3] + "..."


def _facts(found: dict[str, Any], must: dict[str, Any]) -> Iterator[str]:
    """What the two blocks say differently, one sentence a fact."""
    old, new = dict(_flat(found, "")), dict(_flat(must, ""))
    for key in [*new, *(key for key in old if key not in new)]:
        if key not in old:
            yield f"it lacks {key} {new[key]}".rstrip()
        elif key not in new:
            yield f"it has {key} {old[key]}".rstrip() + ", which is not so"
        elif old[key] != new[key]:
            yield f"{key} is {new[key]}, the document says {old[key]}"


def _flat(value: Any, where: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _flat(inner, f"{where}.{key}" if where else str(key))
    elif isinstance(value, list):
        for item in value:
            yield f"{where} {item}", ""
    else:
        yield where, "null" if value is None else str(value)
