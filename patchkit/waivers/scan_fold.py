"""Folds the constant paths of a Python program: what its expressions mean, as far as its own text says."""

from __future__ import annotations

import ast
import posixpath
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from patchkit.waivers.exempt import words
from patchkit.waivers.scan_places import SITE

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass(frozen=True, slots=True)
class Ref:
    """Something that was imported, by its full name. `spec` says that it is the module's spec, not the module."""

    name: str
    spec: bool = False

    @property
    def top(self) -> str:
        """The package."""
        return self.name.split(".", 1)[0]


Folded: TypeAlias = "str | Ref | list[Folded] | None"

HOLE = "${value}"
_DEEPEST = 60
_LONGEST = 20_000
_CALLS = 3
_SAME = words("""
    str os.fspath os.path.abspath os.path.realpath os.path.normpath os.path.expanduser os.path.expandvars list sorted
    iter next tuple set reversed pathlib.Path pathlib.PurePath pathlib.PosixPath Path textwrap.dedent dedent
    importlib.resources.as_file enumerate os.listdir glob.glob glob.iglob open io.open bytes
    """)
_SAME_METHODS = words(
    "resolve absolute expanduser as_posix strip encode decode rstrip lstrip lower copy __str__ splitlines"
)
_SITES = words("""
    site.getsitepackages site.getusersitepackages sysconfig.get_path sysconfig.get_paths getsitepackages get_path
    distutils.sysconfig.get_python_lib get_python_lib importlib.metadata.distribution distribution
    """)
_MODULES = words("importlib.import_module __import__ import_module")
_SPECS = words("importlib.util.find_spec find_spec pkgutil.get_loader importlib.find_loader")
_FILES = words("inspect.getfile inspect.getsourcefile getfile getsourcefile")


def module_file(name: str, *, spec: bool = False) -> str:
    """The file of a module (or of the module that a class is in): its package's `__init__.py`, else NAME.py."""
    parts = [part for part in name.split(".") if part]
    while len(parts) > 1 and not spec and parts[-1][:1].isupper():
        parts.pop()
    path = posixpath.join(SITE, *parts)
    return path + "/__init__.py" if len(parts) == 1 else path + ".py"


class Folder:
    """The names of one program, and what expressions mean with them."""

    def __init__(self, environment: dict[str, str], argv: tuple[str, ...], here: str) -> None:
        self.names: dict[str, Folded] = {}
        self.environment, self.argv = environment, argv
        self.here = here
        self.depth = 0
        self.functions: dict[str, ast.FunctionDef | ast.AsyncFunctionDef] = {}
        self.tables: dict[str, ast.Dict] = {}
        self.calls = 0

    def fold(self, node: ast.expr | None) -> Folded:
        """What an expression means; None where the program does not say."""
        if node is None or self.depth > _DEEPEST:
            return None
        known: Callable[[ast.expr], Folded] | None = getattr(self, f"on_{type(node).__name__.lower()}", None)
        if known is None:
            return None
        self.depth += 1
        try:
            found = known(node)
        finally:
            self.depth -= 1
        return found if not isinstance(found, str) or len(found) < _LONGEST else None

    def text(self, node: ast.expr | None) -> str:
        """The same as a text; a hole where it is not known."""
        found = self.fold(node)
        found = found[0] if isinstance(found, list) and found else found
        return found if isinstance(found, str) else HOLE

    def on_constant(self, node: ast.Constant) -> Folded:
        if isinstance(node.value, bytes):
            return node.value.decode("utf-8", "replace")
        return node.value if isinstance(node.value, str) else None

    def on_name(self, node: ast.Name) -> Folded:
        if node.id == "__file__":
            return self.here
        return self.names.get(node.id)

    def on_joinedstr(self, node: ast.JoinedStr) -> Folded:
        parts = (self.text(v.value if isinstance(v, ast.FormattedValue) else v) for v in node.values)
        return "".join(parts)

    def on_binop(self, node: ast.BinOp) -> Folded:
        if isinstance(node.op, ast.Mod):
            left = self.fold(node.left)
            if not isinstance(left, str):
                return None
            values = node.right.elts if isinstance(node.right, ast.Tuple) else [node.right]
            texts = iter([self.text(value) for value in values])
            return re.sub(r"%[sdr]", lambda _: next(texts, HOLE), left)
        left, right = self.fold(node.left), self.fold(node.right)
        if isinstance(left, list) and isinstance(right, list) and isinstance(node.op, ast.Add):
            return [*left, *right]
        if not isinstance(left, str) and not isinstance(right, str):
            return None
        first, second = self.text(node.left), self.text(node.right)
        if isinstance(node.op, ast.Div):
            return posixpath.normpath(posixpath.join(first, second))
        return first + second if isinstance(node.op, ast.Add) else None

    def on_attribute(self, node: ast.Attribute) -> Folded:
        owner = self.fold(node.value)
        owner = owner[0] if isinstance(owner, list) and owner and node.attr == "parents" else owner
        if isinstance(owner, Ref):
            return self.of_module(owner, node.attr)
        if not isinstance(owner, str):
            return None
        match node.attr:
            case "parent":
                return posixpath.dirname(owner)
            case "parents":
                found: list[Folded] = []
                while owner not in ("/", ""):
                    owner = posixpath.dirname(owner)
                    found.append(owner)
                return found
            case "name" | "stem":
                return posixpath.basename(owner)
            case _:
                return None

    def of_module(self, owner: Ref, name: str) -> Folded:
        """An attribute of something imported."""
        if name in ("__file__", "__cached__") or (owner.spec and name == "origin"):
            return module_file(owner.name)
        if name in ("__path__", "submodule_search_locations"):
            return [posixpath.join(SITE, owner.name.replace(".", "/"))]
        if owner.name == "sys" and name == "executable":
            return "python3"
        if owner.name == "sys" and name == "argv":
            return [self.here, *self.argv]
        return Ref(f"{owner.name}.{name}")

    def on_subscript(self, node: ast.Subscript) -> Folded:
        owner = self.fold(node.value)
        if isinstance(owner, Ref) and owner.name == "os.environ":
            key = self.text(node.slice)
            return self.environment.get(key, "${" + key + "}")
        if isinstance(owner, Ref) and owner.name == "sys.modules":
            return Ref(self.text(node.slice))
        if isinstance(owner, list) and owner:
            at = node.slice.value if isinstance(node.slice, ast.Constant) else 0
            return owner[at] if isinstance(at, int) and -len(owner) <= at < len(owner) else owner[0]
        return owner if isinstance(owner, str) and not isinstance(node.slice, ast.Slice) and "/" in owner else None

    def on_list(self, node: ast.List | ast.Tuple | ast.Set) -> Folded:
        out: list[Folded] = []
        for each in node.elts:
            value = self.fold(each.value if isinstance(each, ast.Starred) else each)
            if isinstance(each, ast.Starred) and isinstance(value, list):
                out += value
            else:
                out.append(value)
        return out

    on_tuple = on_list
    on_set = on_list

    def on_dict(self, node: ast.Dict) -> Folded:
        return [self.fold(key) for key in node.keys if key is not None]

    def on_ifexp(self, node: ast.IfExp) -> Folded:
        first = self.fold(node.body)
        return first if first is not None else self.fold(node.orelse)

    def on_boolop(self, node: ast.BoolOp) -> Folded:
        return next((found for found in map(self.fold, node.values) if found is not None), None)

    def on_namedexpr(self, node: ast.NamedExpr) -> Folded:
        return self.fold(node.value)

    def on_listcomp(self, node: ast.ListComp | ast.GeneratorExp | ast.SetComp) -> Folded:
        first = node.generators[0]
        values = self.fold(first.iter)
        if isinstance(first.target, ast.Name) and isinstance(values, list) and values:
            self.names[first.target.id] = values[0]
        return [self.fold(node.elt)]

    on_generatorexp = on_listcomp
    on_setcomp = on_listcomp

    def bound(self, function: ast.FunctionDef | ast.AsyncFunctionDef, node: ast.Call) -> None:
        """Give the parameters of a local function the words of one call."""
        values = [self.fold(word) for word in node.args]
        named = {word.arg: self.fold(word.value) for word in node.keywords if word.arg}
        every = [each.arg for each in (*function.args.posonlyargs, *function.args.args)]
        for argument, default in zip(reversed(every), reversed(function.args.defaults), strict=False):
            self.names[argument] = self.fold(default)
        self.names |= dict(zip(every, values, strict=False)) | named

    def returned(self, function: ast.FunctionDef | ast.AsyncFunctionDef, node: ast.Call) -> Folded:
        """What a local function returns for the words of one call."""
        if self.calls >= _CALLS:
            return None
        before = dict(self.names)
        self.calls += 1
        self.bound(function, node)
        found: Folded = None
        for each in _statements(function.body):
            if isinstance(each, ast.Assign) and len(each.targets) == 1 and isinstance(each.targets[0], ast.Name):
                self.names[each.targets[0].id] = self.fold(each.value)
            elif isinstance(each, ast.Return) and found is None:
                found = self.fold(each.value)
        self.calls -= 1
        self.names = before
        return found

    def of_table(self, node: ast.Call) -> Folded:
        """The keys, values or pairs of a dictionary that the program writes out."""
        func = node.func
        if not isinstance(func, ast.Attribute) or func.attr not in ("items", "values", "keys"):
            return None
        table = func.value if isinstance(func.value, ast.Dict) else None
        if isinstance(func.value, ast.Name):
            table = self.tables.get(func.value.id)
        if table is None:
            return None
        keys, values = [self.fold(key) for key in table.keys], [self.fold(value) for value in table.values]
        pairs: list[Folded] = [[key, value] for key, value in zip(keys, values, strict=True)]
        return pairs if func.attr == "items" else keys if func.attr == "keys" else values

    def on_call(self, node: ast.Call) -> Folded:
        if isinstance(node.func, ast.Name) and node.func.id in self.functions:
            return self.returned(self.functions[node.func.id], node)
        if not node.args and (table := self.of_table(node)) is not None:
            return table
        name = self.called(node.func)
        values = [self.fold(arg) for arg in node.args]
        if not node.args:
            return _site(name) or self.method(node)
        if name.endswith(("Path", "PurePath", "path.join")) or (name == "join" and len(node.args) > 1):
            return posixpath.normpath(posixpath.join(*(self.text(arg) for arg in node.args)))
        if name in ("os.path.dirname", "dirname"):
            return posixpath.dirname(self.text(node.args[0]))
        if name in ("os.environ.get", "os.getenv", "getenv", "environ.get"):
            key = self.text(node.args[0])
            default = self.environment.get(key) or (values[1] if len(values) > 1 else None)
            return default if default is not None else "${" + key + "}"
        if name in _SITES:
            return _site(name)
        found = _imported(name, values)
        if found is not None:
            return found
        if name in _SAME or name.endswith(".glob"):
            return values[0]
        return self.method(node)

    def called(self, func: ast.expr) -> str:
        """The full name of a function; "" where it is none."""
        if isinstance(func, ast.Name):
            found = self.names.get(func.id)
            return found.name if isinstance(found, Ref) else func.id
        found = self.fold(func) if isinstance(func, ast.Attribute) else None
        return found.name if isinstance(found, Ref) else ""

    def method(self, node: ast.Call) -> Folded:
        """A method of a path or a text."""
        if not isinstance(node.func, ast.Attribute):
            return None
        owner = self.fold(node.func.value)
        owner = owner[0] if isinstance(owner, list) and owner else owner
        if node.func.attr == "join" and isinstance(owner, str) and len(node.args) == 1:
            parts = self.fold(node.args[0])
            return (
                owner.join(each if isinstance(each, str) else HOLE for each in parts)
                if isinstance(parts, list)
                else None
            )
        return _method(owner, node.func.attr, [self.text(arg) for arg in node.args]) if isinstance(owner, str) else None


def _statements(body: list[ast.stmt]) -> list[ast.stmt]:
    """The statements of a function, those in its blocks included, but not those of functions in it."""
    found: list[ast.stmt] = []
    for each in body:
        found.append(each)
        if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            continue
        for name in ("body", "orelse", "finalbody"):
            block = getattr(each, name, None)
            found += _statements(block) if isinstance(block, list) else []
    return found


def _method(owner: str, name: str, texts: list[str]) -> Folded:
    match name:
        case "joinpath" | "locate_file":
            return posixpath.join(owner, *texts)
        case "glob" | "rglob":
            return [posixpath.join(owner, *texts)]
        case "iterdir":
            return [posixpath.join(owner, "x.py")]
        case "with_name" if texts:
            return posixpath.join(posixpath.dirname(owner), texts[0])
        case "with_suffix" if texts:
            return posixpath.splitext(owner)[0] + texts[0]
        case "format":
            return _formatted(owner, texts)
        case "replace" if len(texts) > 1 and texts[0]:
            return owner.replace(texts[0], texts[1])
        case "split":
            return list(owner.split(texts[0] if texts and texts[0] else None))
        case _:
            return owner if name in _SAME_METHODS else None


def _site(name: str) -> Folded:
    """The site, if a function of that name tells it."""
    if name not in _SITES:
        return None
    return [SITE] if name.endswith("packages") else SITE


def _imported(name: str, values: list[Folded]) -> Folded:
    """What functions that look modules up return."""
    first = values[0]
    if name == "getattr" and isinstance(first, Ref) and len(values) > 1 and isinstance(values[1], str):
        return Ref(f"{first.name}.{values[1]}")
    if name in _FILES and isinstance(first, Ref):
        return module_file(first.name)
    if name in ("importlib.resources.files", "resources.files", "files"):
        package = first.name if isinstance(first, Ref) else first if isinstance(first, str) else HOLE
        return posixpath.join(SITE, package.replace(".", "/"))
    if not isinstance(first, str):
        return None
    if name in _MODULES:
        return Ref(first)
    return Ref(first, spec=True) if name in _SPECS else None


def _formatted(text: str, values: list[str]) -> str:
    left = iter(values)
    return re.sub(r"\{[^{}]*\}", lambda _: next(left, HOLE), text)
