"""The values that `import_python` follows through a program: files, their texts, questions about them."""

from __future__ import annotations

import ast
import posixpath
import textwrap
from dataclasses import dataclass, replace
from typing import Any


class _Unknown:
    """A value that the program's constants do not fix."""

    def __repr__(self) -> str:
        return "unknown"


UNKNOWN: Any = _Unknown()

#: Names of functions and methods that change files, or run a program that may.
WRITERS = frozenset(
    [
        "write",
        "write_text",
        "write_bytes",
        "writelines",
        "unlink",
        "remove",
        "rename",
        "copy",
        "copy2",
        "copyfile",
        "copytree",
        "move",
        "rmtree",
        "symlink",
        "symlink_to",
        "system",
        "popen",
        "run",
        "call",
        "check_call",
        "check_output",
        "Popen",
        "chmod",
        "truncate",
        "exec",
        "eval",
        "execfile",
        "dump",
        "save",
        "urlretrieve",
        "extractall",
        "touch",
    ]
)


@dataclass(frozen=True, slots=True)
class Name:
    """Something that was imported or is built in, by its full name."""

    text: str


@dataclass(frozen=True, slots=True)
class Function:
    """A function that the program defines."""

    node: ast.FunctionDef


@dataclass(frozen=True, slots=True)
class FilePath:
    """A pathlib path."""

    text: str

    def join(self, other: str) -> FilePath:
        """`self / other`"""
        return FilePath(posixpath.join(self.text, other))

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True)
class Handle:
    """An open file."""

    path: str
    mode: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Edit:
    """`text.replace(old, new, limit)`"""

    old: str
    new: str
    limit: int
    line: int
    order: int = -1

    def numbered(self, order: int) -> Edit:
        """The same, written as number `order`."""
        return replace(self, order=order)


@dataclass(frozen=True, slots=True)
class FileText:
    """The text of a file after some replacements."""

    path: str
    edits: tuple[Edit, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """A question about a file's text: does `text` occur in it (`exact`: that often)? `negative`: does it not?

    With `counts` it is the number itself, before it is compared.
    """

    path: str
    text: str
    exact: int | None = None
    negative: bool = False
    counts: bool = False

    def turned(self) -> Check:
        """`not` of it."""
        return replace(self, negative=not self.negative)

    def compared(self, operator: ast.cmpop, number: int) -> Any:
        """The number compared with another one."""
        if not self.counts:
            return UNKNOWN
        plain = replace(self, counts=False)
        match operator, number:
            case ast.Eq(), 0:
                return replace(plain, negative=True)
            case ast.Eq(), _:
                return replace(plain, exact=number)
            case (ast.NotEq(), 0) | (ast.Gt(), 0) | (ast.GtE(), 1):
                return plain
            case ast.NotEq(), _:
                return replace(plain, exact=number, negative=True)
            case ast.Lt(), 1:
                return replace(plain, negative=True)
            case _:
                return UNKNOWN


def dotted(value: Any) -> str:
    """The full name of something imported or built in; "" for anything else."""
    return value.text if isinstance(value, Name) else ""


def attribute(owner: Any, name: str, site: str | None) -> Any:
    """`owner.name`"""
    if isinstance(owner, Name):
        if name in ("__file__", "__path__") and site is not None:
            folder = posixpath.join(site, owner.text.replace(".", "/"))
            return posixpath.join(folder, "__init__.py") if name == "__file__" else [folder]
        return Name(f"{owner.text}.{name}")
    if isinstance(owner, FilePath):
        parts = {"parent": FilePath(posixpath.dirname(owner.text)), "name": posixpath.basename(owner.text)}
        return parts.get(name, UNKNOWN)
    return UNKNOWN


def constant_call(name: str, words: list[Any], site: str | None) -> Any:
    """What a function of the standard library makes of constants; unknown for any other."""
    if any(not isinstance(word, str | int | FilePath | list | dict | tuple) for word in words):
        return UNKNOWN
    last = name.rsplit(".", 1)[-1]
    if last in ("Path", "PurePath", "PosixPath") and words:
        return FilePath(posixpath.join(*(str(word) for word in words)))
    if name in ("site.getsitepackages", "getsitepackages") and site is not None:
        return [site]
    if name.startswith("os.") and all(isinstance(word, str | FilePath) for word in words) and words:
        return _path_call(last, [str(word) for word in words])
    if name in ("str", "os.fspath", "fspath") and len(words) == 1 and isinstance(words[0], str | int | FilePath):
        return str(words[0])
    if name in ("textwrap.dedent", "dedent") and isinstance(words[0], str):
        return textwrap.dedent(words[0])
    return _text_call(last, words) if name.startswith("str.") else UNKNOWN


def _path_call(name: str, words: list[str]) -> Any:
    if name == "join":
        return posixpath.join(*words)
    if name in ("dirname", "basename", "normpath"):
        return getattr(posixpath, name)(words[0])
    return words[0] if name in ("abspath", "realpath", "fspath", "expanduser") and words[0][:1] == "/" else UNKNOWN


def _text_call(name: str, words: list[Any]) -> Any:
    """A method of a constant text (or mapping)."""
    owner, rest = words[0], words[1:]
    if isinstance(owner, dict):
        return [tuple(pair) for pair in owner.items()] if name == "items" and not rest else UNKNOWN
    if name == "join" and len(rest) == 1 and isinstance(rest[0], list | tuple):
        return owner.join(rest[0]) if all(isinstance(part, str) for part in rest[0]) else UNKNOWN
    plain = ("strip", "lstrip", "rstrip", "lower", "upper", "replace", "removeprefix", "removesuffix", "splitlines")
    if name in plain and all(isinstance(word, str | int) for word in rest):
        try:
            return getattr(owner, name)(*rest)
        except TypeError:
            return UNKNOWN
    return UNKNOWN
