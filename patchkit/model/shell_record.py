"""Records the commands of a shell script: their words, redirections and input, and what they change.

The control flow around them is `shell_walk`'s.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from patchkit.model import shell_scope as scopes
from patchkit.model.shell_effects import NOTHING, effects, joined
from patchkit.model.shell_heredocs import Heredoc, ShellSyntaxError, number_of
from patchkit.model.shell_syntax import Node, named, source
from patchkit.model.shell_types import Command, Condition, Content, Redirect, Relation, Remark, Word, absolute
from patchkit.model.shell_words import Text, Unknown, Value, expand, glob_matches, interpolate, single

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from patchkit.model.shell_types import Disk

MAX_COMMANDS = 100_000
MAX_TEXT = 200
_MAX_CALLS = 20
_SHELLS = ("bash", "sh", "dash", "ksh", "zsh")


@dataclass(frozen=True, slots=True)
class Result:
    """How a statement ends: what it prints, and whether it succeeds (None: the script does not say)."""

    out: Content = NOTHING
    status: bool | None = None


class Recorder(ABC):
    """The half of a walk that knows commands. `given` are values for what the script does not fix; `path` is where the script lies."""

    def __init__(self, state: scopes.State, path: str, given: Mapping[str, str], disk: Disk | None) -> None:
        self.state, self.path, self.given, self.disk = state, path, given, disk
        self.commands: list[Command] = []
        self.remarks: list[Remark] = []
        self.assumed: dict[str, str] = {}
        self.functions: dict[str, tuple[Node, tuple[Heredoc, ...], int]] = {}
        self.called: set[str] = set()
        self.heredocs: tuple[Heredoc, ...] = ()
        self.offset = 0  # lines before the text in hand: `bash -c` has lines of its own
        self.conditions: list[Condition] = []
        self.calls: list[int] = []
        self.tolerated = ""
        self.tested = False
        self.breaks: tuple[Node, Relation, list[Command]] | None = None  # what ended the loop in hand, perhaps

    # -- what words are expanded in (shell_words.Scope)

    def lookup(self, name: str) -> Value:
        if name == "BASH_SOURCE" and name not in self.state.variables:
            return (self.path,)
        return scopes.lookup(self.state, name, self.given)

    def positional(self, name: str) -> Value:
        return scopes.positional(self.state, name, self.path)

    def assign(self, name: str, value: Value) -> None:
        self.state.variables[name] = value

    def assume(self, name: str, value: str) -> None:
        self.assumed.setdefault(name, value)

    def substitute(self, node: Node) -> Text:
        """What `$(...)` stands for; its commands are recorded as any other."""
        with self.apart():
            out = self.statements(named(node)).out
        return Unknown(out.why) if out.text is None else out.text.rstrip("\n")

    def substitute_text(self, text: str) -> Text:
        with self.apart():
            out = self.text(text, self.offset).out
        return Unknown(out.why) if out.text is None else out.text.rstrip("\n")

    def glob(self, pattern: str) -> tuple[str, ...]:
        folder, slash, last = pattern.rpartition("/")
        path = absolute(self.state.cwd, folder or ("/" if slash else "."))
        if path is None or "*" in folder or not last:
            return ()
        beside = () if self.disk is None else self.disk.names(path)
        return glob_matches(pattern, tuple({*scopes.folder_names(self.state, path), *beside}))

    def unknown(self, _raw: str, value: Unknown) -> Text:
        """What stands for a value that the script does not fix: here, that it is not known."""
        return value

    # -- where the walk is

    @contextmanager
    def apart(self) -> Iterator[None]:
        """A subshell: what it does to variables and directory ends with it, what it writes stays."""
        outer = self.state
        self.state = outer.copy()
        yield
        outer.files = self.state.files
        self.state = outer

    @contextmanager
    def under(self, node: Node, relation: Relation, commands: list[Command], held: bool | None) -> Iterator[None]:
        """A branch: its commands carry the condition."""
        raw = shown(node).split("\n", 1)[0]
        condition = Condition(line=self.line(node), relation=relation, raw=raw, commands=tuple(commands), held=held)
        self.conditions.append(condition)
        before = self.tested, self.tolerated
        self.tested, self.tolerated = False, ""
        yield
        self.tested, self.tolerated = before
        self.conditions.pop()

    def line(self, node: Node) -> int:
        return node.start_point[0] + 1 + self.offset

    @abstractmethod
    def run(self, node: Node) -> Result:
        """Walk one statement."""

    @abstractmethod
    def statements(self, nodes: list[Node]) -> Result:
        """Walk several statements, one after the other."""

    @abstractmethod
    def text(self, text: str, offset: int) -> Result:
        """Walk the text of a script inside the script."""

    # -- variables

    def run_variable_assignment(self, node: Node) -> Result:
        target, value = node.child_by_field_name("name"), node.child_by_field_name("value")
        assert target is not None
        name = source(target)
        adds = any(child.type == "+=" for child in node.children)
        if target.type == "subscript":
            array = name.split("[", 1)[0]
            self.assign(array, Unknown(f"{array} is changed item by item"))
            return Result()
        new: Value
        if value is None:
            new = ""
        elif value.type == "array":
            words = [word for child in named(value) for word in expand(child, self)]
            new = tuple(Unknown(word.why) if word.text is None else word.text for word in words)
        else:
            new = single(value, self)
        self.assign(name, self.added(name, new) if adds else new)
        return Result()

    def added(self, name: str, new: Value) -> Value:
        """What `name+=new` makes."""
        old = self.lookup(name)
        if isinstance(old, tuple):
            return (*old, *(new if isinstance(new, tuple) else (new,)))
        if isinstance(old, str) and isinstance(new, str):
            return old + new
        if isinstance(old, Unknown) and old.unset and isinstance(new, tuple):
            return new
        return old if isinstance(old, Unknown) else new

    def run_variable_assignments(self, node: Node) -> Result:
        return self.statements(named(node))

    def run_declaration_command(self, node: Node) -> Result:
        """`export`, `local`, `declare`, `readonly`."""
        exports = node.children[0].type == "export"
        for child in named(node):
            name = source(child)
            if child.type == "variable_assignment":
                self.run_variable_assignment(child)
                name = name.split("=", 1)[0].rstrip("+")
            elif child.type == "variable_name" and node.children[0].type == "local":
                self.assign(name, "")
            if exports:
                self.state.exported.add(name)
        return Result(status=True)

    def run_unset_command(self, node: Node) -> Result:
        for child in named(node):
            self.state.variables.pop(source(child), None)
        return Result(status=True)

    # -- commands

    def run_test_command(self, node: Node) -> Result:
        words: list[Word] = []
        for child in self.test_words(node):
            quoted = child.type in ("string", "raw_string")
            text = single(child, self)
            raw = source(child) if not quoted else f'"{source(child)[1:-1]}"'
            words.append(Word(text=None if isinstance(text, Unknown) else text, raw=raw))
        status = scopes.test(words, self.state.files, self.state.cwd)
        self.record(node, (Word(text="[", raw="["), *words), (), (), NOTHING)
        return Result(status=status)

    def test_words(self, node: Node) -> Iterator[Node]:
        """The leaves of a test, in order, without its brackets."""
        for child in node.children:
            if child.type in ("[", "]", "[[", "]]", "comment"):
                continue
            nested = child.type.endswith("_expression") and child.type != "brace_expression"
            if nested:
                yield from self.test_words(child)
            else:
                yield child

    def run_redirected_statement(self, node: Node) -> Result:
        body = node.child_by_field_name("body")
        redirects = list(node.children_by_field_name("redirect"))
        if body is None:
            return self.simple(node, [], redirects)
        return self.redirected(body, redirects)

    def redirected(self, body: Node, redirects: list[Node]) -> Result:
        """Walk `body` with redirections behind it, which belong to its last command where it is no group."""
        if body.type == "command":
            return self.simple(body, list(body.children), redirects)
        if body.type == "redirected_statement":
            inner = body.child_by_field_name("body")
            if inner is not None:
                return self.redirected(inner, [*body.children_by_field_name("redirect"), *redirects])
        made, stdin, writes = self.redirections(redirects)
        before = self.state.stdin
        if stdin is not None:
            self.state.stdin = stdin
        result = self.run(body)
        if made:
            self.record(body, (), made, (), stdin)
        self.state.stdin = before
        return Result(self.written(writes, result.out), result.status)

    def run_command(self, node: Node) -> Result:
        return self.simple(node, list(node.children), [])

    def simple(self, node: Node, parts: list[Node], redirects: list[Node]) -> Result:
        """Walk a simple command: its words, its redirections, what it does."""
        redirects = [*(part for part in parts if part.type.endswith("_redirect")), *redirects]
        env: list[tuple[str, Word]] = []
        words: list[Word] = []
        for part in parts:
            if part.type == "variable_assignment":
                name, value = part.child_by_field_name("name"), part.child_by_field_name("value")
                text = "" if value is None else single(value, self)
                word = Word(text=None if isinstance(text, Unknown) else text, raw=source(part))
                env.append((source(name) if name is not None else "", word))
            elif part.is_named and not part.type.endswith("_redirect") and part.type != "comment":
                words += expand(part, self)
        made, stdin, writes = self.redirections(redirects)
        stdin = stdin if stdin is not None else self.state.stdin
        if not words:
            return Result(self.written(writes, NOTHING), True)
        command = self.record(node, tuple(words), made, tuple(env), stdin)
        return self.carry_out(command, writes)

    def record(
        self,
        node: Node,
        words: tuple[Word, ...],
        redirects: tuple[Redirect, ...],
        env: tuple[tuple[str, Word], ...],
        stdin: Content | None,
    ) -> Command:
        if len(self.commands) >= MAX_COMMANDS:
            why = f"the script runs more than {MAX_COMMANDS} commands, loops unrolled"
            raise ShellSyntaxError((self.line(node), why))
        command = Command(
            line=self.line(node),
            words=words,
            raw=shown(node),
            redirects=redirects,
            env=env,
            stdin=stdin,
            cwd=self.state.cwd,
            files=self.state.files,
            conditions=tuple(self.conditions),
            calls=tuple(self.calls),
            tolerated=self.tolerated,
            tested=self.tested,
            environment=self.environment(words, env),
        )
        self.commands.append(command)
        return command

    def environment(self, words: tuple[Word, ...], env: tuple[tuple[str, Word], ...]) -> tuple[tuple[str, str], ...]:
        """What a Python program sees of the script's variables: those exported, and those in front of it."""
        if not any("python" in word.raw for word in words):
            return ()
        found = {name: self.lookup(name) for name in sorted(self.state.exported)}
        found |= {name: Unknown(word.why) if word.text is None else word.text for name, word in env}
        return tuple((name, value) for name, value in found.items() if isinstance(value, str))

    def redirections(self, nodes: list[Node]) -> tuple[tuple[Redirect, ...], Content | None, list[tuple[str, bool]]]:
        """The redirections of a command, what it reads, and the files it prints to (and whether at their end)."""
        made: list[Redirect] = []
        stdin: Content | None = None
        writes: list[tuple[str, bool]] = []
        for node in nodes:
            if node.type == "herestring_redirect":
                text = single(named(node)[-1], self)
                stdin = (
                    Content(text=None, why=text.why)
                    if isinstance(text, Unknown)
                    else Content(text=text + "\n", line=self.line(node))
                )
                continue
            target = node.child_by_field_name("destination")
            number = number_of(source(target)) if target is not None else None
            if number is not None:
                stdin = self.heredoc(self.heredocs[number])
                continue
            made.append(self.redirect(node, target))
            stdin = self.opened(made[-1], stdin, writes)
        return tuple(made), stdin, writes

    def redirect(self, node: Node, target: Node | None) -> Redirect:
        fds = (source(child) for child in node.children if child.type == "file_descriptor")
        fd = next((int(text) for text in fds if text.isdecimal()), None)
        operator = next(child.type for child in node.children if not child.is_named)
        words = expand(target, self) if target is not None else []
        word = words[0] if len(words) == 1 else Word(text=None, raw=source(node), why="no single file")
        return Redirect(fd=fd, operator=operator, target=word)

    def opened(self, redirect: Redirect, stdin: Content | None, writes: list[tuple[str, bool]]) -> Content | None:
        """Note the file that a redirection writes; return what the command reads from then on."""
        text = redirect.target.text
        path = None if text is None else absolute(self.state.cwd, text)
        if redirect.operator == "<" and redirect.fd in (None, 0):
            if text is None:
                return Content(text=None, why=redirect.target.why)
            words = (Word(text="cat", raw="cat"), redirect.target)
            command = Command(line=0, words=words, raw="", cwd=self.state.cwd, files=self.state.files)
            return effects(command, self.disk).out
        if redirect.writes and redirect.fd in (None, 1) and path is not None and not path.startswith("/dev/"):
            writes.append((path, redirect.operator in (">>", "&>>")))
        elif redirect.writes and redirect.fd in (None, 1):
            writes.append(("", False))
        return stdin

    def heredoc(self, document: Heredoc) -> Content:
        line = document.body_line + self.offset
        text = document.body if document.quoted else interpolate(document.body, self)
        if isinstance(text, Unknown):
            return Content(text=None, why=text.why, line=line)
        return Content(text=text, line=line)

    def written(self, writes: list[tuple[str, bool]], out: Content) -> Content:
        """Put what a command prints into its files; return what is left for the reader behind it."""
        for path, appends in writes:
            before = self.state.files.get(path)
            if path:
                self.state.write({path: joined(before, out) if appends and before is not None else out})
        return NOTHING if writes else out

    def carry_out(self, command: Command, writes: list[tuple[str, bool]]) -> Result:
        """What a command does to the state."""
        program = command.program
        state = self.state
        status: bool | None = None
        out = NOTHING
        if program in self.functions:
            result = self.call(program or "", command)
            out, status = result.out, result.status
        elif program in ("cd", "pushd", "popd"):
            scopes.change_folder(state, command)
        elif program == "read":
            scopes.read_variables(state, command)
        elif program == "shift":
            scopes.shift(state, command)
        elif program in ("exit", "return", "break"):
            state.ended = scopes.ENDS[program]
        elif program in ("true", ":", "false"):
            status = program != "false"
        elif program == "test":
            status = scopes.test(list(command.argv[1:]), state.files, state.cwd)
        elif program == "eval" or program in _SHELLS:
            out = self.inner(command)
        else:
            made = effects(command, self.disk)
            state.write(made.files)
            out = made.out
        return Result(self.written(writes, out), status)

    def inner(self, command: Command) -> Content:
        """`eval TEXT`, `bash -c TEXT`, `bash <<EOF`: the text is walked where it is constant."""
        words = command.argv[1:]
        if command.program == "eval":
            texts = [word.text for word in words]
            known = " ".join(text for text in texts if text is not None)
            if None in texts:
                return Content(text=None, why=f"line {command.line} evaluates a text that is not constant")
            return self.text(known + "\n", command.line - 1).out
        options = [word.text or "" for word in words if (word.text or "").startswith("-")]
        rest = [word for word in words if not (word.text or "").startswith("-")]
        if any(option[1:2] != "-" and "c" in option for option in options):
            if not rest or rest[0].text is None:
                return Content(text=None, why=f"the text of line {command.line} is not constant")
            given = tuple(Unknown(word.why) if word.text is None else word.text for word in rest[1:])
            return self.inside(rest[0].text + "\n", command.line - 1, given or ("bash",), command.stdin)
        content = command.stdin
        if not rest and content is not None and content.text is not None:
            return self.inside(content.text, max(content.line - 1, 0), ("bash",), None)
        return Content(text=None, why=f"it is what line {command.line} prints")

    def inside(self, text: str, offset: int, given: tuple[Text, ...], stdin: Content | None) -> Content:
        """Another shell, with its `$0` and parameters: it sees exported variables only."""
        with self.apart():
            self.state.zero, self.state.parameters, self.state.stdin = given[0], given[1:], stdin
            for name in set(self.state.variables) - self.state.exported:
                self.state.variables[name] = Unknown(f"{name} is not exported", unset=False)
            return self.text(text, offset).out

    def call(self, name: str, command: Command) -> Result:
        """Walk a function's body with the call's words."""
        self.called.add(name)
        if len(self.calls) >= _MAX_CALLS:
            return Result(Content(text=None, why=f"{name} calls itself"))
        body, heredocs, offset = self.functions[name]
        state, before = self.state, (self.heredocs, self.offset)
        outer = state.parameters, state.stdin, dict(state.variables)
        state.parameters = tuple(Unknown(w.why) if w.text is None else w.text for w in command.argv[1:])
        state.stdin = command.stdin
        self.heredocs, self.offset = heredocs, offset
        self.calls.append(command.line)
        tested, self.tested = self.tested, False
        result = self.run(body)
        self.tested = tested
        self.calls.pop()
        self.heredocs, self.offset = before
        state = self.state
        state.parameters, state.stdin = outer[0], outer[1]
        for local in _locals(body):
            state.variables.pop(local, None)
            if local in outer[2]:
                state.variables[local] = outer[2][local]
        if state.ended in ("return", "break"):
            state.ended = ""
        return result


def shown(node: Node) -> str:
    """A piece of code as messages show it, cut where it is long."""
    return re.sub(r"< __patchkit_heredoc_\d+__", "<<…", source(node))[:MAX_TEXT]


def _locals(body: Node) -> set[str]:
    """The names that a function declares as its own."""
    found: set[str] = set()
    waiting = [body]
    while waiting:
        node = waiting.pop()
        if node.type == "declaration_command" and node.children[0].type in ("local", "declare", "typeset"):
            for child in named(node):
                found.add(source(child).split("=", 1)[0].rstrip("+"))
        elif node.type != "command":
            waiting += node.children
    return found
