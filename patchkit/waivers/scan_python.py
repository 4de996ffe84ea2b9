"""Finds patching in Python: files of the stack that are rewritten, objects of it that are replaced, and commands.

The program is read, never run: constants are folded, local functions are followed where they are called.
"""

from __future__ import annotations

import ast
import re
import warnings
from typing import TYPE_CHECKING

from patchkit.waivers import exempt, scan_commands
from patchkit.waivers.exempt import words
from patchkit.waivers.scan_fold import HOLE, Folder, Ref
from patchkit.waivers.scan_places import HERE, place, touched
from patchkit.waivers.scan_types import Trace

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from patchkit.waivers.kinds import Kind
    from patchkit.waivers.scan_fold import Folded

_MOST_NODES = 200_000
_CALLS = 3
_ROUNDS = 30
_QUIET = frozenset(("backends", "config", "_config", "options", "logger", "logging", "__version__", "default_config"))
_TESTS = re.compile(r"(?:^|/)(?:tests?/|test_|conftest\.py$)|_test\.py$")
_WRITE = re.compile(r"[wax+]")
_BUILT = re.compile(r"\.so\b|\.co\b|\.hsaco|/jit(?:/|$)|/build(?:/|$)|\*\.so")
_RUN = re.compile(r"(?:subprocess\.\w+|os\.system|os\.popen|os\.exec\w+|os\.spawn\w+|asyncio\.create_subprocess_\w+)$")
_COPY = words(
    "shutil.copy shutil.copy2 shutil.copyfile shutil.move shutil.copytree os.rename os.replace os.symlink os.link"
)
_REMOVE = words("os.remove os.unlink shutil.rmtree os.removedirs")
_MOCK = re.compile(r"(?:unittest\.)?mock\.(?:patch(?:\.(?:object|multiple|dict))?|_patch)$|^patch(?:\.object)?$")
_ENGINE = re.compile(rf"\b(?:{'|'.join(sorted(exempt.ENGINES))})\b")
_HOOKS = re.compile(r"sys\.(?:meta_path|path_hooks)\.(?:insert|append|extend)")
_BUILDS = re.compile(r"aiter\.(?:jit|aot)\..*(?:build|compile)", re.IGNORECASE)
_LITERAL = re.compile(r"""(?P<q>['"])(?P<text>[^'"\n]{3,300})(?P=q)""")


def python(
    code: str,
    *,
    line: int = 0,
    name: str = "",
    argv: Sequence[str] = (),
    environment: Mapping[str, str] | None = None,
) -> list[Trace]:
    """What a Python program patches; `line` lines stand before it in its file. Never raises for what it is."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return _loosely(code, line)
    walker = _Walker(code, line, name, tuple(argv), dict(environment or {}))
    try:
        walker.block(tree.body)
    except RecursionError:
        return [*walker.found.values(), *_loosely(code, line)]
    return list(walker.found.values())


def _loosely(code: str, line: int) -> list[Trace]:
    """A program that does not parse (a template, Python 2): a text that names an installed file, and one that writes."""
    if not re.search(r"write|replace\(|inplace", code):
        return []
    found = []
    for match in _LITERAL.finditer(code[:_MOST_NODES]):
        touches = touched(match["text"]) if "/" in match["text"] else None
        if touches is not None:
            at = line + code.count("\n", 0, match.start()) + 1
            found.append(Trace(line=at, kind="edit", touches=touches, text=match[0]))
    return found


class _Walker:
    def __init__(self, code: str, line: int, name: str, argv: tuple[str, ...], environment: dict[str, str]) -> None:
        self.lines = code.split("\n")
        self.line, self.name = line, name
        self.folder = Folder(environment, argv, f"{HERE}/{name.rsplit('/', 1)[-1] or 'program.py'}")
        self.found: dict[tuple[object, ...], Trace] = {}
        self.functions = self.folder.functions
        self.calls: list[tuple[ast.Call, frozenset[str]]] = []
        self.shadowed: list[str] = []
        self.left = _MOST_NODES
        self.tests = _TESTS.search(name) is not None
        self.reads = (
            re.search(
                r"read_text|read_bytes|\.read\(|readlines|\bin f\b|fileinput|open\([^)\n]*\)\s*\.read|'r\+?'|\"r\+?\"",
                code,
            )
            is not None
        )

    def names_engine(self) -> bool:
        """Whether the program speaks of an engine anywhere."""
        return any(_ENGINE.search(line) for line in self.lines)

    # -- findings

    def add(self, node: ast.AST, kind: Kind, touches: str) -> None:
        at = getattr(node, "lineno", 1)
        text = self.lines[at - 1].strip()[:200] if at <= len(self.lines) else ""
        self.found.setdefault((at, kind, touches), Trace(line=self.line + at, kind=kind, touches=touches, text=text))

    def file(self, node: ast.AST, path: str, *, in_place: bool = False) -> None:
        """A file that the program writes."""
        if scan_commands.is_hook(path):
            self.add(node, "shadow", path)
            return
        if self.tests and path.startswith("$"):
            return  # a tree that a test has made for itself
        touches = touched(path, in_place=in_place)
        if touches is not None:
            self.add(node, "edit" if in_place else "overwrite", touches)

    # -- statements

    def block(self, statements: Sequence[ast.stmt]) -> None:
        for statement in statements:
            if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef):
                self.functions[statement.name] = statement
        for statement in statements:
            self.left -= 1
            if self.left > 0:
                self.statement(statement)

    def statement(self, node: ast.stmt) -> None:
        if isinstance(node, ast.Import):
            for alias in node.names:
                self.folder.names[alias.asname or alias.name.split(".")[0]] = Ref(
                    alias.name if alias.asname else alias.name.split(".")[0]
                )
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                self.folder.names[alias.asname or alias.name] = Ref(
                    f"{'.' * node.level}{node.module or ''}.{alias.name}"
                )
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            self.function(node)
        elif isinstance(node, ast.Assign | ast.AnnAssign | ast.AugAssign):
            self.assign(node)
        elif isinstance(node, ast.For | ast.AsyncFor):
            self.loop(node)
        else:
            self.compound(node)

    def compound(self, node: ast.stmt) -> None:
        """Any other statement: its expressions, then its blocks."""
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.expr):
                self.expression(child)
            elif isinstance(child, ast.withitem):
                self.expression(child.context_expr)
                if isinstance(child.optional_vars, ast.Name):
                    self.folder.names[child.optional_vars.id] = self.folder.fold(child.context_expr)
            elif isinstance(child, ast.ExceptHandler | ast.match_case):
                self.block(child.body)
        for name in ("body", "orelse", "finalbody"):
            block = getattr(node, name, None)
            if isinstance(block, list):
                self.block(block)

    def function(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        """A function as it stands: its parameters are not known."""
        before = dict(self.folder.names)
        for each in node.decorator_list:
            self.expression(each)
        every = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
        for argument in every:
            self.folder.names[argument.arg] = None
        for argument, default in zip(reversed(node.args.args), reversed(node.args.defaults), strict=False):
            self.folder.names[argument.arg] = self.folder.fold(default)
        quiet, self.tests = self.tests, self.tests or node.name.startswith("test_")
        self.block(node.body)
        self.tests = quiet
        self.folder.names = before

    def loop(self, node: ast.For | ast.AsyncFor) -> None:
        self.expression(node.iter)
        values = self.folder.fold(node.iter)
        rounds: list[Folded] = values[:_ROUNDS] if isinstance(values, list) and values else [values]
        for value in rounds:
            self.bind(node.target, value)
            self.block(node.body)
        self.block(node.orelse)

    def bind(self, target: ast.expr, value: Folded) -> None:
        if isinstance(target, ast.Name):
            self.folder.names[target.id] = value
        elif isinstance(target, ast.Tuple | ast.List):
            same = isinstance(value, list) and len(value) == len(target.elts)
            for at, each in enumerate(target.elts):
                self.bind(each, value[at] if same and isinstance(value, list) else value if at == 0 else None)

    def assign(self, node: ast.Assign | ast.AnnAssign | ast.AugAssign) -> None:
        if node.value is not None:
            self.expression(node.value)
        for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
            for each in target.elts if isinstance(target, ast.Tuple | ast.List) else [target]:
                self.replaced(each, node)
            if not isinstance(node, ast.AugAssign):
                self.bind(target, self.folder.fold(node.value))
                if isinstance(target, ast.Name) and isinstance(node.value, ast.Dict):
                    self.folder.tables[target.id] = node.value

    def replaced(self, target: ast.expr, node: ast.Assign | ast.AnnAssign | ast.AugAssign) -> None:
        """An assignment to something of the stack's."""
        if not isinstance(target, ast.Attribute | ast.Subscript):
            return
        owner = self.folder.fold(target.value)
        if not isinstance(owner, Ref):
            return
        if isinstance(target, ast.Attribute):
            self.object(node, f"{owner.name}.{target.attr}")
            if (owner.name, target.attr) == ("sys", "path"):
                self.paths(node, self.folder.fold(node.value))
        elif owner.name == "sys.modules":
            self.object(node, self.folder.text(target.slice))
        elif owner.name == "os.environ" and self.folder.text(target.slice) == "PYTHONPATH":
            before = self.shadowed if node.value and "sys.path" in ast.unparse(node.value) else []
            for touches in (*scan_commands.python_path(self.folder.text(node.value)), *before):
                self.add(node, "shadow", touches)
        elif owner.name == "sys.path":
            self.paths(node, self.folder.fold(node.value))
        elif exempt.normal(owner.top) in exempt.ENGINES:
            self.object(node, owner.name)

    def object(self, node: ast.AST, name: str) -> None:
        """An object of the stack that is replaced, or mocked."""
        package, *parts = name.split(".")
        if self.tests or exempt.normal(package) not in exempt.STACK:
            return
        # settings of what the engine runs on (torch.backends.cudnn.benchmark) may lie deep; of an engine only the end
        # of the name is one: vllm.v1.attention.backends is where its code is
        settings = parts[-2:] if exempt.normal(package) in exempt.ENGINES else parts
        if not _QUIET & set(settings):
            self.add(node, "monkeypatch", name)

    def paths(self, node: ast.AST, value: Folded) -> None:
        """Folders put into `sys.path`."""
        for each in value if isinstance(value, list) else [value]:
            if isinstance(each, str):
                for touches in scan_commands.python_path(each):
                    self.shadowed.append(touches)
                    self.add(node, "shadow", touches.replace("PYTHONPATH=", "sys.path: "))

    # -- expressions

    def expression(self, node: ast.expr) -> None:
        for each in ast.walk(node):
            self.left -= 1
            if self.left <= 0:
                return
            if isinstance(each, ast.Call):
                self.call(each)
            elif isinstance(each, ast.NamedExpr) and isinstance(each.target, ast.Name):
                self.folder.names[each.target.id] = self.folder.fold(each.value)

    def call(self, node: ast.Call) -> None:
        name = self.folder.called(node.func)
        args = node.args
        options = {word.arg: word.value for word in node.keywords if word.arg}
        if isinstance(node.func, ast.Name) and node.func.id in self.functions:
            self.follow(self.functions[node.func.id], node)
        elif name in ("open", "io.open", "codecs.open", "os.open") and args:
            given = args[1] if len(args) > 1 else options.get("mode")
            mode = self.folder.text(given) if given is not None else "r"
            if mode != HOLE and _WRITE.search(mode):
                self.file(node, self.folder.text(args[0]), in_place=self.reads or "+" in mode)
        elif _RUN.search(name) and (args or "args" in options):
            self.run(node, args[0] if args else options["args"], options.get("cwd"))
        elif name in ("fileinput.input", "fileinput.FileInput", "FileInput") and args and "inplace" in options:
            for each in _texts(self.folder.fold(args[0])):
                self.file(node, each, in_place=True)
        elif name in _REMOVE and args:
            self.removed(node, self.folder.text(args[0]))
        elif len(args) > 1 and self.pair(node, name, args):
            return
        else:
            method = node.func.attr if isinstance(node.func, ast.Attribute) else ""
            self.other(node, name, method, args)

    def pair(self, node: ast.Call, name: str, args: list[ast.expr]) -> bool:
        """Functions of two words: copies, `setattr`, downloads. False for any other."""
        second = self.folder.text(args[1])
        if name in _COPY:
            self.copied(node, self.folder.text(args[0]), second)
        elif name in ("setattr", "delattr", "builtins.setattr"):
            owner = self.folder.fold(args[0])
            if isinstance(owner, Ref):
                self.object(node, f"{owner.name}.{second}")
        elif name in ("urllib.request.urlretrieve", "urlretrieve", "wget.download"):
            touches = touched(second)
            if touches is not None:
                self.add(node, "download", touches)
        else:
            return False
        return True

    def other(self, node: ast.Call, name: str, method: str, words: list[ast.expr]) -> None:
        """Mocks, import paths, and methods of paths."""
        first = self.folder.fold(words[0]) if words else None
        if _MOCK.search(name) or name in ("wrapt.wrap_function_wrapper", "wrapt.patch_function_wrapper"):
            if isinstance(first, Ref):
                self.object(node, f"{first.name}.{self.folder.text(words[1])}" if len(words) > 1 else first.name)
            elif isinstance(first, str):
                self.object(node, first)
        elif name in ("sys.path.insert", "sys.path.append", "sys.path.extend", "site.addsitedir") and words:
            self.paths(node, self.folder.fold(words[-1]))
        elif _HOOKS.fullmatch(name) and not self.tests and self.names_engine():
            self.add(node, "monkeypatch", name.rsplit(".", 1)[0])
        elif _BUILDS.match(name):
            self.add(node, "rebuild", name)
        elif isinstance(node.func, ast.Attribute) and method in _METHODS:
            self.method(node, method, self.folder.fold(node.func.value), words)

    def method(self, node: ast.Call, method: str, owner: Folded, words: list[ast.expr]) -> None:
        owner = owner[0] if isinstance(owner, list) and owner else owner
        if method in ("extractall", "extract"):
            found = place(self.folder.text(words[-1])) if words else None
            if found is not None and found.where == "installed":
                self.add(node, "overwrite", found.shown)
        elif method == "update" and isinstance(owner, Ref):
            if exempt.normal(owner.top) in exempt.ENGINES:
                self.object(node, owner.name)
        elif not isinstance(owner, str):
            return
        elif method in ("write_text", "write_bytes") or (
            method == "open" and words and _WRITE.search(self.folder.text(words[0]))
        ):
            self.file(node, owner, in_place=self.reads)
        elif method in ("unlink", "rmdir"):
            self.removed(node, owner)
        elif method in ("symlink_to", "hardlink_to", "touch"):
            self.file(node, owner)
        elif method in ("rename", "replace") and len(words) == 1:
            self.copied(node, owner, self.folder.text(words[0]))

    def copied(self, node: ast.Call, source: str, target: str) -> None:
        path = target
        if not re.search(r"\.\w{1,6}$", target) and source != HOLE:
            path = f"{target.rstrip('/')}/{source.rstrip('/').rsplit('/', 1)[-1]}"
        self.file(node, path if touched(path) is not None else target)

    def removed(self, node: ast.Call, path: str) -> None:
        found = place(path)
        if found.where == "installed" and "__pycache__" not in path and not path.endswith(".pyc"):
            self.add(node, "rebuild" if _BUILT.search(path) else "overwrite", found.shown)

    def run(self, node: ast.Call, command: ast.expr, cwd: ast.expr | None) -> None:
        """A command that the program starts."""
        from patchkit.waivers import scan_shell, scan_walk

        value = self.folder.fold(command)
        folder = self.folder.text(cwd) if cwd is not None else "${PWD}"
        at = self.line + self.handed(command, node).lineno
        words = [each if isinstance(each, str) else HOLE for each in value] if isinstance(value, list) else []
        text = scan_commands.handed_text(words)
        value = text if text is not None else value
        if isinstance(value, list):
            made = scan_walk.plain(words, line=at, cwd=folder)
            traces = scan_shell.commands_of(made, self.name, 0)
        elif isinstance(value, str):
            traces = scan_shell.shell(value + "\n", name=self.name or "program.py", line=at - 1, cwd=folder, depth=2)
        else:
            return
        for trace in traces:
            self.found.setdefault((trace.line, trace.kind, trace.touches), trace)

    def handed(self, command: ast.expr, node: ast.Call) -> ast.Call:
        """The call that tells the command: that of the local function, where it is handed the whole of it."""
        for call, parameters in reversed(self.calls):
            if not isinstance(command, ast.Name) or command.id not in parameters:
                break
            node = call
            command = next((word for word in call.args if isinstance(word, ast.Name)), ast.Constant(value=""))
        return node

    def follow(self, function: ast.FunctionDef | ast.AsyncFunctionDef, node: ast.Call) -> None:
        """A local function with the words of one call."""
        if len(self.calls) >= _CALLS:
            return
        before = dict(self.folder.names)
        self.folder.bound(function, node)
        every = (*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs)
        self.calls.append((node, frozenset(each.arg for each in every)))
        self.block(function.body)
        self.calls.pop()
        self.folder.names = before


_METHODS = words(
    "write_text write_bytes open unlink rmdir symlink_to hardlink_to touch rename replace extractall extract update"
)


def _texts(value: Folded) -> list[str]:
    values = value if isinstance(value, list) else [value]
    return [each for each in values if isinstance(each, str)]
