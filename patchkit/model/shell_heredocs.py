"""Takes the here-documents out of a shell script, so that what is left is code alone.

A grammar for code is at its weakest where text follows that is no code. So the bodies go first, by
bash's own rules: each operator becomes `< NAME`, a plain redirection that the parser knows well, and
the lines of the body become empty ones, so that every line keeps its number.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_JUMP = re.compile(r"""[\\'"`$#<>()\n}]|\b(?:case|esac)\b""")
_JUMP_QUOTED = re.compile(r'[\\"`$]')
_NAME = "__patchkit_heredoc_{}__"
_NUMBER = re.compile(r"__patchkit_heredoc_(\d+)__")
_BLANK = " \t"
_WORD_END = " \t\n;&|<>()"
_ANSI_END = re.compile(r"(?:[^\\']|\\.)*'", re.DOTALL)


class ShellSyntaxError(ValueError):
    """Text that is no shell script. `places` holds a line and a reason each."""

    def __init__(self, *places: tuple[int, str]) -> None:
        super().__init__("; ".join(f"line {line}: {why}" for line, why in places))
        self.places = places


@dataclass(frozen=True, slots=True, kw_only=True)
class Heredoc:
    """One here-document: `line` is that of its operator, `body_line` that of the first line of its body."""

    line: int
    body_line: int
    body: str
    quoted: bool


@dataclass(slots=True)
class _Pending:
    """An operator that has been read, whose body is still to come."""

    line: int
    delimiter: str
    quoted: bool
    tabs: bool


@dataclass(slots=True)
class _Context:
    """Where the reader is: `kind` is code, (, ", ${, ((, or `; `cases` counts open `case` words."""

    kind: str
    line: int
    cases: int = 0


def number_of(target: str) -> int | None:
    """Which here-document a redirection's target stands for; None where it is a file."""
    match = _NUMBER.fullmatch(target)
    return None if match is None else int(match[1])


def cut(text: str, *, lenient: bool = False) -> tuple[str, tuple[Heredoc, ...]]:
    """Return the script without its here-documents, and those. Raises ShellSyntaxError.

    With `lenient`, one that is never closed reaches to the end of the script, as bash has it.
    """
    return _Reader(text, lenient=lenient).run()


class _Reader:
    def __init__(self, text: str, *, lenient: bool = False) -> None:
        self.text = text
        self.lenient = lenient
        self.at = 0
        self.copied = 0
        self.out: list[str] = []
        self.line = 1
        self.counted = 0
        self.contexts = [_Context("code", 1)]
        self.pending: list[_Pending] = []
        self.found: list[Heredoc | None] = []
        self.numbers: list[int] = []

    def run(self) -> tuple[str, tuple[Heredoc, ...]]:
        text = self.text
        while self.at < len(text):
            kind = self.contexts[-1].kind
            match = (_JUMP_QUOTED if kind == '"' else _JUMP).search(text, self.at)
            if match is None:
                break
            self.at = match.start()
            if kind == '"':
                self.in_quotes(text[self.at])
            elif len(match[0]) > 1:
                self.contexts[-1].cases += 1 if match[0] == "case" else -1
                self.at = match.end()
            else:
                self.in_code(text[self.at], kind)
        if self.pending and not self.lenient:
            raise self.unclosed(self.pending[0])
        self.bodies()
        for context in self.contexts[1:]:
            if context.kind in ('"', "`"):
                raise ShellSyntaxError((context.line, f"a {context.kind} that is never closed"))
        self.out.append(text[self.copied :])
        return "".join(self.out), tuple(doc for doc in self.found if doc is not None)

    def here(self) -> int:
        """The line of the place that is being read."""
        self.line += self.text.count("\n", self.counted, self.at)
        self.counted = self.at
        return self.line

    def push(self, kind: str, width: int) -> None:
        self.contexts.append(_Context(kind, self.here()))
        self.at += width

    def dollar(self) -> None:
        """`$(`, `${`, `$((` and `$'`, which are the same inside double quotes and outside (but the last)."""
        rest = self.text[self.at + 1 : self.at + 3]
        if rest == "((":
            self.push("((", 3)
        elif rest[:1] == "(":
            self.push("(", 2)
        elif rest[:1] == "{":
            self.push("${", 2)
        elif rest[:1] == "'" and self.contexts[-1].kind != '"':
            end = _ANSI_END.match(self.text, self.at + 2)
            if end is None:
                raise ShellSyntaxError((self.here(), "a $' that is never closed"))
            self.at = end.end()
        else:
            self.at += 2 if rest[:1] in ("#", "$") else 1

    def in_quotes(self, char: str) -> None:
        if char == "\\":
            self.at += 2
        elif char == '"':
            self.contexts.pop()
            self.at += 1
        elif char == "`":
            self.push("`", 1)
        else:
            self.dollar()

    def in_code(self, char: str, kind: str) -> None:
        if char == "\\":
            self.at += 2
        elif char == "'":
            self.single(kind)
        elif char == '"':
            self.push('"', 1)
        elif char == "`":
            self.backtick(kind)
        elif char == "$":
            self.dollar()
        elif char == "\n":
            self.newline(kind)
        elif char == "#":
            self.comment(kind)
        else:
            (self.angle if char in "<>" else self.bracket)(char, kind)

    def backtick(self, kind: str) -> None:
        if kind == "`":
            self.contexts.pop()
            self.at += 1
        else:
            self.push("`", 1)

    def newline(self, kind: str) -> None:
        self.at += 1
        if self.pending and kind in ("code", "(", "`"):
            self.bodies()

    def single(self, kind: str) -> None:
        if kind == "${" and len(self.contexts) > 1 and self.contexts[-2].kind == '"':
            self.at += 1  # a plain character there
            return
        end = self.text.find("'", self.at + 1)
        if end < 0:
            raise ShellSyntaxError((self.here(), "a ' that is never closed"))
        self.at = end + 1

    def comment(self, kind: str) -> None:
        before = self.text[self.at - 1] if self.at else "\n"
        if kind in ("code", "(", "`") and before in " \t\n;&|(":
            end = self.text.find("\n", self.at)
            self.at = len(self.text) if end < 0 else end
        else:
            self.at += 1

    def bracket(self, char: str, kind: str) -> None:
        context = self.contexts[-1]
        if char == "}":
            if kind == "${":
                self.contexts.pop()
            self.at += 1
        elif char == "(":
            double = self.text.startswith("((", self.at) and kind != "((("
            before = self.text[self.at - 1] if self.at else "\n"
            if double and kind not in ("((", "(((") and before in " \t\n;&|(":
                self.push("((", 2)
            else:
                self.push("(((" if kind in ("((", "(((") else "(", 1)
        elif kind == "((":
            if self.text.startswith("))", self.at):
                self.contexts.pop()
                self.at += 1
            self.at += 1
        else:
            if kind == "(((" or (kind == "(" and context.cases <= 0):
                self.contexts.pop()
            self.at += 1

    def angle(self, char: str, kind: str) -> None:
        text = self.text
        if text.startswith("<<<", self.at):
            self.at += 3
        elif text.startswith("<<", self.at) and kind in ("code", "(", "`"):
            self.operator()
        elif text.startswith(char + "(", self.at) and kind not in ("((", "((("):
            self.push("(", 2)
        else:
            self.at += 1

    def operator(self) -> None:
        """Read `<<`, `<<-` and the delimiter, and put a redirection in their place."""
        start, line = self.at, self.here()
        self.at += 2
        tabs = self.text.startswith("-", self.at)
        self.at += tabs
        while self.text[self.at : self.at + 1] in tuple(_BLANK):
            self.at += 1
        delimiter, quoted = self.delimiter(line)
        self.out += [self.text[self.copied : start], "< ", _NAME.format(len(self.found))]
        self.copied = self.at
        self.pending.append(_Pending(line, delimiter, quoted, tabs))
        self.numbers.append(len(self.found))
        self.found.append(None)

    def delimiter(self, line: int) -> tuple[str, bool]:
        word, quoted, start = "", False, self.at
        while self.at < len(self.text) and self.text[self.at] not in _WORD_END:
            char = self.text[self.at]
            if char in "'\"":
                end = self.text.find(char, self.at + 1)
                if end < 0:
                    raise ShellSyntaxError((line, f"a {char} that is never closed"))
                word, quoted, self.at = word + self.text[self.at + 1 : end], True, end + 1
            elif char == "\\":
                word, quoted, self.at = word + self.text[self.at + 1 : self.at + 2], True, self.at + 2
            else:
                word, self.at = word + char, self.at + 1
        if start == self.at:
            raise ShellSyntaxError((line, "a here-document (<<) without a word that ends it"))
        return word, quoted

    def bodies(self) -> None:
        """Read the bodies that start in this line, in the order of their operators."""
        for waiting, number in zip(self.pending, self.numbers, strict=True):
            first = self.here()
            start, lines = self.at, list[str]()
            while True:
                if self.at >= len(self.text):
                    if self.lenient:
                        break
                    raise self.unclosed(waiting)
                end = self.text.find("\n", self.at)
                end = len(self.text) if end < 0 else end
                line = self.text[self.at : end]
                line = line.lstrip("\t") if waiting.tabs else line
                self.at = min(end + 1, len(self.text))
                if line == waiting.delimiter:
                    break
                lines.append(line + "\n")
            body = "".join(lines)
            self.found[number] = Heredoc(line=waiting.line, body_line=first, body=body, quoted=waiting.quoted)
            self.out += [self.text[self.copied : start], "\n" * self.text.count("\n", start, self.at)]
            self.copied = self.at
        self.pending, self.numbers = [], []

    @staticmethod
    def unclosed(waiting: _Pending) -> ShellSyntaxError:
        why = f"a here-document that is never closed: no line is {waiting.delimiter!r} alone"
        return ShellSyntaxError((waiting.line, why))
