"""Recognises exact replacements in a Python program: text read from a file, replaced, counted, written back.

The program is followed as far as its constants reach, without running it. A replacement becomes a step
only where the program says how often the text must occur; whatever else writes is named.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from patchkit.app.import_pyvalues import (
    UNKNOWN,
    WRITERS,
    Check,
    Edit,
    FilePath,
    FileText,
    Function,
    Handle,
    Name,
    attribute,
    constant_call,
    dotted,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

_MAX_CALLS = 30
_MAX_LOOP = 1000
_RUNNERS = ("subprocess.", "shutil.", "fileinput.")
_ENDS = ("exit", "_exit", "quit")


@dataclass(frozen=True, slots=True, kw_only=True)
class Replacement:
    """One exact replacement; `count` is None where nothing says how often the text must occur."""

    path: str
    find: str
    put: str
    line: int
    count: int | None
    first_only: bool = False


@dataclass(slots=True)
class Outcome:
    """What a program does: replacements in their order, and lines that do something else to files."""

    replacements: list[Replacement] = field(default_factory=list)
    others: list[tuple[int, str]] = field(default_factory=list)


class _ReturnedError(Exception):
    def __init__(self, value: Any) -> None:
        super().__init__()
        self.value = value


class _EndedError(Exception):
    """The program, or the branch, ends here."""


def follow(code: str, argv: tuple[str | None, ...], environment: Mapping[str, str], site: str | None) -> Outcome:
    """Follow a program. Raises SyntaxError where it is none."""
    walker = _Program(argv, environment, site)
    try:
        walker.block(ast.parse(code).body)
    except (_EndedError, _ReturnedError):
        pass
    except RecursionError:
        walker.outcome.others.append((1, "nested too deep to be followed"))
    return walker.finish()


class _Program:
    def __init__(self, argv: tuple[str | None, ...], environment: Mapping[str, str], site: str | None) -> None:
        self.names: dict[str, Any] = {"__name__": "__main__"}
        self.argv = [UNKNOWN if word is None else word for word in argv]
        self.environment, self.site = environment, site
        self.outcome = Outcome()
        self.committed: dict[str, tuple[Edit, ...]] = {}
        self.checks: list[Check] = []
        self.depth = 0

    def finish(self) -> Outcome:
        """Give each replacement the count that the program's checks say."""
        for path, edits in self.committed.items():
            for edit in edits:
                exact = {c.exact for c in self.checks if c.path == path and c.text == edit.old and c.exact is not None}
                count = exact.pop() if len(exact) == 1 else None
                if edit.limit == 1 and count is None:
                    count = 1
                if count is not None and edit.limit not in (-1, count) and edit.limit < count:
                    count = None
                self.outcome.replacements.append(
                    Replacement(
                        path=path,
                        find=edit.old,
                        put=edit.new,
                        line=edit.line,
                        count=count,
                        first_only=edit.limit == 1 and not exact and count == 1 and not self.counted(path, edit.old),
                    )
                )
        self.outcome.replacements.sort(key=self.order)
        return self.outcome

    def counted(self, path: str, text: str) -> bool:
        return any(c.path == path and c.text == text and c.exact is not None for c in self.checks)

    def order(self, found: Replacement) -> int:
        """The place of a replacement among all, by the time it was written."""
        orders = [
            e.order for e in self.committed[found.path] if (e.old, e.new, e.line) == (found.find, found.put, found.line)
        ]
        return orders[0]

    def other(self, node: ast.AST, why: str) -> None:
        self.outcome.others.append((getattr(node, "lineno", 1), why))

    # -- statements

    def block(self, statements: list[ast.stmt]) -> None:
        for statement in statements:
            self.statement(statement)

    def statement(self, node: ast.stmt) -> None:
        known = getattr(self, f"do_{type(node).__name__.lower()}", None)
        if known is not None:
            known(node)
            return
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.expr):
                self.value(child)

    def do_import(self, node: ast.Import) -> None:
        for alias in node.names:
            self.names[alias.asname or alias.name.split(".")[0]] = Name(
                alias.name if alias.asname else alias.name.split(".")[0]
            )

    def do_importfrom(self, node: ast.ImportFrom) -> None:
        for alias in node.names:
            self.names[alias.asname or alias.name] = Name(f"{node.module}.{alias.name}")

    def do_functiondef(self, node: ast.FunctionDef) -> None:
        self.names[node.name] = Function(node)

    def do_return(self, node: ast.Return) -> None:
        raise _ReturnedError(None if node.value is None else self.value(node.value))

    def do_raise(self, _: ast.Raise) -> None:
        raise _EndedError

    def do_assign(self, node: ast.Assign) -> None:
        value = self.value(node.value)
        for target in node.targets:
            self.bind(target, value)

    def do_annassign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self.bind(node.target, self.value(node.value))

    def do_augassign(self, node: ast.AugAssign) -> None:
        self.value(node.value)
        self.bind(node.target, UNKNOWN)

    def bind(self, target: ast.expr, value: Any) -> None:
        if isinstance(target, ast.Name):
            self.names[target.id] = value
        elif isinstance(target, ast.Tuple | ast.List):
            items = list(value) if isinstance(value, tuple | list) else []
            for at, each in enumerate(target.elts):
                self.bind(each, items[at] if len(items) == len(target.elts) else UNKNOWN)

    def do_assert(self, node: ast.Assert) -> None:
        self.demand(self.value(node.test))

    def demand(self, test: Any) -> None:
        """A test that must hold for the program to go on."""
        for check in test if isinstance(test, tuple) else (test,):
            if isinstance(check, Check) and not check.negative:
                self.checks.append(check)

    def do_if(self, node: ast.If) -> None:
        test = self.value(node.test)
        if isinstance(test, bool | str | int):
            self.block(node.body if test else node.orelse)
            return
        checks = [each for each in (test if isinstance(test, tuple) else (test,)) if isinstance(each, Check)]
        body, other = self.writes(node.body), self.writes(node.orelse)
        if not checks and (body or other):
            self.other(
                node, f"`if {ast.unparse(node.test)[:60]}` decides what is written, and the program does not say it"
            )
            return
        if body and other:
            self.other(node, f"both branches of `if {ast.unparse(node.test)[:60]}` write")
            return
        if body:
            self.checks += [check for check in checks if not check.negative]
            self.block(node.body)
        else:
            self.checks += [check.turned() for check in checks if check.negative and len(checks) == 1]
            self.block(node.orelse)

    def writes(self, nodes: list[ast.stmt]) -> bool:
        """Whether statements replace or write something, themselves or by a function that they call."""
        for statement in nodes:
            for node in ast.walk(statement):
                if isinstance(node, ast.Call):
                    name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
                    if name == "replace" or name in WRITERS or isinstance(self.names.get(name), Function):
                        return True
        return False

    def do_for(self, node: ast.For) -> None:
        values = self.value(node.iter)
        if isinstance(values, dict):
            values = list(values)
        if not isinstance(values, tuple | list) or len(values) > _MAX_LOOP:
            if self.writes(node.body):
                self.other(node, f"the loop over `{ast.unparse(node.iter)[:60]}` is not constant")
            return
        for value in values:
            self.bind(node.target, value)
            self.block(node.body)

    def do_while(self, node: ast.While) -> None:
        if self.writes(node.body):
            self.other(node, "a `while` loop that writes")

    def do_with(self, node: ast.With) -> None:
        for item in node.items:
            value = self.value(item.context_expr)
            if item.optional_vars is not None:
                self.bind(item.optional_vars, value)
        self.block(node.body)

    def do_try(self, node: ast.Try) -> None:
        self.block(node.body)
        self.block(node.orelse)
        self.block(node.finalbody)

    # -- values

    def value(self, node: ast.expr) -> Any:
        known = getattr(self, f"of_{type(node).__name__.lower()}", None)
        if known is not None:
            return known(node)
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.expr):
                self.value(child)
        return UNKNOWN

    def of_constant(self, node: ast.Constant) -> Any:
        return node.value

    def of_name(self, node: ast.Name) -> Any:
        return self.names.get(node.id, Name(node.id))

    def of_tuple(self, node: ast.Tuple) -> Any:
        return tuple(self.value(item) for item in node.elts)

    def of_list(self, node: ast.List) -> Any:
        return [self.value(item) for item in node.elts]

    def of_dict(self, node: ast.Dict) -> Any:
        if any(key is None for key in node.keys):
            return UNKNOWN
        keys = [self.value(key) for key in node.keys if key is not None]
        values = [self.value(item) for item in node.values]
        return dict(zip(keys, values, strict=True)) if all(isinstance(key, str | int) for key in keys) else UNKNOWN

    def of_joinedstr(self, node: ast.JoinedStr) -> Any:
        parts = [self.value(part) for part in node.values]
        return "".join(parts) if all(isinstance(part, str) for part in parts) else UNKNOWN

    def of_formattedvalue(self, node: ast.FormattedValue) -> Any:
        value = self.value(node.value)
        if node.format_spec is not None or node.conversion not in (-1, 115):
            return UNKNOWN
        return str(value) if isinstance(value, str | int | FilePath) else UNKNOWN

    def of_binop(self, node: ast.BinOp) -> Any:
        left, right = self.value(node.left), self.value(node.right)
        if isinstance(node.op, ast.Div) and isinstance(left, FilePath) and isinstance(right, str | FilePath):
            return left.join(str(right))
        if isinstance(node.op, ast.Add) and isinstance(left, str) and isinstance(right, str):
            return left + right
        if isinstance(node.op, ast.Mult) and isinstance(left, str) and isinstance(right, int) and right < _MAX_LOOP:
            return left * right
        return UNKNOWN

    def of_boolop(self, node: ast.BoolOp) -> Any:
        values = [self.value(item) for item in node.values]
        checks = tuple(value for value in values if isinstance(value, Check))
        same = len({check.negative for check in checks}) == 1
        fits = checks and same and isinstance(node.op, ast.Or) is checks[0].negative
        return checks if fits and len(checks) == len(values) else UNKNOWN

    def of_unaryop(self, node: ast.UnaryOp) -> Any:
        value = self.value(node.operand)
        if isinstance(node.op, ast.Not):
            return value.turned() if isinstance(value, Check) else (not value if isinstance(value, bool) else UNKNOWN)
        return -value if isinstance(node.op, ast.USub) and isinstance(value, int) else UNKNOWN

    def of_compare(self, node: ast.Compare) -> Any:
        left, right = self.value(node.left), self.value(node.comparators[0])
        operator = node.ops[0]
        if len(node.ops) > 1:
            return UNKNOWN
        if isinstance(operator, ast.In | ast.NotIn) and isinstance(right, FileText) and isinstance(left, str):
            return Check(path=right.path, text=left, negative=isinstance(operator, ast.NotIn))
        if isinstance(left, Check) and isinstance(right, int):
            return left.compared(operator, right)
        if isinstance(left, str | int) and isinstance(right, str | int) and isinstance(operator, ast.Eq | ast.NotEq):
            return (left == right) is isinstance(operator, ast.Eq)
        return UNKNOWN

    def of_subscript(self, node: ast.Subscript) -> Any:
        value, index = self.value(node.value), self.value(node.slice)
        if isinstance(value, Name) and value.text == "os.environ":
            return self.environment.get(index, UNKNOWN) if isinstance(index, str) else UNKNOWN
        if isinstance(value, Name) and value.text == "sys.argv":
            value = self.argv
        if isinstance(value, tuple | list) and isinstance(index, int) and -len(value) <= index < len(value):
            return value[index]
        return value.get(index, UNKNOWN) if isinstance(value, dict) and isinstance(index, str | int) else UNKNOWN

    def of_slice(self, _: ast.Slice) -> Any:
        return UNKNOWN

    def of_attribute(self, node: ast.Attribute) -> Any:
        return attribute(self.value(node.value), node.attr, self.site)

    def of_namedexpr(self, node: ast.NamedExpr) -> Any:
        value = self.value(node.value)
        self.bind(node.target, value)
        return value

    # -- calls

    def of_call(self, node: ast.Call) -> Any:
        words = [self.value(item) for item in node.args]
        named = {item.arg: self.value(item.value) for item in node.keywords if item.arg}
        if isinstance(node.func, ast.Attribute):
            owner = self.value(node.func.value)
            if not isinstance(owner, Name):
                return self.method(node, owner, node.func.attr, words, named)
        function = self.value(node.func)
        if isinstance(function, Function):
            return self.call(node, function.node, words, named)
        name = dotted(function)
        last = name.rsplit(".", 1)[-1]
        if name in ("open", "io.open", "codecs.open"):
            mode = words[1] if len(words) > 1 else named.get("mode", "r")
            return Handle(str(words[0]), mode if isinstance(mode, str) else "?") if self.is_path(words) else UNKNOWN
        if name in ("os.environ.get", "os.getenv"):
            default = words[1] if len(words) > 1 else UNKNOWN
            return self.environment.get(words[0], default) if words and isinstance(words[0], str) else UNKNOWN
        if name in ("sys.exit", "os._exit") or last in _ENDS:
            raise _EndedError
        prints = name == "print" and isinstance(named.get("file"), Handle)
        if last in WRITERS or prints or name == "os.replace" or name.startswith(_RUNNERS):
            self.other(node, f"`{ast.unparse(node)[:80]}` changes files, or runs a program that may")
            return UNKNOWN
        return constant_call(name, words, self.site)

    @staticmethod
    def is_path(words: list[Any]) -> bool:
        return bool(words) and isinstance(words[0], str | FilePath)

    def call(self, node: ast.Call, function: ast.FunctionDef, words: list[Any], named: dict[str, Any]) -> Any:
        """Follow a function of the program with the values of this call."""
        if self.depth >= _MAX_CALLS:
            self.other(node, f"{function.name} calls itself")
            return UNKNOWN
        names = [each.arg for each in (*function.args.posonlyargs, *function.args.args)]
        defaults = [self.value(each) for each in function.args.defaults]
        bound = dict(zip(names[len(names) - len(defaults) :], defaults, strict=True))
        for each, default in zip(function.args.kwonlyargs, function.args.kw_defaults, strict=True):
            bound[each.arg] = UNKNOWN if default is None else self.value(default)
        bound |= {**dict(zip(names, words, strict=False)), **named}
        outer, self.names = self.names, {**self.names, **dict.fromkeys(names, UNKNOWN), **bound}
        self.depth += 1
        try:
            self.block(function.body)
        except _ReturnedError as returned:
            return returned.value
        finally:
            self.names = outer
            self.depth -= 1
        return None

    def method(self, node: ast.Call, owner: Any, name: str, words: list[Any], named: dict[str, Any]) -> Any:
        """A call of a method: of a path, an open file, a file's text, or a constant."""
        if isinstance(owner, FilePath) and name in ("read_text", "open", "write_text"):
            mode = words[0] if words else named.get("mode", "r")
            if name == "write_text":
                return self.write(node, owner.text, words[0] if words else UNKNOWN)
            return self.read(owner.text) if name == "read_text" else Handle(owner.text, str(mode))
        if isinstance(owner, Handle):
            return self.handle(node, owner, name, words)
        if isinstance(owner, FileText):
            if name == "count" and len(words) == 1 and isinstance(words[0], str):
                return Check(path=owner.path, text=words[0], counts=True)
            if name == "replace" and len(words) >= 2:
                return self.replaced(node, owner, words, named)
            return UNKNOWN
        if name in WRITERS:
            self.other(node, f"`{ast.unparse(node)[:80]}` writes what the program does not fix")
            return UNKNOWN
        return constant_call(f"str.{name}", [owner, *words], self.site) if isinstance(owner, str | dict) else UNKNOWN

    def handle(self, node: ast.Call, owner: Handle, name: str, words: list[Any]) -> Any:
        """A method of an open file."""
        if name in ("write", "writelines"):
            return self.write(node, owner.path, words[0] if words and name == "write" else UNKNOWN)
        return self.read(owner.path) if name == "read" and not words and "b" not in owner.mode else UNKNOWN

    def replaced(self, node: ast.Call, text: FileText, words: list[Any], named: dict[str, Any]) -> Any:
        old, new = words[0], words[1]
        limit = words[2] if len(words) > 2 else named.get("count", -1)
        if not (isinstance(old, str) and old and isinstance(new, str) and isinstance(limit, int)):
            return UNKNOWN
        edit = Edit(old=old, new=new, limit=limit, line=node.lineno)
        return FileText(text.path, (*text.edits, edit))

    def read(self, path: str) -> FileText:
        return FileText(path, self.committed.get(path, ()))

    def write(self, node: ast.Call, path: str, value: Any) -> Any:
        before = self.committed.get(path, ())
        if not isinstance(value, FileText) or value.path != path or value.edits[: len(before)] != before:
            self.other(node, f"what is written to {path} is not its text with exact texts replaced")
            return None
        order = sum(len(edits) for edits in self.committed.values())
        fresh = [
            edit.numbered(order + at) if edit.order < 0 else edit for at, edit in enumerate(value.edits[len(before) :])
        ]
        self.committed[path] = (*before, *fresh)
        return None
