"""The only module that knows YAML: UTF-8 text in, plain data with line numbers out.

The schema is restricted on purpose, so that a value means what it looks like: `null`, `~` and
nothing are null, `true` and `false` are truth values, decimal digits are whole numbers, and all
else is text (`6e448d0ea`, `1e5`, `2026-08-11`, `yes`). Anchors, aliases, merge keys, tags, several
documents, keys that are not text and keys written twice are problems, each with its line.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

import yaml

from patchkit.core.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

MAX_BYTES = 1024 * 1024
MAX_DEPTH = 20

Plain: TypeAlias = "bool | int | str | list[Plain] | dict[str, Plain] | None"
Where: TypeAlias = tuple[str | int, ...]

_WORDS: Mapping[str, bool | None] = {"": None, "~": None, "null": None, "true": True, "false": False}
_INTEGER = re.compile(r"-?(?:0|[1-9][0-9]{0,17})")
_DIGITS = re.compile(r"[-+]?[0-9]+")
_CONTROL = re.compile("[\x00-\x08\x0b\x0e-\x1f\x7f-\x84\x86-\x9f\ud800-\udfff\ufffe\uffff]")
_CONTROL_IN_FILE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x84\x86-\x9f\ud800-\udfff\ufffe\uffff]")
_LONG_KEY = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One thing wrong in one place of a file. `line` counts from 1; `where` is the path to the value."""

    line: int
    where: Where
    text: str

    def render(self, name: str) -> str:
        """Return the problem as one line: file, line, path within the file, what is wrong."""
        place = spell(self.where)
        return f"{name}:{self.line}: {place}: {self.text}" if place else f"{name}:{self.line}: {self.text}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """What a YAML file holds.

    `data` is plain data, `lines` has the line of each key and item, `problems` what YAML itself
    objects to. A value under one of the `broken` paths is not what the person meant (an alias, a
    tag): to complain about it again would only be noise.
    """

    name: str
    data: Plain
    lines: Mapping[Where, int]
    problems: tuple[Problem, ...] = ()
    broken: frozenset[Where] = frozenset()

    def line(self, where: Where) -> int:
        """Return the line of the value at `where`, else of the nearest one around it."""
        while where not in self.lines and where:
            where = where[:-1]
        return self.lines.get(where, 1)

    def is_broken(self, where: Where) -> bool:
        """Return whether the value at `where`, or one around it, has been complained about."""
        return any(where[:length] in self.broken for length in range(len(where) + 1))


def spell(where: Where) -> str:
    """Return a path in a document as people write it: `steps[2].patch`."""
    parts = (f"[{part}]" if isinstance(part, int) else f".{shorten(part)}" for part in where)
    return "".join(parts).removeprefix(".")


def shorten(text: str) -> str:
    """Return `text` on one line, cut where it is long, safe to print."""
    text = text if len(text) <= _LONG_KEY else text[: _LONG_KEY - 3] + "..."
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def read(path: Path, name: str) -> Document:
    """Read the YAML file `path`, called `name` in messages.

    Raises ConfigError where the file cannot be read or is no YAML at all; all smaller problems
    are in the document's `problems`.
    """
    try:
        if path.exists() and not path.is_file():
            raise ConfigError(f"{name}: not a regular file")
        with path.open("rb") as stream:
            data = stream.read(MAX_BYTES + 1)
    except OSError as error:
        raise ConfigError(f"{name}: cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise ConfigError(f"{shorten(name)}: cannot be read: not a file name") from error
    return parse(data, name)


def parse(data: bytes, name: str) -> Document:
    """Parse the bytes of a YAML file, called `name` in messages; as `read` does."""
    if len(data) > MAX_BYTES:
        raise ConfigError(f"{name}: larger than {MAX_BYTES // 1024} KiB: no image or stack file is that long")
    text = _decode(data, name)
    builder = _Builder()
    try:
        return builder.document(text, name)
    except _FatalError as error:
        problems = [*builder.problems, error.problem]
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        problems = [*builder.problems, Problem(line=mark.line + 1 if mark else 1, where=(), text=_reword(error))]
    except (yaml.YAMLError, ValueError, OverflowError, IndexError) as error:
        line = builder.last_line
        problems = [*builder.problems, Problem(line=line, where=(), text=f"not YAML after this line: {error}")]
    raise ConfigError(*(problem.render(name) for problem in problems))


@dataclass(frozen=True, slots=True, kw_only=True)
class Scalar:
    """One value of any YAML file. `line` is where its text starts: below the `|` of a block."""

    where: Where
    value: str
    line: int


def scalars(data: bytes) -> Iterator[Scalar]:
    """Yield every value of a YAML file that is somebody else's: several documents, anchors and tags are fine.

    Reads as far as it is YAML, and never raises. Aliases are not followed.
    """
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    stack: list[tuple[str, str | int | None]] = []  # "map", with the key in hand or None; "list", with its index
    try:
        for event in yaml.parse(data.decode("utf-8", "replace"), Loader=loader):
            if isinstance(event, yaml.SequenceEndEvent | yaml.MappingEndEvent):
                stack.pop()
                _next(stack)
            elif isinstance(event, yaml.ScalarEvent):
                if stack and stack[-1][0] == "map" and stack[-1][1] is None:
                    stack[-1] = ("map", event.value)
                    continue
                where = tuple(at for _, at in stack if at is not None)
                line = _line(event) + (1 if getattr(event, "style", None) in ("|", ">") else 0)
                yield Scalar(where=where, value=event.value, line=line)
                _next(stack)
            elif isinstance(event, yaml.SequenceStartEvent):
                stack.append(("list", 0))
            elif isinstance(event, yaml.MappingStartEvent):
                stack.append(("map", None))
            elif isinstance(event, yaml.AliasEvent):
                _next(stack)
    except (yaml.YAMLError, ValueError, RecursionError, IndexError):
        return


def _next(stack: list[tuple[str, str | int | None]]) -> None:
    """The value in hand is complete."""
    if stack:
        kind, at = stack[-1]
        if kind == "list" and isinstance(at, int):
            stack[-1] = (kind, at + 1)
        elif kind == "map":
            stack[-1] = (kind, None if at is not None else "?")


def _decode(data: bytes, name: str) -> str:
    try:
        text = data.decode("utf-8").removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ConfigError(f"{name}:{line}: not UTF-8: byte 0x{data[error.start]:02x}") from error
    bad = _CONTROL_IN_FILE.search(text)
    if bad:
        line = text.count("\n", 0, bad.start()) + 1
        raise ConfigError(f"{name}:{line}: a character that no text holds: U+{ord(bad[0]):04X}")
    return text


def _reword(error: yaml.MarkedYAMLError) -> str:
    problem = error.problem or "unreadable"
    if "\\t" in problem:
        return "a tab where YAML wants spaces"
    return f"not YAML: {problem}" + (f" ({error.context})" if error.context else "")


def _line(event: yaml.Event) -> int:
    return event.start_mark.line + 1 if event.start_mark else 1


class _FatalError(Exception):
    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.text)
        self.problem = problem


@dataclass(slots=True)
class _Builder:
    """Plain data out of the parser's events: aliases are never followed, so nothing can explode."""

    problems: list[Problem] = field(default_factory=list)
    broken: set[Where] = field(default_factory=set)
    lines: dict[Where, int] = field(default_factory=dict)
    last_line: int = 1

    def document(self, text: str, name: str) -> Document:
        events = self._events(text)
        data: Plain = None
        for event in events:
            if isinstance(event, yaml.DocumentEndEvent):
                break
            if isinstance(event, yaml.NodeEvent):
                self.lines[()] = _line(event)
                data = self._node(event, (), events)
        for event in events:
            if isinstance(event, yaml.DocumentStartEvent):
                self._complain(event, (), "a second document starts here: one file holds one")
                break
        problems = tuple(self.problems)
        return Document(name=name, data=data, lines=self.lines, problems=problems, broken=frozenset(self.broken))

    def _events(self, text: str) -> Iterator[yaml.Event]:
        for event in yaml.parse(text, Loader=yaml.SafeLoader):
            self.last_line = _line(event)
            yield event

    def _complain(self, event: yaml.Event, where: Where, text: str, *, broken: bool = False) -> None:
        self.problems.append(Problem(line=_line(event), where=where, text=text))
        if broken:
            self.broken.add(where)

    def _node(self, event: yaml.Event, where: Where, events: Iterator[yaml.Event]) -> Plain:
        if len(where) > MAX_DEPTH:
            text = f"nested more than {MAX_DEPTH} deep"
            raise _FatalError(Problem(line=_line(event), where=where[:2], text=text))
        if isinstance(event, yaml.AliasEvent):
            self._complain(event, where, f"an alias (*{shorten(event.anchor or '')}): write the value out", broken=True)
            return None
        anchor = getattr(event, "anchor", None)
        if anchor is not None:
            self._complain(event, where, f"an anchor (&{shorten(anchor)}): write the value out where it is needed")
        tag = getattr(event, "tag", None)
        if tag is not None:
            text = f"a tag ({shorten(tag)}): write the value without it, in quotes if it is text"
            self._complain(event, where, text, broken=True)
        if isinstance(event, yaml.SequenceStartEvent):
            return self._list(where, events)
        if isinstance(event, yaml.MappingStartEvent):
            return self._mapping(where, events)
        return self._scalar(event, where)

    def _list(self, where: Where, events: Iterator[yaml.Event]) -> Plain:
        items: list[Plain] = []
        for event in events:
            if isinstance(event, yaml.SequenceEndEvent):
                break
            at = (*where, len(items))
            self.lines.setdefault(at, _line(event))
            items.append(self._node(event, at, events))
        return items

    def _mapping(self, where: Where, events: Iterator[yaml.Event]) -> Plain:
        data: dict[str, Plain] = {}
        for event in events:
            if isinstance(event, yaml.MappingEndEvent):
                break
            shown = event.value if isinstance(event, yaml.ScalarEvent) else "?"
            key = self._key(event, (*where, shown), events)
            at = (*where, shown if key is None else key)
            if key in data:
                self._complain(event, at, f"written twice, first in line {self.lines[at]}")
            self.lines.setdefault(at, _line(event))
            following = next(events)
            if key is not None:
                data.setdefault(key, self._node(following, at, events))
            elif not isinstance(following, yaml.AliasEvent):
                self._node(following, at, events)
        return data

    def _key(self, event: yaml.Event, where: Where, events: Iterator[yaml.Event]) -> str | None:
        """Return a mapping's key, or None and a complaint where it is no key that a file may have."""
        before = len(self.problems)
        if not isinstance(event, yaml.ScalarEvent):
            self._complain(event, where, "a key is plain text, not an alias, a list or a mapping")
            if not isinstance(event, yaml.AliasEvent):
                self._node(event, where, events)
            return None
        if event.style is None and event.value == "<<":
            self._complain(event, where, "a merge key: write the values out")
            return None
        key = self._node(event, where, events)
        if len(self.problems) > before:
            return None
        if not isinstance(key, str) or not key:
            found = shorten(event.value) or "nothing"
            self._complain(event, where, f"a key is text, found {found}: put it in quotes")
            return None
        return key

    def _scalar(self, event: yaml.Event, where: Where) -> Plain:
        value: str = getattr(event, "value", "")
        bad = _CONTROL.search(value)
        if bad:
            text = f"a character that no text here holds: U+{ord(bad[0]):04X}"
            self._complain(event, where, text, broken=True)
            return None
        if getattr(event, "style", None) is not None:
            return value
        if value in _WORDS:
            return _WORDS[value]
        if _INTEGER.fullmatch(value):
            return int(value)
        if _DIGITS.fullmatch(value):
            text = f"{shorten(value)} is read in different ways: put it in quotes if it is text"
            self._complain(event, where, text + ", or write a plain decimal number", broken=True)
        return value
