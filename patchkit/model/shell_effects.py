"""What well-known programs print and write, as far as that follows from their words and their input.

Nothing is run: `cat`, `echo`, `tee`, `cp`, `curl` and their like are told from their documentation.
"""

from __future__ import annotations

import base64
import binascii
import posixpath
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from patchkit.model import shell_targets
from patchkit.model.shell_fetch import fetch
from patchkit.model.shell_types import Content, Word, absolute

if TYPE_CHECKING:
    from collections.abc import Callable

    from patchkit.model.shell_types import Command, Disk

NOTHING = Content(text="")
_SILENT = frozenset({"true", ":", "false", "mkdir", "touch", "chmod", "chown", "sleep", "set", "shopt", "trap", "ln"})
_ESCAPE = re.compile(r"\\([nt\\\"r])")
_ESCAPED = {"n": "\n", "t": "\t", "r": "\r", "\\": "\\", '"': '"'}


@dataclass(slots=True)
class Effects:
    """What a command prints, and the files it writes (None: removed)."""

    out: Content = NOTHING
    files: dict[str, Content | None] = field(default_factory=dict)


def effects(command: Command, disk: Disk | None) -> Effects:
    """Return what `command` prints and writes, its redirections aside."""
    program = command.program or ""
    if program in _READING:
        return _READING[program](command, disk)
    if program in _KNOWN:
        return _KNOWN[program](command)
    if program in _SILENT:
        return Effects()
    return Effects(out=_unknown(command))


def read(command: Command, text: str, disk: Disk | None) -> Content:
    """What the file `text` holds when `command` runs."""
    path = absolute(command.cwd, text)
    if path is None:
        return Content(text=None, why=f"the directory that {text} is taken from is not known")
    if path in command.files:
        return command.files[path]
    data = None if disk is None else disk.read(path)
    if data is None:
        return Content(text=None, why=f"{text}: no such file beside the script, and no line of it writes one")
    return Content(text=data.decode("utf-8", "surrogateescape"))


def _unknown(command: Command) -> Content:
    name = command.program or (command.words[0].raw if command.words else "a command")
    return Content(text=None, why=f"it is what `{name}` in line {command.line} prints")


def _stdin(command: Command) -> Content:
    return command.stdin if command.stdin is not None else Content(text=None, why="it is read from the standard input")


def _operands(command: Command) -> tuple[Word, ...]:
    return tuple(word for word in command.argv[1:] if not (word.text or "").startswith("-") or word.text == "-")


def _cat(command: Command, disk: Disk | None) -> Effects:
    words = _operands(command)
    if len(command.argv) - 1 != len(words):
        return Effects(out=_unknown(command))
    if not words:
        return Effects(out=_stdin(command))
    parts = []
    for word in words:
        if word.text is None:
            return Effects(out=Content(text=None, why=f"{word.raw}: {word.why}"))
        parts.append(_stdin(command) if word.text == "-" else read(command, word.text, disk))
    return Effects(out=joined(*parts))


def joined(*parts: Content) -> Content:
    """Several contents, one after the other."""
    if len(parts) == 1:
        return parts[0]
    texts = [part.text for part in parts if part.text is not None]
    if len(texts) < len(parts):
        return next(part for part in parts if part.text is None)
    line = next((part.line for part in parts if part.line), 0)
    return Content(text="".join(texts), line=line)


def _echo(command: Command) -> Effects:
    words, end, escapes = list(command.argv[1:]), "\n", False
    while words and re.fullmatch(r"-[neE]+", words[0].text or ""):
        option = words.pop(0).text or ""
        end = "" if "n" in option else end
        escapes = "e" in option
    texts = [word.text for word in words if word.text is not None]
    if len(texts) < len(words):
        return Effects(out=_unknown(command))
    text = " ".join(texts)
    text = _ESCAPE.sub(lambda match: _ESCAPED[match[1]], text) if escapes else text
    return Effects(out=Content(text=text + end, line=command.line))


def _printf(command: Command) -> Effects:
    words = command.argv[1:]
    texts = [word.text for word in words if word.text is not None]
    if not words or len(texts) < len(words) or re.search(r"%[^s%]", texts[0]):
        return Effects(out=_unknown(command))
    form = _ESCAPE.sub(lambda match: _ESCAPED[match[1]], texts[0])
    slots, values, out = form.count("%s") - form.count("%%s"), texts[1:], ""
    for at in range(0, max(len(values), 1), max(slots, 1)):
        out += _formatted(form, values[at : at + max(slots, 1)])
        if not slots:
            break
    return Effects(out=Content(text=out, line=command.line))


def _formatted(form: str, values: list[str]) -> str:
    left = iter(values)
    return re.sub(r"%[s%]", lambda match: "%" if match[0] == "%%" else next(left, ""), form)


def _tee(command: Command) -> Effects:
    out = _stdin(command)
    appends = any(word.text in ("-a", "--append") for word in command.argv[1:])
    made = Effects(out=out)
    for word in _operands(command):
        path = None if word.text is None else command.path(word.text)
        if path is not None:
            before = command.files.get(path)
            made.files[path] = joined(before, out) if appends and before is not None else out
    return made


def _copy(command: Command, disk: Disk | None) -> Effects:
    """`cp`, `mv` and `install`: each file at its new place."""
    moved = shell_targets.move(command)
    made = Effects()
    new = None if moved is None or moved.target.text is None else command.path(moved.target.text)
    if moved is None or new is None:
        return made
    into = moved.into or any(name.startswith(new + "/") for name in command.files)
    for word in moved.sources:
        old = None if word.text is None else command.path(word.text)
        if old is None or word.text is None:
            continue
        made.files[posixpath.join(new, posixpath.basename(old)) if into else new] = read(command, word.text, disk)
        if command.program == "mv":
            made.files[old] = None
    return made


def _remove(command: Command) -> Effects:
    paths = {command.path(word.text) for word in _operands(command) if word.text is not None} - {None}
    gone = [name for name in command.files for path in paths if f"{name}/".startswith(f"{path}/")]
    return Effects(files=dict.fromkeys(gone))


def _download(command: Command) -> Effects:
    found = fetch(command)
    if found is None or found.url is None:
        return Effects(out=_unknown(command))
    url = found.url.text
    content = Content(text=None, why=f"it is fetched in line {command.line}", url=url, line=command.line)
    if found.output is None:
        return Effects(out=content)
    path = None if found.output.text is None else command.path(found.output.text)
    return Effects() if path is None else Effects(files={path: content})


def _decode(command: Command) -> Effects:
    options = {word.text for word in command.argv[1:]}
    stdin = _stdin(command)
    if not options <= {"-d", "--decode", "-D", "-di"} or not options or stdin.text is None:
        return Effects(out=_unknown(command))
    try:
        data = base64.b64decode("".join(stdin.text.split()), validate=True)
    except (binascii.Error, ValueError):
        return Effects(out=_unknown(command))
    return Effects(out=Content(text=data.decode("utf-8", "surrogateescape"), line=stdin.line))


def _path_of(change: Callable[[Command, str], str | None]) -> Callable[[Command], Effects]:
    def run(command: Command) -> Effects:
        words = _operands(command)
        if not words or words[0].text is None:
            return Effects(out=_unknown(command))
        text = change(command, words[0].text)
        return Effects(out=_unknown(command) if text is None else Content(text=text + "\n", line=command.line))

    return run


def _base(command: Command, text: str) -> str:
    words = _operands(command)
    suffix = words[1].text or "" if len(words) > 1 else ""
    return posixpath.basename(text.rstrip("/")).removesuffix(suffix)


def _pwd(command: Command) -> Effects:
    return Effects(out=_unknown(command) if command.cwd is None else Content(text=command.cwd + "\n"))


def _temporary(command: Command) -> Effects:
    return Effects(out=Content(text=f"/tmp/mktemp.{command.line}\n"))  # noqa: S108 - a name, no file is made


_READING: dict[str, Callable[[Command, Disk | None], Effects]] = {
    "cat": _cat,
    "cp": _copy,
    "mv": _copy,
    "install": _copy,
}
_KNOWN: dict[str, Callable[[Command], Effects]] = {
    "echo": _echo,
    "printf": _printf,
    "tee": _tee,
    "rm": _remove,
    "curl": _download,
    "wget": _download,
    "base64": _decode,
    "dirname": _path_of(lambda _, text: posixpath.dirname(text.rstrip("/")) or ("/" if text[:1] == "/" else ".")),
    "basename": _path_of(_base),
    "realpath": _path_of(lambda command, text: command.path(text)),
    "readlink": _path_of(lambda command, text: command.path(text)),
    "pwd": _pwd,
    "mktemp": _temporary,
}
