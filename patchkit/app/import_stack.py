"""Writes steps into a stack.yaml: a new file, or new items at the end of an existing one, all else untouched."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from patchkit.core.errors import ConfigError
from patchkit.model import checks, edge, yamlfile
from patchkit.model.stack import Stack

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_PLAIN = re.compile(r"[A-Za-z_./][A-Za-z0-9_./@+=-]*")
_WORDS = frozenset(("null", "true", "false", "yes", "no", "on", "off", "y", "n", "~"))
_WIDTH = 100
_HEADER = """\
# yaml-language-server: $schema=../../docs/schemas/stack.schema.json
# Imported from {script} by `patchkit import`. What is null was not in the script.
image: {image}
version: 1
governed: true
steps:
"""


def new_stack(image: str, script: str, steps: list[dict[str, Any]]) -> str:
    """The text of a new stack.yaml."""
    name = "".join(c for c in script if c.isprintable())
    text = _HEADER.format(script=name, image=image) + "\n".join(_item(step, "  ") for step in steps)
    _agree(text, {"image": image, "version": 1, "governed": True, "steps": steps}, "the new stack.yaml")
    return text


def appended(text: str, steps: list[dict[str, Any]], name: str) -> str:
    """The text of an existing stack.yaml, called `name`, with steps added; comments stay as they are.

    Raises ConfigError where the steps are not written as a list of lines.
    """
    if "\r\n" in text:  # keep the line ends of another world
        return appended(text.replace("\r\n", "\n"), steps, name).replace("\n", "\r\n")
    document = yamlfile.parse(text.encode("utf-8"), name)
    data = document.data
    assert isinstance(data, dict)
    lines = text.split("\n")
    old = checks.items(data, "steps")
    first = document.line(("steps",)) if ("steps",) in document.lines else len(lines)
    if old:
        dash = re.match(r"( *)- ", lines[document.line(("steps", 0)) - 1])
        indent = dash[1] if dash is not None else "  "
    else:
        indent = "  "
        lines[first - 1] = re.sub(r"^steps:\s*(\[\s*\]|null|~)?", "steps:", lines[first - 1])
    later = [line for where, line in document.lines.items() if len(where) == 1 and line > first]
    at = min(later) - 1 if later else len(lines)
    while at > first and (not lines[at - 1].strip() or (later and lines[at - 1].startswith("#"))):
        at -= 1
    block = "\n".join(_item(step, indent) for step in steps).rstrip("\n").split("\n")
    gap = [""] if old and lines[at - 1].strip() else []
    rest = lines[at:]
    result = "\n".join([*lines[:at], *gap, *block, *([""] if later and rest and rest[0].strip() else []), *rest])
    result = result if result.endswith("\n") else result + "\n"
    _agree(result, {**data, "steps": [*old, *steps]}, name)
    return result


def _agree(text: str, wanted: Mapping[str, Any], name: str) -> None:
    """See that the text means what is wanted, and is a stack. Raises ConfigError."""
    hint = "write `steps:` as a list, one `- id: ...` a step, then import again"
    try:
        document = yamlfile.parse(text.encode("utf-8"), name)
    except ConfigError:
        raise ConfigError(f"{name}: steps cannot be added to it as it is written", hint=hint) from None
    if document.data != wanted:
        raise ConfigError(f"{name}: steps cannot be added to it as it is written", hint=hint)
    checks.fill_in(document.data)
    _, problems = edge.validate(Stack, document)
    if problems:
        raise ConfigError(*(problem.render(name) for problem in problems), hint="report this: patchkit wrote it")


def _item(step: Mapping[str, Any], indent: str) -> str:
    """One step as an item of the list, with an empty line behind it."""
    lines = [line for key, value in step.items() for line in _entry(key, value, f"{indent}  ")]
    first = lines[0]
    return "\n".join([f"{indent}- {first.lstrip()}", *lines[1:], ""])


def _entry(key: str, value: Any, indent: str) -> Iterator[str]:
    """`key: value`, on as many lines as it takes."""
    if isinstance(value, dict):
        flow = _flow(value)
        if len(indent) + len(key) + len(flow) < _WIDTH and not any(
            isinstance(v, str) and "\n" in v for v in value.values()
        ):
            yield f"{indent}{key}: {flow}"
            return
        yield f"{indent}{key}:"
        for inner, item in value.items():
            yield from _entry(inner, item, f"{indent}  ")
    elif isinstance(value, str) and "\n" in value:
        yield from _block(key, value, indent)
    else:
        yield f"{indent}{key}: {_flow(value)}"


def _block(key: str, value: str, indent: str) -> Iterator[str]:
    """A text of several lines, as a block where that means the very same text, else in quotes."""
    body = value.rstrip("\n")
    tail = value[len(body) :]
    chomp = "-" if not tail else "" if len(tail) == 1 else "+"
    inner = f"{indent}  "
    lines = [f"{inner}{line}" if line else "" for line in (body + tail[1:]).split("\n")]
    text = "\n".join([f"{indent}{key}: |{len(inner) - len(indent)}{chomp}", *lines])
    if body and _means(f"{text}\n{indent}end: 1\n", indent, key, value):
        yield from text.split("\n")
    else:
        yield f"{indent}{key}: {_quoted(value)}"


def _means(text: str, indent: str, key: str, value: str) -> bool:
    """Whether YAML reads the block as `value`, in the place where it stands."""
    nested = "".join(f"{' ' * depth}k:\n" for depth in range(0, len(indent), 2)) + text
    try:
        data = yamlfile.parse(nested.encode("utf-8"), "a step").data
    except (ConfigError, UnicodeEncodeError):
        return False
    for _ in range(len(indent) // 2):
        data = checks.get(data, "k")
    return checks.get(data, key) == value


def _flow(value: Any) -> str:
    """A value on one line."""
    if value is None or isinstance(value, bool):
        return "null" if value is None else str(value).lower()
    if isinstance(value, int):
        return str(value)
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {_flow(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(_flow(item) for item in value) + "]"
    text = str(value)
    return text if _PLAIN.fullmatch(text) and text.lower() not in _WORDS else _quoted(text)


def _quoted(text: str) -> str:
    """A text in double quotes; what YAML cannot hold as it is, is escaped."""
    short = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\t": "\\t", "\r": "\\r"}
    return '"' + "".join(short.get(c) or (c if c.isprintable() else _escaped(c)) for c in text) + '"'


def _escaped(char: str) -> str:
    code = ord(char)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
