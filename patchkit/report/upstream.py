"""The outlook of stacks for people and programs: the table of `status`, its Markdown and its JSON.

The table says everything without colour and fits 100 columns; the reason stands under its row.
"""

from __future__ import annotations

import re
import textwrap
from typing import TYPE_CHECKING, Any

from patchkit.core.report import errors_json, head_line, several_json, to_json
from patchkit.upstream.actions import Action

if TYPE_CHECKING:
    from collections.abc import Iterator

    from patchkit.core.errors import PatchkitError
    from patchkit.upstream.actions import Known
    from patchkit.upstream.facts import Evidence, Ref
    from patchkit.upstream.outlook import StackOutlook, StepOutlook

WIDTH = 100
_HEADINGS = ("step", "upstream", "state", "landed as", "in image", "on disk", "what to do")
_GAP = "  "
#: What each column may take; the row is at most WIDTH with the indent and the gaps. The step takes what is left.
_WIDEST = (WIDTH, 19, 11, 9, 8, 10, 10)
_SHORT = 8
_REFERENCE = re.compile(r"([\w./-]+/[\w.-]+#[0-9]+)")
_MARKUP = re.compile(r"[\\|*_`<>\[\]~]")
_STYLES = {
    Action.KEEP: "green",
    Action.LOCAL: "green",
    Action.DROP: "cyan",
    Action.BUMP: "cyan",
    Action.REFRESH: "yellow",
    Action.REVIEW: "red",
}

#: A line and its style name for a terminal ("" for none).
Line = tuple[str, str]


def table(stack: StackOutlook) -> list[Line]:
    """The stack as lines of at most WIDTH columns, where its names let it."""
    head = head_line(stack.report).split("\n")
    lines: list[Line] = [
        (line, "bold") for part in head for line in _wrapped(part.lstrip(), indent=2 * (part[:1] == " "))
    ]
    lines += [(line, "") for line in _wrapped(f"upstream: {stack.basis}", indent=2)]
    rows = [_rows(outlook) for outlook in stack.steps]
    widths = [
        min(max(map(len, column)), widest)
        for column, widest in zip(
            zip(_HEADINGS, *(row for group in rows for row in group), strict=True), _WIDEST, strict=True
        )
    ]
    widths[0] = min(widths[0], WIDTH - 2 - sum(widths[1:]) - len(_GAP) * (len(widths) - 1))
    lines.append((_row(_HEADINGS, widths), "bold"))
    for outlook, group in zip(stack.steps, rows, strict=True):
        style = _STYLES[outlook.advice.action]
        lines += [(_row(row, widths), style if number == 0 else "") for number, row in enumerate(group)]
        lines += [(line, "") for line in _wrapped(outlook.advice.why)]
        lines += [(line, "") for detail in outlook.step.detail for line in _wrapped(detail)]
    return [*lines, *((line, "yellow") for note in stack.report.notes for line in _wrapped(f"note: {note}", indent=0))]


def _rows(outlook: StepOutlook) -> list[tuple[str, ...]]:
    """One row for each pull request of the step; what is the step's own stands in the first."""
    on_disk = "-" if outlook.step.verdict is None else outlook.step.verdict.value
    known = outlook.known
    first = _upstream_cells(known[0]) if known else ("-", "-", "-")
    in_image = _yes_no(outlook.advice.in_image)
    head = (outlook.step.id, *first, in_image, on_disk, outlook.advice.action.value)
    return [head, *(("", *_upstream_cells(other), "", "", "") for other in known[1:])]


def _upstream_cells(known: Known) -> tuple[str, str, str]:
    fate = known.fate
    state = f"{fate.state.value}{'?' if known.trouble else ''}"
    return _brief(fate.ref), state, fate.landed_as[:_SHORT] if fate.landed_as else "-"


def _brief(ref: Ref) -> str:
    """`aiter#4494`: the reason under the row names the pull request in full."""
    return f"{ref.repo.partition('/')[2]}#{ref.number}"


def _yes_no(value: bool | None) -> str:
    return "?" if value is None else "yes" if value else "no"


def _row(cells: tuple[str, ...], widths: list[int]) -> str:
    """The cells in their columns; one that is too long pushes the rest onto a line of their own."""
    text = ""
    at = 2
    for cell, width in zip(cells, widths, strict=True):
        if len(text) > at:
            text += "\n"
        last = text.rpartition("\n")[2]
        text += " " * (at - len(last)) + cell
        at += width + len(_GAP)
    return text.rstrip()


def _wrapped(text: str, *, indent: int = 6) -> list[str]:
    margin = " " * indent
    return textwrap.wrap(
        text, WIDTH, initial_indent=margin, subsequent_indent=margin + "  ", break_long_words=False,
        break_on_hyphens=False,
    )  # fmt: skip


def markdown(stacks: tuple[StackOutlook, ...]) -> str:
    """The stacks as Markdown, for a comment on a pull request."""
    return "\n".join(line for stack in stacks for line in _markdown(stack)) + "\n"


def _markdown(stack: StackOutlook) -> Iterator[str]:
    report = stack.report
    if report.error is not None and not stack.steps:
        yield f"### `{report.image}`"
        yield ""
        yield from (f"- {_escaped(problem)}" for problem in report.error.problems)
        yield ""
        return
    yield f"### `{report.image}`, stack version {report.version}"
    yield ""
    yield f"Upstream: {_escaped(stack.basis)}."
    yield ""
    yield "| step | upstream | state | landed as | in this image? | on disk | what to do | why |"
    yield "|---|---|---|---|---|---|---|---|"
    for outlook in stack.steps:
        on_disk = "-" if outlook.step.verdict is None else outlook.step.verdict.value
        refs = "<br>".join(f"`{known.fate.ref}`" for known in outlook.known) or "-"
        states = "<br>".join(f"{k.fate.state.value}{'?' if k.trouble else ''}" for k in outlook.known) or "-"
        landed = "<br>".join(f"`{k.fate.landed_as[:12]}`" if k.fate.landed_as else "-" for k in outlook.known) or "-"
        cells = (
            f"`{outlook.step.id}`", refs, states, landed, _yes_no(outlook.advice.in_image), on_disk,
            f"**{outlook.advice.action.value}**", _escaped(outlook.advice.why),
        )  # fmt: skip
        yield f"| {' | '.join(cells)} |"
    yield ""
    for note in report.notes:
        yield f"- {_escaped(note)}"
    if report.notes:
        yield ""


def _escaped(text: str) -> str:
    """`text` as one table cell that Markdown shows as it is written. Pull requests stand as code: a code host would
    link them, and tell each of them that it was mentioned here."""
    parts = _REFERENCE.split(text.replace("\n", " "))
    return "".join(f"`{part}`" if number % 2 else _MARKUP.sub(r"\\\g<0>", part) for number, part in enumerate(parts))


def stack_json(stack: StackOutlook, error: PatchkitError | None = None) -> dict[str, Any]:
    """The stack as the JSON object of the contract (design.md, JSON: status); docs/schemas/output.schema.json."""
    document = to_json(stack.report)
    steps = [
        {**on_disk, **_step_json(outlook)} for on_disk, outlook in zip(document["steps"], stack.steps, strict=True)
    ]
    return {**document, "basis": stack.basis, "steps": steps, "errors": [*document["errors"], *_errors(error)]}


def stacks_json(stacks: tuple[StackOutlook, ...], error: PatchkitError | None = None) -> dict[str, Any]:
    """Several stacks as one JSON object: `images` holds one object each."""
    document = several_json("status", [stack.report for stack in stacks])
    images = [stack_json(stack) if stack.steps else to_json(stack.report) for stack in stacks]
    return {**document, "images": images, "errors": [*document["errors"], *_errors(error)]}


def _errors(error: PatchkitError | None) -> list[dict[str, str]]:
    return [] if error is None else errors_json(error)


def _step_json(outlook: StepOutlook) -> dict[str, Any]:
    plan, advice = outlook.plan, outlook.advice
    return {
        "detail": "\n".join(outlook.step.detail),
        "in_image": advice.in_image,
        "action": advice.action.value,
        "why": advice.why,
        "removal": None
        if plan is None
        else {
            "when": plan.when,
            "ref": None if plan.ref is None else str(plan.ref),
            "impossible": advice.impossible,
        },
        "upstream": [_pull_json(known) for known in outlook.known],
    }


def _pull_json(known: Known) -> dict[str, Any]:
    fate = known.fate
    return {
        "ref": str(fate.ref),
        "title": fate.title or None,
        "state": fate.state.value,
        "head": fate.head,
        "landed_as": fate.landed_as,
        "landed_at": fate.landed_at,
        "reverted_by": None if fate.reverted_by is None else str(fate.reverted_by),
        "reverted_as": fate.reverted_as,
        "superseded_by": None if fate.superseded_by is None else str(fate.superseded_by),
        "first_release": fate.first_release,
        "first_image": known.first_image,
        "in_image": known.containment.in_image,
        "how": known.containment.how,
        "as_of": fate.as_of,
        "trouble": known.trouble,
        "evidence": [_evidence_json(item) for item in (*fate.evidence, *known.containment.evidence)],
    }


def _evidence_json(evidence: Evidence) -> dict[str, Any]:
    return {
        "question": evidence.question,
        "found": evidence.found.value,
        "detail": evidence.detail,
        "commit": evidence.commit,
    }
