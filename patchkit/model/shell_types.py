"""What a shell script consists of, once read: commands in the order in which they run. Frozen, without behaviour."""

from __future__ import annotations

import posixpath
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Mapping

Relation: TypeAlias = Literal["then", "else", "and", "or", "loop", "case", "uncalled", "trap"]

#: Programs that run another one, and which of their options take a value.
_WRAPPERS: Mapping[str, str] = {
    "sudo": "ugpChrt",
    "env": "uC",
    "command": "",
    "builtin": "",
    "exec": "a",
    "time": "fo",
    "nice": "n",
    "nohup": "",
    "stdbuf": "ioe",
    "timeout": "ks",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Word:
    """One word of a command. `text` is None where the file alone does not fix it: `why` says what it needs."""

    text: str | None
    raw: str
    why: str = ""

    @property
    def shown(self) -> str:
        """The word's value, or how it is written where the value is not known."""
        return self.raw if self.text is None else self.text


@dataclass(frozen=True, slots=True, kw_only=True)
class Content:
    """What a file or a stream holds. `text` is None where the script alone does not fix it: `why` says
    where it comes from, `url` if that is an address. `line` is the line of the script where the text stands."""

    text: str | None
    why: str = ""
    line: int = 0
    url: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Redirect:
    """One redirection; here-documents and here-strings are in the command's `stdin`."""

    fd: int | None
    operator: str
    target: Word

    @property
    def writes(self) -> bool:
        """Whether a file is written."""
        return self.operator in (">", ">>", ">|", "&>", "&>>")


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """What must hold for a command to run: `commands` succeed (or fail, for `else` and `or`).

    A command under `trap` runs at the end, or at a signal. `held` is what the script's own constants say: True, False, or None where they do not decide.
    """

    line: int
    relation: Relation
    raw: str
    commands: tuple[Command, ...] = ()
    held: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """One command as it runs: `line` is where it stands, `calls` the lines of the calls that lead there.

    `files` are the files that the script has written by then; `tolerated` the `|| ...` behind it;
    `tested` says that it is part of a condition; `environment` is what Python sees of the exported variables.
    """

    line: int
    words: tuple[Word, ...]
    raw: str
    redirects: tuple[Redirect, ...] = ()
    env: tuple[tuple[str, Word], ...] = ()
    stdin: Content | None = None
    cwd: str | None = None
    files: Mapping[str, Content] = field(default_factory=lambda: MappingProxyType({}))
    conditions: tuple[Condition, ...] = ()
    calls: tuple[int, ...] = ()
    tolerated: str = ""
    tested: bool = False
    environment: tuple[tuple[str, str], ...] = ()

    @property
    def argv(self) -> tuple[Word, ...]:
        """The words without `sudo`, `env A=B`, `timeout 60` and the like in front."""
        return unwrapped(self.words)

    @property
    def program(self) -> str | None:
        """The name of the program, without its folder; None where it is not constant."""
        argv = self.argv
        text = argv[0].text if argv else None
        return None if text is None else posixpath.basename(text) or text

    def path(self, text: str) -> str | None:
        """The absolute path that `text` means for this command; None where its directory is not known."""
        return absolute(self.cwd, text)


@dataclass(frozen=True, slots=True, kw_only=True)
class Remark:
    """Something about the script that is no command: an assumption, an early end, a function nobody calls."""

    line: int
    kind: Literal["assumed", "ends", "uncalled"]
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Script:
    """A shell script: its commands in the order in which they run, functions and loops unrolled.

    What never runs by the script's own constants is there too, with the condition that is not met.
    """

    name: str
    commands: tuple[Command, ...]
    functions: tuple[str, ...] = ()
    remarks: tuple[Remark, ...] = ()
    assumed: tuple[tuple[str, str], ...] = ()

    def calls_function(self, command: Command) -> bool:
        """Whether a command calls a function of the script, which `command NAME` and the like do not."""
        return bool(command.words) and command.words[0].text in self.functions


class Disk(Protocol):
    """The files beside a script, as far as they may be looked at."""

    def read(self, path: str) -> bytes | None:
        """The content of an absolute path; None where there is none, or it is out of bounds."""

    def names(self, folder: str) -> tuple[str, ...]:
        """The names of the files in a folder, sorted; () where there are none."""


def absolute(cwd: str | None, text: str) -> str | None:
    """`text` as a normal absolute path, taken from the directory `cwd`."""
    if text.startswith("/"):
        return posixpath.normpath("/" + text.lstrip("/"))
    return None if cwd is None else posixpath.normpath(posixpath.join(cwd, text))


def unwrapped(words: tuple[Word, ...]) -> tuple[Word, ...]:
    """The words of the command that `sudo`, `env` and the like in front of it run."""
    while len(words) > 1 and words[0].text is not None and posixpath.basename(words[0].text) in _WRAPPERS:
        name = posixpath.basename(words[0].text)
        valued, rest = _WRAPPERS[name], words[1:]
        while rest and (rest[0].text or "").startswith("-"):
            option = rest[0].text or ""
            takes_next = len(option) == 2 and option[1] in valued
            rest = rest[2:] if takes_next else rest[1:]
            if name == "command" and option in ("-v", "-V"):
                return words
        if name in ("env", "sudo"):
            while rest and "=" in rest[0].raw and not (rest[0].text or "").startswith("-"):
                rest = rest[1:]
        if name == "timeout":
            rest = rest[1:]
        if not rest:
            return words
        words = rest
    return words
