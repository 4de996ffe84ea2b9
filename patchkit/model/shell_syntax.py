"""The one module that knows tree-sitter: a shell script's text in, its syntax tree out.

What the grammar does not understand is an error with its line: a tree with a gap is never handed on.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

import tree_sitter_bash
from tree_sitter import Language, Node, Parser

from patchkit.model.shell_heredocs import Heredoc, ShellSyntaxError, cut

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["Node", "lenient", "named", "parse", "source"]

_SHOWN = 10
_WIDTH = 60
_PIECES = 20
_MOST = 2_000_000  # of one script that is read leniently
_RESERVED = frozenset(("}", "{", "then", "elif", "else", "fi", "do", "done", "esac"))


@cache
def _parser() -> Parser:
    return Parser(Language(tree_sitter_bash.language()))


def parse(text: str) -> tuple[Node, tuple[Heredoc, ...]]:
    """Return the root of the script's tree, and its here-documents. Raises ShellSyntaxError."""
    code, heredocs = cut(text)
    data = code.encode("utf-8", "surrogateescape")
    root = _parser().parse(data).root_node
    if root.has_error:
        places = list(dict.fromkeys(_errors(root, data)))
        raise ShellSyntaxError(*sorted(places)[:_SHOWN])
    lost = _gap(root, data)
    if lost is not None:
        raise ShellSyntaxError(lost)
    return root, heredocs


def lenient(text: str) -> Iterator[tuple[Node, tuple[Heredoc, ...], int]]:
    """The trees of what can be read of a script, each with the number of lines before it. Never raises.

    bash reads a script piece by piece: what stands before a quote that is never closed runs, so it is read.
    """
    offset = 0
    for _ in range(_PIECES):
        try:
            code, heredocs = cut(text, lenient=True)
            rest = ""
            broken = 0
        except ShellSyntaxError as error:
            broken = max(error.places[0][0], 1)
            lines = text.split("\n")
            rest = "\n".join(lines[broken:])
            try:
                code, heredocs = cut("\n".join(lines[: broken - 1]) + "\n", lenient=True)
            except ShellSyntaxError:
                code, heredocs = "", ()
        if len(code) <= _MOST:
            yield _parser().parse(code.encode("utf-8", "surrogateescape")).root_node, heredocs, offset
        if not rest:
            return
        text, offset = rest, offset + broken


def source(node: Node) -> str:
    """The text of a node."""
    return (node.text or b"").decode("utf-8", "surrogateescape")


def named(node: Node) -> list[Node]:
    """The node's children without punctuation and comments."""
    return [child for child in node.children if child.is_named and child.type != "comment"]


def _errors(root: Node, data: bytes) -> Iterator[tuple[int, str]]:
    """Every place that the grammar stumbled over, with its line."""
    waiting = [root]
    while waiting:
        node = waiting.pop()
        line = node.start_point[0] + 1
        if node.is_missing:
            yield _last_line(node, data), f"expected {node.type!r} here, or before"
        elif node.is_error:
            yield line, f"not understood as bash from here: {_shown(source(node))}"
        elif node.has_error:
            waiting += node.children


def _last_line(node: Node, data: bytes) -> int:
    """The line of the last code before a place where something is missing."""
    return data.count(b"\n", 0, len(data[: node.start_byte].rstrip())) + 1


def _gap(root: Node, data: bytes) -> tuple[int, str] | None:
    """The first piece of code that is in no leaf of the tree, or a reserved word that the grammar took for
    a command; None where there is neither."""
    cursor = root.walk()
    end = 0
    while True:
        node = cursor.node
        assert node is not None
        if node.type == "command_name" and source(node) in _RESERVED:
            return node.start_point[0] + 1, f"not expected here: {source(node)}"
        whole = node.type in ("string", "comment", "raw_string", "regex")  # read as a whole, from the text
        if (whole or not node.child_count) and node.end_byte > end:
            between = data[end : node.start_byte].replace(b"\\\n", b"").replace(b"\\\r\n", b"")
            if between.strip():
                line = data.count(b"\n", 0, node.start_byte) + 1
                return line, f"not understood as bash: {_shown(between.decode('utf-8', 'replace').strip())}"
            end = node.end_byte
        if not whole and cursor.goto_first_child():
            continue
        while not cursor.goto_next_sibling():
            if not cursor.goto_parent():
                return None


def _shown(text: str) -> str:
    first = text.strip().split("\n", 1)[0]
    first = first if len(first) <= _WIDTH else first[:_WIDTH] + "…"
    return "".join(c if c.isprintable() else c.encode("unicode_escape", "surrogatepass").decode() for c in first)
