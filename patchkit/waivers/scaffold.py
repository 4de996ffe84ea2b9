"""The scaffold of a waiver: all that can be derived is filled in, what a person must state is marked."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from patchkit.model.waiver import GAP

if TYPE_CHECKING:
    from collections.abc import Iterator

    from patchkit.model.stack import Step
    from patchkit.waivers.subject import StackFacts


def scaffold(
    *, pull_request: int, stack: StackFacts, steps: tuple[Step, ...], repository: str | None, filed: str
) -> str:
    """The text of `waivers/PR.yaml` for these steps. `repository` is None where the project does not tell it."""
    return "\n".join(_lines(pull_request, stack, steps, repository, filed)) + "\n"


def _lines(
    pull_request: int, stack: StackFacts, steps: tuple[Step, ...], repository: str | None, filed: str
) -> Iterator[str]:
    yield "# yaml-language-server: $schema=../docs/schemas/waiver.schema.json"
    yield f"# What is null or says {GAP} is for a person to state; `patchkit waiver check` names what is left."
    yield f"repository: {repository or 'null'} # of the benchmark: owner/repo"
    yield f"pull_request: {pull_request}"
    yield f"model: {_gap('the model that the benchmark serves, owner/name')}"
    yield f"owner: {_gap('who answers for this waiver')}"
    yield f"filed: {filed}"
    yield "expires: null # the day after which nobody may rely on it"
    yield f"entrypoint: {_gap('what applies the stack, and where')}"
    yield ""
    yield "config:"
    yield f"  - entry: {_gap('the config entry that runs this image')}"
    yield f"    file: {_gap('the file that holds the entry')}"
    yield f"    script: {_gap('the script that it runs')}"
    yield "    values: {} # the declared variables, in quotes; no text may contradict them"
    yield ""
    yield "covers:"
    yield from (f"  - {stack.name}/{step.id}" for step in steps)
    yield ""
    yield "why:"
    for subject, ids in _groups(steps):
        yield f"  - symptom: {_gap(f'what fails on the unmodified image without {subject}')}"
        yield f"    steps: [{', '.join(ids)}]"
    yield ""
    local = [step.id for step in steps if not step.upstream]
    yield "no_upstream:" if local else "no_upstream: []"
    for step_id in local:
        yield f"  - steps: [{step_id}]"
        yield f"    because: {_gap('why there is no upstream pull request or issue to link')}"
    yield ""
    yield "removal:"
    yield f"  plan: {_gap('with which image or release the whole stack is retired, and by whom')}"
    yield ""
    yield "recipes: [] # {link: https://..., model: ..., merged: DAY}, of this model, and merged"


def _gap(what: str) -> str:
    return json.dumps(f"{GAP}: {what}", ensure_ascii=False)


def _groups(steps: tuple[Step, ...]) -> Iterator[tuple[str, list[str]]]:
    """The steps by their first pull request; a step without one stands alone."""
    groups: dict[str, list[str]] = {}
    for step in steps:
        groups.setdefault(step.upstream[0] if step.upstream else f"step {step.id}", []).append(step.id)
    yield from groups.items()
