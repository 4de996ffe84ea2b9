"""Finds patching in shell: every command that a script may run, and the programs that it hands to Python."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from patchkit.waivers import scan_commands, scan_install, scan_python
from patchkit.waivers.scan_walk import walk

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from patchkit.model.shell_types import Command, Content
    from patchkit.waivers.scan_types import Trace

_DEEPEST = 4
_SCRIPT = re.compile(r"\.(?:sh|bash|slurm|sbatch)$")


def shell(
    text: str, *, name: str, line: int = 0, cwd: str = "${PWD}", given: Mapping[str, str] | None = None, depth: int = 0
) -> list[Trace]:
    """What the shell script `text` patches; `line` lines stand before it in its file."""
    found: dict[tuple[object, ...], Trace] = {}
    read: set[tuple[int, int]] = set()
    for command in walk(text, name=name, given=given, cwd=cwd):
        for trace in _command(command, name, line, depth, read):
            found.setdefault((trace.line, trace.kind, trace.touches), trace)
    return list(found.values())


def commands_of(words: Command, name: str, line: int, depth: int = 0) -> list[Trace]:
    """What one command patches that stands outside of any script."""
    return list(_command(words, name, line, depth, set()))


def _command(command: Command, name: str, line: int, depth: int, read: set[tuple[int, int]]) -> Iterator[Trace]:
    command = scan_commands.forwarded(command)
    for trace in scan_commands.judge(command):
        yield _shifted(trace, line)
    inner = scan_commands.inner_command(command)
    if inner is not None and depth < _DEEPEST:
        yield from _command(inner, name, line, depth + 1, read)
    if depth < _DEEPEST:
        for text in scan_commands.inner_texts(command):
            at = command.line - 1 if command.stdin is None or text != command.stdin.text else command.stdin.line - 1
            yield from shell(text + "\n", name=name, line=line + at, depth=depth + 1)
    yield from _python(command, line, read)
    yield from _written(command, name, line, depth, read)


def _shifted(trace: Trace, line: int) -> Trace:
    return replace(trace, line=trace.line + line) if line else trace


def _python(command: Command, line: int, read: set[tuple[int, int]]) -> Iterator[Trace]:
    """A program given to Python: `-c`, a here-document, a file that the script writes."""
    texts = [word.shown for word in command.argv]
    at = next((at for at, text in enumerate(texts[:4]) if scan_install.PYTHON.fullmatch(text.rsplit("/", 1)[-1])), None)
    if at is None:
        return
    words = texts[at + 1 :]
    while words and words[0].startswith("-") and words[0] not in ("-c", "-m", "-"):
        words = words[2:] if words[0] in ("-W", "-X") else words[1:]
    first = words[0] if words else ""
    arguments = tuple(words[2:]) if first == "-c" else tuple(words[1:])
    environment = dict(command.environment)
    if first == "-c" and len(words) > 1:
        yield from scan_python.python(words[1], line=line + command.line - 1, argv=arguments, environment=environment)
    elif first in ("-", "", "/dev/stdin") and command.stdin is not None and command.stdin.text is not None:
        start = line + max(command.stdin.line, 1) - 1
        yield from scan_python.python(command.stdin.text, line=start, argv=arguments, environment=environment)
    elif first and first != "-m":
        content = command.files.get(command.path(first) or "")
        if content is not None and content.text is not None:
            read.add((content.line, len(content.text)))
            start = line + max(content.line, 1) - 1
            yield from scan_python.python(content.text, line=start, argv=arguments, environment=environment)


def _written(command: Command, name: str, line: int, depth: int, read: set[tuple[int, int]]) -> Iterator[Trace]:
    """A script that a here-document writes into a file, whoever runs it."""
    content: Content | None = command.stdin
    if content is None or content.text is None or not content.line or command.program not in ("cat", "tee"):
        return
    targets = [redirect.target.shown for redirect in command.redirects if redirect.writes]
    targets += [word.shown for word in command.argv[1:]] if command.program == "tee" else []
    key = (content.line, len(content.text))
    if key in read or not targets:
        return
    read.add(key)
    start = line + max(content.line, 1) - 1
    if targets[0].endswith(".py"):
        yield from scan_python.python(content.text, line=start)
    elif _SCRIPT.search(targets[0]) and depth < _DEEPEST:
        yield from shell(content.text, name=name, line=start, depth=depth + 1)
