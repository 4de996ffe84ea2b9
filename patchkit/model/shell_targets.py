"""Which files a command line names to be written, changed or removed, told from the programs' documentation.

What a program does to files that its command line does not name is not told here.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from patchkit.model import shell_options
from patchkit.model.shell_fetch import parsed_fetch
from patchkit.model.shell_types import Word

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from patchkit.model.shell_types import Command

How = Literal["writes", "changes", "removes"]
Options = tuple[str, tuple[str, ...]]

_INTO = ("target-directory", "suffix")
_RSYNC = (
    "exclude include filter exclude-from include-from files-from rsh temp-dir backup-dir compare-dest copy-dest"
    " link-dest log-file out-format chmod chown bwlimit timeout port rsync-path block-size max-size min-size"
    " partial-dir password-file suffix usermap groupmap"
)
#: Programs that put files at their last operand: which of their options take a value.
_MOVERS: Mapping[str, Options] = {
    "cp": ("tS", (*_INTO, "no-preserve")),
    "mv": ("tS", _INTO),
    "ln": ("tS", _INTO),
    "install": ("mogtS", (*_INTO, "mode", "owner", "group", "strip-program")),
    "rsync": ("eTBfM", tuple(_RSYNC.split())),
}
#: Programs that do something to each of their operands.
_EACH: Mapping[str, tuple[How, Options]] = {
    "rm": ("removes", ("", ())),
    "unlink": ("removes", ("", ())),
    "shred": ("changes", ("ns", ("iterations", "size", "random-source"))),
    "tee": ("writes", ("", ())),
    "touch": ("changes", ("drt", ("date", "reference", "time"))),
    "truncate": ("changes", ("rs", ("reference", "size"))),
}
#: Programs whose first operand says how, and the rest which files.
_SECOND = ("chmod", "chown", "chgrp")
_FLAG = re.compile(r"-[RcfvhHLP]+|--\w[\w-]*(?:=.*)?")
_SORT = ("okStT", ("output", "key", "buffer-size", "field-separator", "temporary-directory", "parallel", "files0-from"))
#: Options by which a fetch writes one more file.
_NOTED: Mapping[str, tuple[str, ...]] = {
    "curl": ("-D", "--dump-header", "-c", "--cookie-jar", "--trace", "--trace-ascii", "--stderr"),
    "wget": ("-o", "--output-file", "-a", "--append-output", "--save-cookies"),
}
_FIND_FILES = ("-fprint", "-fprint0", "-fprintf", "-fls")


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A file or folder that a command line names to be changed. `into`: `word` is a folder, surely."""

    word: Word
    how: How
    into: bool = False
    notes: bool = False  # what the command says, rather than what it makes


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """What `cp`, `mv`, `ln`, `install` and `rsync` put where. `into`: the target is a folder, surely."""

    sources: tuple[Word, ...]
    target: Word
    into: bool


def move(command: Command) -> Move | None:
    """What a command puts where; None where it is no such command, or puts nothing anywhere."""
    program = command.program or ""
    if program not in _MOVERS:
        return None
    short, long = _MOVERS[program]
    parsed = shell_options.parse(command.argv[1:], short=short, long=long)
    if program == "install" and parsed.has("-d", "--directory"):
        return None
    if program == "rsync" and parsed.has("-n", "--dry-run", "--list-only"):
        return None
    operands = parsed.operands
    folder = parsed.last("-t", "--target-directory") if program != "rsync" else None
    if folder is not None:
        return Move(sources=operands, target=folder.argument, into=True)
    if program == "ln" and len(operands) == 1:
        return Move(sources=operands, target=Word(text=".", raw="."), into=True)
    if len(operands) < 2:
        return None
    target = operands[-1]
    if program == "rsync" and re.match(r"[^/]*:", target.text or ""):
        return None  # another machine
    into = len(operands) > 2 or re.search(r"(?:^|/)\.{0,2}$", target.text or "x") is not None
    return Move(sources=operands[:-1], target=target, into=into)


def targets(command: Command) -> tuple[Target, ...]:
    """Every file that `command` names to be written, changed or removed, by its words and its redirections."""
    found = list(_redirected(command))
    program = command.program or ""
    moved = move(command)
    if moved is not None:
        found.append(Target(word=moved.target, how="writes", into=moved.into))
        if program == "mv" or (program == "rsync" and any(w.text == "--remove-source-files" for w in command.argv)):
            found += [Target(word=word, how="removes") for word in moved.sources]
    elif program in _EACH:
        how, (short, long) = _EACH[program]
        words = shell_options.parse(command.argv[1:], short=short, long=long).operands
        found += [Target(word=word, how=how) for word in words if program != "tee" or word.text != "-"]
    elif program in _NAMED:
        found += _NAMED[program](command)
    return tuple(found)


def folders(command: Command) -> tuple[str, ...]:
    """The folders that `mkdir` or `install -d` makes."""
    if command.program == "mkdir":
        parsed = shell_options.parse(command.argv[1:], short="m", long=("mode",))
    elif command.program == "install":
        short, long = _MOVERS["install"]
        parsed = shell_options.parse(command.argv[1:], short=short, long=long)
        if not parsed.has("-d", "--directory"):
            return ()
    else:
        return ()
    paths = (command.path(word.text) for word in parsed.operands if word.text is not None)
    return tuple(path for path in paths if path is not None)


def _redirected(command: Command) -> Iterator[Target]:
    for redirect in command.redirects:
        text = redirect.target.text
        duplicates = text is None or text.isdigit() or text in ("-", "")
        if redirect.writes or (redirect.operator == ">&" and not duplicates):
            yield Target(word=redirect.target, how="writes", notes=redirect.fd == 2)


def _second(command: Command) -> Iterator[Target]:
    words = list(command.argv[1:])
    told = False
    while words and _FLAG.fullmatch(words[0].text or ""):
        told = (words.pop(0).text or "").startswith("--reference") or told
    for word in words if told else words[1:]:
        if not _FLAG.fullmatch(word.text or ""):
            yield Target(word=word, how="changes")


def _dd(command: Command) -> Iterator[Target]:
    for word in command.argv[1:]:
        if word.raw.strip("\"'").startswith("of="):
            text = None if word.text is None else word.text.removeprefix("of=")
            raw = re.sub(r"^([\"']?)of=", r"\1", word.raw)
            yield Target(word=Word(text=text, raw=raw, why=word.why), how="writes")


def _sort(command: Command) -> Iterator[Target]:
    output = shell_options.parse(command.argv[1:], short=_SORT[0], long=_SORT[1]).last("-o", "--output")
    if output is not None:
        yield Target(word=output.argument, how="writes")


def _pair(command: Command) -> Iterator[Target]:
    """`uniq IN OUT`, `xxd IN OUT`."""
    short, long = ("fsw", ("skip-fields", "skip-chars", "check-chars")) if command.program == "uniq" else ("clgnso", ())
    operands = shell_options.parse(command.argv[1:], short=short, long=long).operands
    for word in operands[1:2]:
        yield Target(word=word, how="writes")


def _find(command: Command) -> Iterator[Target]:
    for option, word in zip(command.argv, command.argv[1:], strict=False):
        if option.text in _FIND_FILES:
            yield Target(word=word, how="writes")


def _noted(command: Command) -> Iterator[Target]:
    """What `curl` and `wget` write besides what they fetch."""
    parsed = parsed_fetch(command)
    for option in parsed.options if parsed is not None else ():
        if option.name in _NOTED[command.program or ""] and option.value != "-":
            yield Target(word=option.argument, how="writes", notes=True)


_NAMED: Mapping[str, Callable[[Command], Iterator[Target]]] = {
    **dict.fromkeys(_SECOND, _second),
    "dd": _dd,
    "sort": _sort,
    "uniq": _pair,
    "xxd": _pair,
    "find": _find,
    "curl": _noted,
    "wget": _noted,
}

#: Programs that change the files which their command lines name.
NAMING = frozenset((*_MOVERS, *_EACH, *_SECOND, "dd", "mkdir", "rmdir"))
