"""What several values of a file must agree on. Looks at plain data, whatever else is wrong with it."""

from __future__ import annotations

from datetime import date
from typing import TYPE_CHECKING, TypeAlias

from patchkit.model.edge import describe
from patchkit.model.rules import DATE
from patchkit.model.stack import STEP_KINDS
from patchkit.model.yamlfile import Plain, Where

if TYPE_CHECKING:
    from collections.abc import Iterator

Complaint: TypeAlias = tuple[Where, str]

_KINDS = ", ".join(STEP_KINDS)


def get(data: Plain, *where: str) -> Plain:
    """Return the value at `where`, or None where the data has no such place."""
    for key in where:
        data = data.get(key) if isinstance(data, dict) else None
    return data


def text(data: Plain, *where: str) -> str | None:
    """Return the text at `where`, or None where there is none."""
    value = get(data, *where)
    return value if isinstance(value, str) else None


def items(data: Plain, key: str) -> list[Plain]:
    """Return the list under `key`, or an empty one where there is none."""
    value = get(data, key)
    return value if isinstance(value, list) else []


def fill_in(data: Plain) -> None:
    """Give each step without a `type` the one that follows: a backport where it has an upstream."""
    for step in items(data, "steps"):
        if isinstance(step, dict) and "type" not in step and items(step, "upstream"):
            step["type"] = "backport"


def image(data: Plain, file_name: str) -> Iterator[Complaint]:
    """Yield what an image file contradicts itself in; `file_name` is its name without `.yaml`."""
    name = text(data, "name")
    if name is not None and name != file_name:
        yield ("name",), f"expected the name of the file, {file_name}, found {describe(name)}"
    components = get(data, "components")
    for key, component in components.items() if isinstance(components, dict) else ():
        if get(component, "exact") is True and get(component, "release") is None:
            yield ("components", key, "exact"), "true needs a `release` to be exact about"


def stack(data: Plain, folder: str) -> Iterator[Complaint]:
    """Yield what a stack file contradicts itself in; `folder` is the name of the folder it lies in."""
    name = text(data, "image")
    if name is not None and name != folder:
        yield ("image",), f"expected the name of the folder, {folder}, found {describe(name)}"
    if get(data, "governed") is False and get(data, "reason") is None:
        yield ("governed",), "false needs a `reason`: why no waiver is needed"
    first: dict[str, int] = {}
    for at, step in enumerate(items(data, "steps")):
        key = text(step, "id")
        if key is not None and first.setdefault(key, at) != at:
            yield ("steps", at, "id"), f"{describe(key)} is the id of steps[{first[key]}] too"
        for where, complaint in _step(step):
            yield ("steps", at, *where), complaint


def waiver(data: Plain) -> Iterator[Complaint]:
    """Yield what a waiver file contradicts itself in."""
    first: dict[str, int] = {}
    images: list[str] = []
    for at, cover in enumerate(items(data, "covers")):
        if not isinstance(cover, str):
            continue
        if first.setdefault(cover, at) != at:
            yield ("covers", at), f"{describe(cover)} is covers[{first[cover]}] too"
        images.append(cover.partition("/")[0])
        if images[-1] != images[0]:
            yield ("covers", at), f"a waiver covers steps of one image, {images[0]}; found {images[-1]}"
    for key in ("filed", "expires"):
        yield from _date(get(data, key), (key,))
    for at, recipe in enumerate(items(data, "recipes")):
        yield from _date(get(recipe, "merged"), ("recipes", at, "merged"))
    for at, entry in enumerate(items(data, "suppressions")):
        yield from _date(get(entry, "expires"), ("suppressions", at, "expires"))


def _date(value: Plain, where: Where) -> Iterator[Complaint]:
    if isinstance(value, str) and DATE.holds(value):
        try:
            date.fromisoformat(value)
        except ValueError:
            yield where, f"expected a day of the calendar, found {describe(value)}"


def _step(step: Plain) -> Iterator[Complaint]:
    if not isinstance(step, dict):
        return
    kinds = [kind for kind in STEP_KINDS if kind in step]
    if not kinds:
        yield (), f"a step has one of {_KINDS}; found none"
    elif len(kinds) > 1:
        yield (kinds[1],), f"a step has one of {_KINDS}; found {' and '.join(kinds)}"
    upstream = items(step, "upstream")
    if text(step, "type") in {"cherry-pick", "backport"} and not upstream:
        yield ("type",), f"{text(step, 'type')} needs an `upstream`; a step without one is local"
    yield from _removal(step, upstream)
    for question in ("unless", "check"):
        yield from _question(get(step, "run", question), ("run", question))


def _removal(step: Plain, upstream: list[Plain]) -> Iterator[Complaint]:
    when, ref = text(step, "removal", "when"), get(step, "removal", "ref")
    if when not in {"contained", "released"} or ref in upstream:
        return
    where = ("removal", "when") if ref is None else ("removal", "ref")
    wanted = ", ".join(str(each) for each in upstream) or "the step has none: when: manual"
    yield where, f"{when} waits for one of the step's upstream ({wanted}), found {describe(ref)}"


def _question(question: Plain, where: Where) -> Iterator[Complaint]:
    if not isinstance(question, dict):
        return
    path, argv = get(question, "path"), get(question, "argv")
    if (path is None) == (argv is None):
        yield where, f"expected one of path and argv, found {'none' if path is None else 'both'}"
    elif path is None and get(question, "sha256") is not None:
        yield (*where, "sha256"), "goes with path, not with argv"
