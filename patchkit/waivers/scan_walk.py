"""Walks any shell script, broken ones included, for the scan: a value that is not known stays as `${NAME}`.

Tests decide nothing here: both branches are followed, so that a guard hides nothing. Loops and functions are
unrolled while that stays small; else each is read once.
"""

from __future__ import annotations

import posixpath
import re
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING

from patchkit.model import shell_scope, shell_syntax
from patchkit.model.shell_effects import NOTHING
from patchkit.model.shell_record import Result
from patchkit.model.shell_types import Command, Content, Word
from patchkit.model.shell_walk import Walker, walk_uncalled
from patchkit.model.shell_words import Unknown
from patchkit.waivers.scan_places import HERE, SITE, place

if TYPE_CHECKING:
    from collections.abc import Mapping

    from patchkit.model.shell_syntax import Node
    from patchkit.model.shell_types import Redirect
    from patchkit.model.shell_words import Text, Value

_MOST_STEPS = 12_000  # statements, of loops and functions unrolled
_MOST_COMMANDS = 6_000
_SEEN = ("PYTHONPATH", "AITER_REBUILD", "VLLM_FORCE_REBUILD")
_MOST_TEXT = 1_000_000
_SHORT_TEXT = 2_000
_SIMPLE = frozenset(
    ["program", "command", "redirected_statement", "list", "pipeline", "variable_assignment", "declaration_command"]
)
_FILE = re.compile(r"([A-Za-z_]\w*(?:\.\w+)*)\.__(file|path)__|find_spec\(\s*['\"]([\w.]+)['\"]|getfile\(\s*([\w.]+)")
_SITE_CALL = re.compile(r"getsitepackages|purelib|platlib|site-packages|dist-packages|usersitepackages", re.IGNORECASE)
_PYTHON = re.compile(r"python[0-9.]*|pypy3?|\$\{?\w*PY(?:THON)?\w*\}?", re.IGNORECASE)


class _FullError(Exception):
    """More commands than are followed with loops and functions unrolled."""


@dataclass(slots=True)
class _State(shell_scope.State):
    """A state that keeps, where branches differ, the value that names the serving stack."""

    def become(self, *others: shell_scope.State) -> None:
        states = [state for state in others if not state.ended] or list(others)
        names = {name for state in states for name in state.variables}
        kept = {name: _best([s.variables[name] for s in states if name in s.variables]) for name in names}
        folders = [state.cwd for state in states if state.cwd]
        shell_scope.State.become(self, *others)
        self.variables = kept
        self.cwd = next((each for each in folders if place(each).name), folders[0] if folders else None)

    def write(self, changes: Mapping[str, Content | None]) -> None:
        small = {
            path: content
            if content is None or content.text is None or len(content.text) < _MOST_TEXT
            else Content(text=None, why="it is long", line=content.line)
            for path, content in changes.items()
        }
        shell_scope.State.write(self, small)


def _best(values: list[Value]) -> Value:
    known = [value for value in values if not isinstance(value, Unknown) and value]
    named = [value for value in known if isinstance(value, str) and place(value).name]
    return named[0] if named else (known[-1] if known else values[0])


class ScanWalker(Walker):
    """One walk. With `flat`, functions are not followed where they are called and loops not unrolled."""

    def __init__(self, name: str, given: Mapping[str, str], cwd: str, *, flat: bool = False) -> None:
        super().__init__(_State(cwd=cwd), posixpath.join(HERE, name), given, None)
        self.flat = flat
        self.uncalled = False
        self.steps = 0
        self.kept = 0

    # -- control flow that survives whatever the grammar makes of a broken script

    def text(self, text: str, offset: int) -> Result:
        before = self.heredocs, self.offset
        result = Result()
        for root, heredocs, lines in shell_syntax.lenient(text):
            self.heredocs, self.offset = heredocs, offset + lines
            result = self.statements(shell_syntax.named(root))
        self.heredocs, self.offset = before
        return result

    def gives_up(self, node: Node) -> bool:
        """Asked only for what an import says of a failure."""
        del node
        return False

    def run(self, node: Node) -> Result:
        self.steps += 1
        if self.steps > _MOST_STEPS * (5 if self.flat else 1):
            raise _FullError
        if node.type == "ERROR" or (node.has_error and node.type not in _SIMPLE):
            return self.statements(shell_syntax.named(node))
        return super().run(node)

    def run_test_command(self, node: Node) -> Result:
        super().run_test_command(node)
        return Result()

    def run_for_statement(self, node: Node) -> Result:
        before = self.state
        if self.flat:
            self.state = before.copy()
        result = super().run_for_statement(node)
        if self.state is not before:
            self.state = before
        return result

    def redirected(self, body: Node, redirects: list[Node]) -> Result:
        """In `cd X && patch < FILE` the redirection belongs to the last command."""
        if body.type == "list" and len(body.children) > 2:
            self.run(body.children[0])
            return self.redirected(body.children[-1], redirects)
        return super().redirected(body, redirects)

    def call(self, name: str, command: Command) -> Result:
        if self.flat and (not self.uncalled or self.calls):
            return Result()
        return super().call(name, command)

    def record(
        self,
        node: Node,
        words: tuple[Word, ...],
        redirects: tuple[Redirect, ...],
        env: tuple[tuple[str, Word], ...],
        stdin: Content | None,
    ) -> Command:
        if len(self.commands) >= _MOST_COMMANDS * (10 if self.flat else 1):
            raise _FullError
        return super().record(node, words, redirects, env, stdin)

    # -- values

    def run_variable_assignment(self, node: Node) -> Result:
        """An assignment that Python, or a build, sees is recorded as a command."""
        result = super().run_variable_assignment(node)
        name = shell_syntax.source(node).split("=", 1)[0]
        value = self.state.variables.get(name)
        if name in _SEEN and isinstance(value, str):
            words = ("export", f"{name}={value}")
            self.record(node, tuple(Word(text=word, raw=word) for word in words), (), (), None)
        return result

    def unknown(self, raw: str, _value: Unknown) -> Text:
        return raw if len(raw) < 200 else "${long}"

    def assign(self, name: str, value: Value) -> None:
        if isinstance(value, str) and len(value) > _SHORT_TEXT:
            self.kept += len(value)
            if self.kept > _MOST_TEXT:  # a text that grows with every round
                value = "${" + name + "}"
        super().assign(name, value)

    def substitute(self, node: Node) -> Text:
        start = len(self.commands)
        with self.apart():
            out = self.statements(shell_syntax.named(node)).out
        return self.printed(out, start)

    def substitute_text(self, text: str) -> Text:
        start = len(self.commands)
        with self.apart():
            out = self.text(text, self.offset).out
        return self.printed(out, start)

    def printed(self, out: Content, start: int) -> str:
        """What `$(...)` stands for: a path into the site, if its commands ask for one."""
        if out.text is not None:
            return out.text.rstrip("\n")
        for command in self.commands[start:]:
            found = _asked(command)
            if found is not None:
                return found
        return "${output}"

    def carry_out(self, command: Command, writes: list[tuple[str, bool]]) -> Result:
        if command.program == "test":
            return Result(self.written(writes, NOTHING))
        result = super().carry_out(command, writes)
        folder = _environment(command)
        if folder is not None:
            self.state.write({posixpath.join(folder, "pyvenv.cfg"): Content(text=None, why="a virtual environment")})
        if result.out.text is None and command.program in ("find", "grep", "egrep", "rg"):
            found = _asked(command)
            if found is not None:
                return Result(Content(text=found + "\n"), result.status)
        return result


def _asked(command: Command) -> str | None:
    """The path that a command prints which asks where something is installed."""
    texts = [word.shown for word in command.argv]
    program = command.program or ""
    if _PYTHON.fullmatch(program):
        code = " ".join(texts[1:]) if command.stdin is None or "-c" in texts else command.stdin.text or ""
        return _python_asked(code) if "pip" not in texts else _pip_asked(texts)
    if program.startswith("pip") or program == "uv":
        return _pip_asked(texts)
    if program == "find":
        return _find_asked(texts)
    if program in ("grep", "egrep", "rg"):
        lists = any(re.match(r"-\w*l|--files-with", text) for text in texts)
        named = next((text for text in texts[2:] if place(text).where == "installed"), None)
        return posixpath.join(named, "x.py") if named and lists else None
    if program in ("ls", "readlink", "realpath", "dirname", "echo"):
        named = next((text for text in texts[1:] if place(text).where == "installed"), None)
        return posixpath.dirname(named) if named and program == "dirname" else named
    return None


def _environment(command: Command) -> str | None:
    """The folder of the virtual environment that a command makes."""
    texts = [word.shown for word in command.argv]
    if texts[1:3] == ["-m", "venv"] or texts[:2] == ["uv", "venv"] or command.program == "virtualenv":
        named = [text for text in texts[1:] if not text.startswith("-") and text != "venv"]
        return command.path(named[-1]) if named else None
    return None


def _pip_asked(texts: list[str]) -> str | None:
    return SITE if "show" in texts or "inspect" in texts else None


def _python_asked(code: str) -> str | None:
    if "print" not in code and "write" not in code:
        return None
    found = _FILE.search(code)
    if found is None:
        return SITE if _SITE_CALL.search(code) else None
    module = (found[1] or found[3] or found[4]).replace(".", "/")
    path = posixpath.join(SITE, module)
    if found[2] != "path":
        path += "/__init__.py" if "/" not in module else ".py"
    for _ in range(len(re.findall(r"dirname\(|\.parent\b|submodule_search_locations", code))):
        path = posixpath.dirname(path)
    return path


def _find_asked(texts: list[str]) -> str | None:
    start = next((text for text in texts[1:] if not text.startswith("-")), "")
    pattern = next((texts[at + 1] for at, text in enumerate(texts[:-1]) if text in ("-path", "-wholename")), "")
    name = next((texts[at + 1] for at, text in enumerate(texts[:-1]) if text in ("-name", "-iname")), "")
    if place(start).where == "installed":
        return posixpath.join(start, name or "x.py")
    if place(SITE + "/" + pattern.lstrip("*/")).name and pattern:
        return posixpath.join(SITE, pattern.lstrip("*/"))
    return None


def walk(text: str, *, name: str, given: Mapping[str, str] | None = None, cwd: str = "${PWD}") -> tuple[Command, ...]:
    """Every command that the script `text` may run. Never raises for what the text is."""
    for flat in (False, True):
        walker = ScanWalker(name, given or {}, cwd, flat=flat)
        try:
            walker.text(text, 0)
            walker.uncalled = True
            walk_uncalled(walker)
        except _FullError:
            if not flat:
                continue
        except RecursionError:
            if not flat:
                continue
        own = () if flat else walker.functions  # a call of a function is what its body does
        return tuple(command for command in walker.commands if command.program not in own)
    return ()


def plain(words: list[str], *, line: int, cwd: str = "${PWD}") -> Command:
    """A command from words that are known, as an exec form or `subprocess.run([...])` has them."""
    made = tuple(Word(text=word, raw=word) for word in words)
    return Command(line=line, words=made, raw=" ".join(words)[:200], cwd=cwd, files=MappingProxyType({}))


def moved(command: Command, line: int) -> Command:
    """The same command at another line."""
    return replace(command, line=line)
