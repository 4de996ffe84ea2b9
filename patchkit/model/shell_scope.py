"""What a shell knows at one point of a script: variables, directory, files written; and the builtins that change it."""

from __future__ import annotations

import fnmatch
import posixpath
import re
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal

from patchkit.model.shell_types import Content, Word, absolute
from patchkit.model.shell_words import Text, Unknown, Value

if TYPE_CHECKING:
    from collections.abc import Mapping

    from patchkit.model.shell_types import Command

Ended = Literal["", "return", "exit", "break"]
ENDS: Mapping[str, Ended] = {"exit": "exit", "return": "return", "break": "break"}


@dataclass(slots=True)
class State:
    """What holds at one point. Copied for a subshell and for each branch."""

    variables: dict[str, Value] = field(default_factory=dict)
    exported: set[str] = field(default_factory=set)
    cwd: str | None = None
    before: str | None = None
    stack: tuple[str | None, ...] = ()
    files: Mapping[str, Content] = field(default_factory=lambda: MappingProxyType({}))
    parameters: tuple[Text, ...] | None = None
    zero: Text | None = None
    stdin: Content | None = None
    ended: Ended = ""

    def copy(self) -> State:
        """A state that can change on its own."""
        return replace(self, variables=dict(self.variables), exported=set(self.exported))

    def write(self, changes: Mapping[str, Content | None]) -> None:
        """Files written, or removed (None)."""
        if changes:
            files = {**self.files, **{path: content for path, content in changes.items() if content is not None}}
            for path, content in changes.items():
                if content is None:
                    files.pop(path, None)
            self.files = MappingProxyType(files)

    def become(self, *others: State) -> None:
        """Be what one of `others` is, nobody knows which: what they agree on stays, the rest is unknown."""
        first = others[0]
        names = {name for state in others for name in state.variables}
        self.variables = {name: _merged([state.variables.get(name) for state in others]) for name in names}
        self.exported = {name for state in others for name in state.exported}
        self.cwd = first.cwd if all(state.cwd == first.cwd for state in others) else None
        self.before, self.stack, self.stdin, self.parameters = first.before, first.stack, first.stdin, first.parameters
        self.ended = first.ended if all(state.ended == first.ended for state in others) else ""
        files: dict[str, Content] = {}
        for state in others:
            for path, content in state.files.items():
                same = files.setdefault(path, content) == content
                files[path] = content if same else Content(text=None, why="its content differs by branch")
        self.files = MappingProxyType(files)


def _merged(values: list[Value | None]) -> Value:
    """One of `values`: a text that all agree on. A variable that one branch alone sets has that value: this
    is how scripts write a default."""
    known = [value for value in values if value is not None and not (isinstance(value, Unknown) and value.unset)]
    if known and all(value == known[0] for value in known):
        return known[0]
    return Unknown("its value differs by branch") if known else Unknown("no line of the script sets it", unset=True)


def lookup(state: State, name: str, given: Mapping[str, str]) -> Value:
    """The value of a variable; `given` stands in for what the script does not fix."""
    value = state.variables.get(name)
    if name == "PWD" and value is None and state.cwd is not None:
        return state.cwd
    if (value is None or isinstance(value, Unknown)) and name in given:
        return given[name]
    if value is None:
        return Unknown(f"{name} is set by no line of the script", unset=True)
    if isinstance(value, Unknown) and not value.why.startswith(name):
        return Unknown(f"{name}: {value.why}", unset=value.unset)
    return value


def positional(state: State, name: str, script: str) -> Value:
    """`$0`, `$1`, `$@`, `$#` and the other special parameters."""
    parameters = state.parameters
    if name == "0":
        return script if state.zero is None else state.zero
    if name in ("@", "*") and parameters is not None:
        return parameters
    if name == "#" and parameters is not None:
        return str(len(parameters))
    if name.isdigit() and parameters is not None:
        return parameters[int(name) - 1] if int(name) <= len(parameters) else ""
    if name.isdigit() or name in ("@", "*", "#"):
        return Unknown(f"${name} is given by whoever runs the script", unset=name.isdigit())
    return Unknown(f"${name} is known only while the script runs")


def change_folder(state: State, command: Command) -> str:
    """`cd`, `pushd` and `popd`; return what the builtin prints."""
    words = [word for word in command.argv[1:] if word.text is None or not re.fullmatch(r"-[LPe]+|--", word.text)]
    old = state.cwd
    if command.program == "popd":
        state.cwd, state.stack = (state.stack[0], state.stack[1:]) if state.stack else (None, ())
    elif not words or words[0].text is None:
        state.cwd = None
    elif words[0].text == "-":
        state.cwd = state.before
    else:
        state.cwd = absolute(state.cwd, words[0].text)
    if command.program == "pushd":
        state.stack = (old, *state.stack)
    state.before = old
    return ""


def read_variables(state: State, command: Command) -> None:
    """`read [-r] [-d ''] NAME...` from an input that is known; elsewhere the variables become unknown."""
    words = list(command.argv[1:])
    whole, names = False, list[str]()
    while words:
        text = words.pop(0).text or ""
        if text in ("-d", "-p", "-t", "-n", "-u", "-a", "-rd") and words:
            value = words.pop(0).text
            whole = whole or (text in ("-d", "-rd") and value == "")
        elif not text.startswith("-"):
            names.append(text)
    content = command.stdin
    if whole and len(names) == 1 and content is not None and content.text is not None:
        keeps = any(name == "IFS" for name, _ in command.env)
        state.variables[names[0]] = content.text if keeps else content.text.strip(" \t\n")
        return
    for name in names:
        state.variables[name] = Unknown(f"{name} is read in line {command.line}")


def shift(state: State, command: Command) -> None:
    """`shift [N]`"""
    count = (command.argv[1].text or "") if len(command.argv) > 1 else "1"
    if state.parameters is not None:
        state.parameters = state.parameters[int(count) :] if count.isdigit() else None


def test(words: list[Word], files: Mapping[str, Content], cwd: str | None) -> bool | None:
    """`test`, `[` and the simple forms of `[[`: True, False, or None where the script alone does not say."""
    if words and words[0].raw == "!":
        found = test(words[1:], files, cwd)
        return None if found is None else not found
    for joint, decisive in (("||", True), ("-o", True), ("&&", False), ("-a", False)):
        places = [at for at, word in enumerate(words) if word.raw == joint and 0 < at < len(words) - 1]
        if places:
            sides = [test(words[: places[0]], files, cwd), test(words[places[0] + 1 :], files, cwd)]
            return decisive if decisive in sides else (None if None in sides else not decisive)
    return _simple_test([word.text for word in words], files, cwd)


def _simple_test(texts: list[str | None], files: Mapping[str, Content], cwd: str | None) -> bool | None:
    match texts:
        case [str(text)]:
            return bool(text)
        case ["-n", str(text)]:
            return bool(text)
        case ["-z", str(text)]:
            return not text
        case ["-f" | "-e" | "-s" | "-r", str(text)]:
            return True if absolute(cwd, text) in files else None
        case [str(left), "=" | "==", str(right)]:
            return fnmatch.fnmatchcase(left, right)
        case [str(left), "!=", str(right)]:
            return not fnmatch.fnmatchcase(left, right)
        case [str(left), "-eq" | "-ne" | "-lt" | "-le" | "-gt" | "-ge" as operator, str(right)]:
            return _compared(left, operator, right)
        case _:
            return None


def _compared(left: str, operator: str, right: str) -> bool | None:
    if not (re.fullmatch(r"-?\d+", left) and re.fullmatch(r"-?\d+", right)):
        return None
    a, b = int(left), int(right)
    results = {"-eq": a == b, "-ne": a != b, "-lt": a < b, "-le": a <= b, "-gt": a > b, "-ge": a >= b}
    return results[operator]


def folder_names(state: State, folder: str) -> tuple[str, ...]:
    """The files that the script has written in a folder."""
    return tuple(posixpath.basename(path) for path in state.files if posixpath.dirname(path) == folder)
