"""The options of a program's command line, read by the rules that getopt and its relatives share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from patchkit.model.shell_types import Word

if TYPE_CHECKING:
    from collections.abc import Collection

#: Long options that take a value: of `git apply` (git-apply(1)), and of `patch` (patch(1)).
GIT_APPLY_VALUED = ("directory", "include", "exclude", "exec-path", "git-dir", "work-tree", "build-fake-ancestor")
PATCH_VALUED = (
    "strip", "directory", "input", "fuzz", "output", "prefix", "suffix", "reject-file", "reject-format", "get",
    "read-only", "quoting-style", "version-control", "ifdef", "basename-prefix",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """One option as it is called (`-p`, `--directory`), with its value if it has one."""

    name: str
    value: str | None = None
    word: Word | None = None

    @property
    def argument(self) -> Word:
        """The value as a word of its own."""
        if self.value is not None:
            return Word(text=self.value, raw=self.value)
        return self.word if self.word is not None else Word(text=None, raw=self.name, why="it has no value")


@dataclass(frozen=True, slots=True, kw_only=True)
class Parsed:
    """Options in their order, then what is no option."""

    options: tuple[Option, ...]
    operands: tuple[Word, ...]

    def last(self, *names: str) -> Option | None:
        """The last of the options that are called so; None where there is none."""
        return next((option for option in reversed(self.options) if option.name in names), None)

    def has(self, *names: str) -> bool:
        """Whether one of these options is there."""
        return self.last(*names) is not None


def parse(words: tuple[Word, ...], *, short: str, long: Collection[str]) -> Parsed:
    """Read `words` (without the program): the letters of `short` and the names in `long` take a value."""
    options: list[Option] = []
    operands: list[Word] = []
    at = 0
    while at < len(words):
        word = words[at]
        text = word.text if word.text is not None else word.raw
        following = words[at + 1] if at + 1 < len(words) else None
        at += 1
        if text == "--":
            operands += words[at:]
            break
        if word.text is None and not text.startswith("-"):
            operands.append(word)
        elif text.startswith("--"):
            name, equals, value = text.partition("=")
            if equals:
                options.append(Option(name=name, value=value if word.text is not None else None, word=word))
            elif name[2:] in long:
                options.append(Option(name=name, value=following.text if following else None, word=following))
                at += 1
            else:
                options.append(Option(name=name, word=word))
        elif text.startswith("-") and len(text) > 1:
            at += _cluster(text, word, following, short, options)
        else:
            operands.append(word)
    return Parsed(options=tuple(options), operands=tuple(operands))


def _cluster(text: str, word: Word, following: Word | None, short: str, options: list[Option]) -> int:
    """Several one-letter options in one word; return how many more words they took."""
    for at, letter in enumerate(text[1:], start=1):
        if letter not in short:
            options.append(Option(name=f"-{letter}", word=word))
            continue
        rest = text[at + 1 :]
        if rest:
            options.append(Option(name=f"-{letter}", value=rest if word.text is not None else None, word=word))
            return 0
        options.append(Option(name=f"-{letter}", value=following.text if following else None, word=following))
        return 1
    return 0
