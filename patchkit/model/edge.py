"""The edge: pydantic turns plain data into the frozen types, and every complaint into our own words."""

from __future__ import annotations

import dataclasses
import difflib
import json
import typing
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import TypeAdapter, ValidationError

from patchkit.model import rules
from patchkit.model.yamlfile import Document, Plain, Problem, Where, shorten

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pydantic_core import ErrorDetails

T = TypeVar("T")

_UNKNOWN_KEY = "unknown key"
_EXPECTED = {
    "string_type": "a string",
    "int_type": "a whole number",
    "bool_type": "true or false",
    "tuple_type": "a list",
    "dict_type": "a mapping",
    "dataclass_type": "a mapping",
    "too_short": "a list with at least one item",
}


_ADAPTERS: dict[type[object], TypeAdapter[Any]] = {}


def _adapter(kind: type[object]) -> TypeAdapter[Any]:
    if kind not in _ADAPTERS:
        _ADAPTERS[kind] = TypeAdapter(kind)
    return _ADAPTERS[kind]


def json_schema(kind: type[object]) -> dict[str, Any]:
    """Return the JSON schema of one of the model's types."""
    return _adapter(kind).json_schema()


def validate(kind: type[T], document: Document) -> tuple[T | None, list[Problem]]:
    """Turn a document into a `kind`.

    Returns the value and no problems, or None and every problem found (an empty list where all
    that is wrong has been reported by the document itself).
    """
    try:
        value: T = _adapter(kind).validate_json(json.dumps(document.data))
    except ValidationError as error:
        details = error.errors(include_url=False)
    else:
        return value, []
    found = ((_where(detail), detail) for detail in details)
    return None, [
        Problem(line=document.line(where), where=where, text=_words(kind, detail))
        for where, detail in found
        if not document.is_broken(where) and not _is_echo(detail)
    ]


def is_unknown_key(problem: Problem) -> bool:
    """Return whether a problem is no more than a key that the types do not have."""
    return problem.text.startswith(_UNKNOWN_KEY)


def describe(value: Plain) -> str:
    """Return how a message shows a value that was found."""
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, str):
        return json.dumps(shorten(value), ensure_ascii=False).replace("\\\\", "\\")
    return "a list" if isinstance(value, list) else "a mapping"


def _where(detail: ErrorDetails) -> Where:
    """Return a path as the file has it, without the labels of choices and pydantic's mark for a key."""
    loc = detail["loc"]
    if loc[-1:] == ("[key]",) and detail["type"] != "unexpected_keyword_argument":
        loc = loc[:-1]
    return tuple(part for part in loc if not _is_label(part))


def _is_echo(detail: ErrorDetails) -> bool:
    """Return whether a list is called too short only because its items are wrong."""
    return detail["type"] == "too_short" and bool(detail["input"])


def _is_label(part: int | str) -> bool:
    return isinstance(part, str) and part.startswith(rules.LABEL)


def _words(kind: type[object], detail: ErrorDetails) -> str:
    error, value, context = detail["type"], detail["input"], detail.get("ctx", {})
    if error == "missing":
        return "required, but not there"
    if error == "unexpected_keyword_argument":
        return _unknown_key(kind, detail["loc"])
    if error == rules.PROBLEM:
        return f"expected {context['words']}, found {describe(value)}"
    if error == "literal_error":
        expected = context["expected"].replace("'", "")
    elif error == "greater_than_equal":
        expected = f"a whole number, {context['ge']} or more"
    else:
        expected = _EXPECTED.get(error, "something else")
    found = "an empty list" if error == "too_short" else describe(value)
    quotes = ": write it in quotes" if error == "string_type" and isinstance(value, bool | int) else ""
    return f"expected {expected}, found {found}{quotes}"


def _unknown_key(kind: type[object], loc: tuple[int | str, ...]) -> str:
    allowed = sorted(_keys_at(kind, loc[:-1]))
    close = difflib.get_close_matches(str(loc[-1]), allowed, n=1)
    guess = f" (did you mean {close[0]}?)" if close else ""
    return f"{_UNKNOWN_KEY}{guess}; allowed here: {', '.join(allowed)}"


def _keys_at(kind: type[object], loc: tuple[int | str, ...]) -> set[str]:
    """Return the keys that a mapping at `loc` may have, by walking the types."""
    kinds = set(_dataclasses_in(kind))
    for part in loc:
        if _is_label(part):
            kinds = {each for each in kinds if rules.label(each) == part} or kinds
            continue
        hints = [typing.get_type_hints(each, include_extras=True) for each in kinds]
        inner = [hint[name] for hint in hints for name in (part, f"{part}_") if name in hint]
        kinds = {each for hint in inner for each in _dataclasses_in(hint)} if inner else kinds
    return {field.name.rstrip("_") for each in kinds for field in dataclasses.fields(each)}


def _dataclasses_in(hint: Any) -> Iterator[type[Any]]:
    if isinstance(hint, type) and dataclasses.is_dataclass(hint):
        yield hint
    for argument in typing.get_args(hint):
        yield from _dataclasses_in(argument)
