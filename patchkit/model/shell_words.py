"""Expands the words of a shell command, as far as the script alone says what they are.

Quotes, escapes, variables, `${x:-default}` and its relatives, command substitutions that only handle
text, word splitting and file names with wild cards follow bash. Everything else is not constant, and
says why.
"""

from __future__ import annotations

import fnmatch
import posixpath
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeAlias

from patchkit.model.shell_syntax import Node, source
from patchkit.model.shell_types import Word

if TYPE_CHECKING:
    from collections.abc import Iterator


@dataclass(frozen=True, slots=True)
class Unknown:
    """A value that the script alone does not fix. `unset`: no line of the script assigns it."""

    why: str
    unset: bool = False


Text: TypeAlias = "str | Unknown"
Value: TypeAlias = "str | Unknown | tuple[Text, ...]"

_PARAM = re.compile(r"([!#]?)([A-Za-z_]\w*|\d+|[@*#?$!-])(?:\[([^\]]*)\])?(.*)", re.DOTALL)
_OPERATOR = re.compile(r"(:?[-=+?]|##?|%%?|//?|:)(.*)", re.DOTALL)
_QUOTED_WORD = re.compile(r":?[-=+]([\"']).*\1", re.DOTALL)
_SLASH = re.compile(r"(?<!\\)/")
_NAME = re.compile(r"[A-Za-z_]\w*|\d|[@*#?$!-]")
_ESCAPES = dict(zip("ntrabefvE\\'\"?", "\n\t\r\a\b\x1b\f\v\x1b\\'\"?", strict=True))
_ANSI = re.compile(r"\\(x[0-9a-fA-F]{1,2}|u[0-9a-fA-F]{1,4}|U[0-9a-fA-F]{1,8}|[0-7]{1,3}|.)", re.DOTALL)
_SPECIAL = re.compile(r"[\\$`]")
_LONGEST = 100_000  # of one expansion amid text
_BRACES = re.compile(r"\{[^${}]*(,|\.\.).*\}")
_WILD = re.compile(r"[*?\[]")
_EXPANSIONS = ("simple_expansion", "expansion", "command_substitution", "arithmetic_expansion", "process_substitution")


class Scope(Protocol):
    """What a word is expanded in."""

    def lookup(self, name: str) -> Value: ...
    def positional(self, name: str) -> Value: ...
    def assign(self, name: str, value: Value) -> None: ...
    def assume(self, name: str, value: str) -> None: ...
    def substitute(self, node: Node) -> Text: ...
    def substitute_text(self, text: str) -> Text: ...
    def glob(self, pattern: str) -> tuple[str, ...]: ...
    def unknown(self, raw: str, value: Unknown) -> Text: ...


@dataclass(frozen=True, slots=True)
class _Piece:
    """A part of a word: unquoted text is split and matched; `ends` starts a new word after it."""

    text: Text
    quoted: bool = True
    ends: bool = False


def expand(node: Node, scope: Scope) -> list[Word]:
    """Every word that `node` stands for, in order; none where an unquoted variable is empty."""
    raw = source(node)
    pieces = list(_pieces(node, scope))
    words: list[Word] = []
    for group in _grouped(pieces):
        words += _words(group, raw, scope)
    if not pieces:
        words.append(Word(text="", raw=raw))
    return words


def single(node: Node, scope: Scope) -> Text:
    """The one text that `node` stands for where no word is split: in an assignment, a test, a redirection."""
    return _joined(list(_pieces(node, scope)))


def _grouped(pieces: list[_Piece]) -> Iterator[list[_Piece]]:
    group: list[_Piece] = []
    for piece in pieces:
        group.append(piece)
        if piece.ends:
            yield group
            group = []
    if group:
        yield group


def _joined(pieces: list[_Piece]) -> Text:
    texts: list[str] = []
    for at, piece in enumerate(pieces):
        if isinstance(piece.text, Unknown):
            return piece.text
        texts.append(piece.text)
        if piece.ends and at + 1 < len(pieces):
            texts.append(" ")
    return "".join(texts)


def _words(group: list[_Piece], raw: str, scope: Scope) -> Iterator[Word]:
    """Split the unquoted parts of one word, then match wild cards."""
    fields: list[list[_Piece]] = [[]]
    for piece in group:
        if isinstance(piece.text, Unknown):
            yield Word(text=None, raw=raw, why=piece.text.why)
            return
        if piece.quoted or not re.search(r"[ \t\n]", piece.text):
            fields[-1].append(piece)
            continue
        parts = re.split(r"[ \t\n]+", piece.text)
        fields[-1].append(_Piece(parts[0], quoted=False))
        fields += [[_Piece(part, quoted=False)] for part in parts[1:]]
    for field in fields:
        text = "".join(piece.text for piece in field if isinstance(piece.text, str))
        if not text and not any(piece.quoted for piece in field):
            continue
        wild = any(not piece.quoted and _WILD.search(str(piece.text)) for piece in field)
        found = scope.glob(text) if wild else ()
        if any(not piece.quoted and _BRACES.search(str(piece.text)) for piece in field):
            yield _word(text, raw, "braces that stand for several words", scope)
        elif found:
            yield from (Word(text=name, raw=raw) for name in found)
        elif wild and "/" in text:
            yield _word(text, raw, f"no file at hand matches {text}", scope)
        else:
            yield Word(text=text, raw=raw)


def _word(text: str, raw: str, why: str, scope: Scope) -> Word:
    """A word whose value the scope may still want to give."""
    value = scope.unknown(text, Unknown(why))
    return Word(text=None, raw=raw, why=value.why) if isinstance(value, Unknown) else Word(text=value, raw=raw)


def _pieces(node: Node, scope: Scope, *, quoted: bool = False) -> Iterator[_Piece]:
    """The parts of the word that `node` is."""
    kind = node.type
    if kind in ("concatenation", "command_name"):
        if any(child.type == "word" and source(child) == "{" for child in node.children):
            yield _Piece(scope.unknown(source(node), Unknown("braces that stand for several words")))
            return
        for child in node.children:
            yield from _pieces(child, scope, quoted=quoted)
    elif kind == "string":
        yield from _string(node, scope)
    elif kind in ("raw_string", "ansi_c_string"):
        text = source(node)
        yield _Piece(text[1:-1] if kind == "raw_string" else _ansi(text[2:-1]))
    elif kind in _EXPANSIONS or kind == "brace_expression":
        yield from _expansion(node, scope, quoted=quoted)
    else:
        yield from _plain(source(node), scope)


def _expansion(node: Node, scope: Scope, *, quoted: bool) -> Iterator[_Piece]:
    if node.type == "simple_expansion":
        yield from _parameter(source(node)[1:], scope, quoted=quoted)
    elif node.type == "expansion":
        yield from _parameter(source(node)[2:-1], scope, quoted=quoted)
    elif node.type == "command_substitution":
        yield _Piece(scope.substitute(node), quoted=quoted)
    else:
        if node.type == "process_substitution":
            scope.substitute(node)  # its commands run, whatever they print
        raw = source(node)
        yield _Piece(scope.unknown(raw, Unknown(f"{raw.splitlines()[0]} is not evaluated")))


def _plain(text: str, scope: Scope) -> Iterator[_Piece]:
    """A word without quotes: a backslash quotes the character behind it."""
    if text.startswith("~"):
        yield _Piece(scope.unknown(text, Unknown("~ depends on who runs the script")))
        return
    at = 0
    for match in re.finditer(r"\\(.)", text, re.DOTALL):
        if match.start() > at:
            yield _Piece(text[at : match.start()], quoted=False)
        if match[1] != "\n":
            yield _Piece(match[1])
        at = match.end()
    if at < len(text):
        yield _Piece(text[at:], quoted=False)


def _string(node: Node, scope: Scope) -> Iterator[_Piece]:
    """A string in double quotes: what lies between its expansions is text, blanks included."""
    data = node.text or b""
    base = node.start_byte
    at = data.index(b'"') + 1
    yield _Piece("")
    for child in node.children:
        if child.type not in _EXPANSIONS:
            continue
        yield _Piece(_unescape(data[at : child.start_byte - base].decode("utf-8", "surrogateescape")))
        yield from _pieces(child, scope, quoted=True)
        at = child.end_byte - base
    yield _Piece(_unescape(data[at : len(data) - 1].decode("utf-8", "surrogateescape")))


def _unescape(text: str) -> str:
    return re.sub(r"\\([\\\"$`\n])", lambda match: "" if match[1] == "\n" else match[1], text)


def _ansi(text: str) -> str:
    def one(match: re.Match[str]) -> str:
        code = match[1]
        if code[0] in "uU" and len(code) > 1:
            return chr(min(int(code[1:], 16), 0x10FFFF))
        if (code[0] == "x" and len(code) > 1) or code.isdigit():
            number = int(code, 8) if code.isdigit() else int(code[1:], 16)
            return bytes([number & 0xFF]).decode("utf-8", "surrogateescape")
        return _ESCAPES.get(code, "\\" + code)

    joined = _ANSI.sub(one, text)
    try:  # the bytes of one character may have been written one by one
        return joined.encode("utf-8", "surrogateescape").decode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return joined


def interpolate(text: str, scope: Scope) -> Text:
    """The body of a here-document whose delimiter has no quotes."""
    out: list[str] = []
    at = 0
    while (match := _SPECIAL.search(text, at)) is not None:
        out.append(text[at : match.start()])
        at = match.start()
        rest = text[at + 1 : at + 1 + _LONGEST]
        if match[0] == "\\":
            if rest[:1] in ("\\", "$", "`", "\n") and rest:
                out.append("" if rest[0] == "\n" else rest[0])
                at += 2
            else:
                out.append("\\")
                at += 1
            continue
        value, width = _embedded(match[0], rest, scope)
        if isinstance(value, Unknown):
            return value
        out.append(value)
        at += width
    out.append(text[at:])
    return "".join(out)


def _embedded(char: str, rest: str, scope: Scope) -> tuple[Text, int]:
    """What an expansion amid text stands for, and how many characters it takes."""
    if char == "`":
        end = rest.find("`")
        return (scope.substitute_text(rest[:end]), end + 2) if end >= 0 else ("`", 1)
    name = _NAME.match(rest)
    if name is not None:
        return _joined(list(_parameter(name[0], scope, quoted=True))), len(name[0]) + 1
    if rest[:1] not in ("{", "(") or not rest:
        return "$", 1
    closed = _closing(rest)
    end = closed if closed is not None else -1
    if end < 0:
        return Unknown(f"${rest[:20]!r} is never closed"), 1
    if rest.startswith("(("):
        return Unknown("arithmetic is not evaluated"), end + 2
    if rest[0] == "(":
        return scope.substitute_text(rest[1:end]), end + 2
    return _joined(list(_parameter(rest[1:end], scope, quoted=True))), end + 2


def _closing(text: str) -> int | None:
    """Where the bracket that `text` starts with is closed."""
    opening, closing, depth = text[0], {"(": ")", "{": "}"}[text[0]], 0
    for at, char in enumerate(text):
        depth += (char == opening) - (char == closing)
        if depth == 0:
            return at
    return None


def _parameter(text: str, scope: Scope, *, quoted: bool) -> Iterator[_Piece]:
    """`$text` or `${text}`."""
    match = _PARAM.fullmatch(text)
    if match is None:
        yield _Piece(scope.unknown("${" + text + "}", Unknown(f"${{{text}}} is not evaluated")))
        return
    mark, name, index, rest = match.groups()
    value = scope.lookup(name) if name[0].isalpha() or name[0] == "_" else scope.positional(name)
    if mark:
        yield _Piece(_counted(mark, name, value, text, scope), quoted=quoted)
        return
    if index is not None:
        value = _indexed(value, index)
    elif isinstance(value, tuple) and name not in ("@", "*"):
        value = value[0] if value else ""
    if rest:
        quoted = quoted or _QUOTED_WORD.fullmatch(rest) is not None
        value = _operated(value, name, rest, scope)
    if quoted and isinstance(value, tuple) and "*" in (name, index):
        value = _joined([_Piece(item, ends=True) for item in value])
    if isinstance(value, Unknown):
        value = scope.unknown("${" + name + "}", value)
    if not isinstance(value, tuple):
        yield _Piece(value, quoted=quoted)
        return
    for at, item in enumerate(value):
        yield _Piece(item, quoted=quoted, ends=at + 1 < len(value))


def _counted(mark: str, name: str, value: Value, text: str, scope: Scope) -> Text:
    if mark == "#" and isinstance(value, tuple):
        return str(len(value))
    if mark == "#" and isinstance(value, str):
        return str(len(value))
    if mark == "!" and isinstance(value, str) and text == f"!{name}":
        found = scope.lookup(value)
        return found if not isinstance(found, tuple) else Unknown(f"${{{text}}} is an array")
    return Unknown(f"${{{text}}} is not evaluated")


def _indexed(value: Value, index: str) -> Value:
    if isinstance(value, Unknown):
        return value
    items = value if isinstance(value, tuple) else (value,)
    if index in ("@", "*"):
        return items
    if index.isdigit():
        return items[int(index)] if int(index) < len(items) else ""
    return Unknown(f"[{index}] is not evaluated")


def _operated(value: Value, name: str, rest: str, scope: Scope) -> Value:
    """What `${name<rest>}` makes of the value."""
    match = _OPERATOR.fullmatch(rest)
    if match is None:
        return Unknown(f"${{{name}{rest}}} is not evaluated")
    operator, word = match.groups()
    if operator.lstrip(":") in ("-", "=", "+", "?") and operator != ":":
        return _defaulted(value, name, operator, word, scope)
    if not isinstance(value, str):
        return value if isinstance(value, Unknown) else Unknown(f"${{{name}{rest}}} is not evaluated")
    if operator == ":":
        numbers = re.fullmatch(r"(\d+)(?::(\d+))?", word)
        if numbers is None:
            return Unknown(f"${{{name}{rest}}} is not evaluated")
        start = int(numbers[1])
        return value[start : start + int(numbers[2])] if numbers[2] else value[start:]
    if operator in ("/", "//"):
        old, *new = _SLASH.split(word, maxsplit=1)
        plain, put = _argument(old.replace("\\/", "/"), scope), _argument("".join(new), scope)
        if isinstance(plain, Unknown) or isinstance(put, Unknown) or _WILD.search(plain) or plain[:1] in ("#", "%"):
            return Unknown(f"${{{name}{rest}}} is not evaluated")
        return value.replace(plain, put, 1 if operator == "/" else -1) if plain else value
    pattern = _argument(word, scope)
    return pattern if isinstance(pattern, Unknown) else _trimmed(value, operator, pattern)


def _defaulted(value: Value, name: str, operator: str, word: str, scope: Scope) -> Value:
    """`:-`, `:=`, `:+`, `:?` and the same without a colon. A variable that no line sets is taken as unset."""
    unset = isinstance(value, Unknown) and value.unset
    if isinstance(value, Unknown) and not unset:
        return value
    empty = unset or (operator[0] == ":" and value in ("", ()))
    if operator[-1] == "?":
        return value
    if operator[-1] == "+":
        return "" if empty else _argument(word, scope)
    if not empty:
        return value
    default = _argument(word, scope)
    if unset and isinstance(default, str):
        scope.assume(name, default)
    if operator[-1] == "=":
        scope.assign(name, default)
    return default


def _argument(word: str, scope: Scope) -> Text:
    """The word behind an operator, its quotes taken off."""
    if len(word) > 1 and word[0] == word[-1] == "'":
        return word[1:-1]
    return interpolate(re.sub(r'(?<!\\)"', "", word), scope)


def _trimmed(value: str, operator: str, pattern: str) -> str:
    """`#`, `##`, `%` and `%%`: the shortest or longest match at the front or the end goes."""
    front = operator[0] == "#"
    sizes = range(len(value) + 1) if len(operator) == 1 else range(len(value), -1, -1)
    for size in sizes:
        part = value[:size] if front else value[len(value) - size :]
        if fnmatch.fnmatchcase(part, pattern):
            return value[size:] if front else value[: len(value) - size]
    return value


def glob_matches(pattern: str, names: tuple[str, ...]) -> tuple[str, ...]:
    """The paths among `names` (all in one folder) that a pattern with wild cards in its last part matches."""
    folder, last = posixpath.split(pattern)
    hits = [name for name in names if fnmatch.fnmatchcase(name, last) and not name.startswith(".")]
    return tuple(posixpath.join(folder, name) for name in sorted(hits))
