"""The rules of the house (shared design, "House"; style): who may import whom, and how large things may be."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent / "patchkit"
MODULES = sorted(ROOT.rglob("*.py"))

#: Rows of the house, top first. A module imports only from rows below its own, and from its own package.
ROWS = (
    ("cli",),
    ("app",),
    ("waivers", "smoke", "report"),
    ("upstream", "targets"),
    ("sources",),
    ("oci",),
    ("io",),
    ("model",),
    ("core",),
)
ROW = {package: number for number, row in enumerate(ROWS) for package in row}

#: Third-party and process-starting modules that only one module of `io` (or the named one) may import.
GUARDED = {
    "requests": {"io/http.py", "io/http_failures.py"},
    "urllib3": {"io/http.py", "io/http_failures.py"},
    "rich": {"io/console.py"},
    "subprocess": {"io/process.py", "core/runs.py"},  # a bundle runs steps with nothing but core
    "docker": {"io/engine.py"},
    "yaml": {"model/yamlfile.py"},
    "jinja2": {"waivers/render.py"},
    "unidiff": {"model/diffstat.py"},
    "git": {"sources/repository.py"},
    "tree_sitter": {"model/shell_syntax.py"},
    "tree_sitter_bash": {"model/shell_syntax.py"},
}


def imports(path: Path) -> set[str]:
    """Every module that `path` imports anywhere, also inside functions."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            found.add(node.module)
            if node.module == "patchkit" or node.module.count(".") == 1:
                found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def for_checkers(path: Path) -> set[str]:
    """The names from `typing_extensions`, which type checkers bring along, if nobody else reads the import."""
    module = "typing_extensions"
    tree = ast.parse(path.read_text())
    blocks = [node for node in tree.body if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"]
    unread = [
        node for block in blocks for node in block.body if isinstance(node, ast.ImportFrom) and node.module == module
    ]
    others = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module == module]
    return {module} if len(unread) == len(others) else set()


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_imports_go_down(path: Path) -> None:
    package = name_of(path).split("/")[0]
    if package not in ROW:
        return  # patchkit/__init__.py and __main__.py stand above all rows
    for module in imports(path):
        parts = module.split(".")
        if parts[0] == "patchkit" and len(parts) > 1 and parts[1] in ROW:
            below = ROW[parts[1]] > ROW[package]
            assert below or parts[1] == package, f"{name_of(path)} imports {module}, which is not below it"


@pytest.mark.parametrize("path", [p for p in MODULES if name_of(p).startswith("core/")], ids=name_of)
def test_core_imports_the_standard_library_only(path: Path) -> None:
    for module in imports(path) - for_checkers(path):
        top = module.split(".")[0]
        assert top in sys.stdlib_module_names or module.startswith("patchkit.core"), f"{name_of(path)} imports {module}"


@pytest.mark.parametrize("library", sorted(GUARDED))
def test_one_module_an_edge(library: str) -> None:
    users = {name_of(p) for p in MODULES if any(m.split(".")[0] == library for m in imports(p))}
    assert users <= GUARDED[library], f"{library} is imported by {sorted(users - GUARDED[library])}"


def test_no_import_cycles() -> None:
    names = {("patchkit." + name_of(p)[:-3].replace("/", ".")).removesuffix(".__init__"): p for p in MODULES}
    # what is imported inside a function is needed later, when both modules are whole
    graph = {
        name: {
            module
            for node in ast.parse(path.read_text()).body
            if isinstance(node, ast.ImportFrom | ast.Import)
            for module in imports_of(node)
            if module in names and module != name
        }
        for name, path in names.items()
    }
    done: set[str] = set()

    def visit(name: str, trail: tuple[str, ...]) -> None:
        assert name not in trail, " -> ".join([*trail[trail.index(name) :], name])
        if name not in done:
            for module in graph[name]:
                visit(module, (*trail, name))
            done.add(name)

    for name in graph:
        visit(name, ())


def imports_of(node: ast.ImportFrom | ast.Import) -> set[str]:
    if isinstance(node, ast.Import):
        return {alias.name for alias in node.names}
    return {str(node.module)} | {f"{node.module}.{alias.name}" for alias in node.names}


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_sizes(path: Path) -> None:
    text = path.read_text()
    assert len(text.splitlines()) <= 500, f"{name_of(path)} has more than 500 lines"
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            length = (node.end_lineno or node.lineno) - node.lineno + 1
            assert length <= 60, f"{name_of(path)}:{node.lineno} {node.name} has {length} lines"


def test_no_exit_below_the_command_layer() -> None:
    for path in MODULES:
        if name_of(path).startswith(("cli/", "__main__", "model/schema")):
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            exits = isinstance(node, ast.Attribute) and node.attr == "exit" and getattr(node.value, "id", "") == "sys"
            assert not exits, f"{name_of(path)}: sys.exit below the command layer"


def test_no_package_registry_is_named() -> None:
    hosts = [
        ".".join(parts) for parts in (("pypi", "org"), ("pythonhosted", "org"), ("npmjs", "org"), ("debian", "org"))
    ]
    repository = ROOT.parent
    checked = 0
    for path in sorted(repository.rglob("*")):
        relative = path.relative_to(repository).as_posix()
        if relative.startswith((".git/", ".venv/", ".patchkit/", ".hypothesis/", ".mypy_cache/", ".ruff_cache/")):
            continue
        if not path.is_file() or path.suffix in {".pyc", ".so"}:
            continue
        text = path.read_bytes()
        checked += 1
        for host in hosts:
            assert host.encode() not in text, f"{relative} names {host}"
    assert checked > 100
