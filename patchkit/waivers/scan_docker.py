"""Finds patching in Dockerfiles: RUN in every form, COPY and ADD, ENV and ARG, here-documents, stages."""

from __future__ import annotations

import json
import posixpath
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from patchkit.waivers import scan_commands, scan_shell, scan_walk
from patchkit.waivers.scan_places import place, touched
from patchkit.waivers.scan_types import Trace

if TYPE_CHECKING:
    from collections.abc import Iterator

_INSTRUCTION = re.compile(r"\s*(?:ONBUILD\s+)?([A-Za-z]+)\s+(.*)", re.DOTALL)
_HEREDOC = re.compile(r"<<(-?)(['\"]?)(\w+)\2")
_FLAG = re.compile(r"\s*--[\w-]+(?:=(?:\"[^\"]*\"|\S)*)?(?:\s|\\\n)*")
_PAIR = re.compile(r"""(\w+)=("(?:[^"\\]|\\.)*"|'[^']*'|(?:\\.|[^\s\\])*)""")
_COMMENT = re.compile(r"\s*#")


@dataclass(frozen=True, slots=True)
class _Instruction:
    name: str
    text: str
    line: int
    bodies: tuple[tuple[int, str, str], ...] = ()


@dataclass(slots=True)
class _State:
    cwd: str = "/"
    values: dict[str, str] = field(default_factory=dict)


def docker(text: str, *, name: str) -> list[Trace]:
    """What a Dockerfile patches, in the order of its instructions."""
    state = _State()
    found: list[Trace] = []
    for each in _instructions(text):
        match each.name:
            case "RUN" | "CMD" | "ENTRYPOINT" | "SHELL" | "HEALTHCHECK":
                found += _run(each, state, name)
            case "COPY" | "ADD":
                found += _copy(each, state)
            case "ENV" | "ARG":
                found += _env(each, state)
            case "WORKDIR":
                folder = _filled(each.text.strip().strip("\"'"), state)
                state.cwd = posixpath.normpath(posixpath.join(state.cwd, folder))
            case "FROM":
                state.cwd = "/"
            case _:
                pass
    return found


def _instructions(text: str) -> Iterator[_Instruction]:
    """Each instruction with its continued lines (comments between them emptied) and its here-documents."""
    lines = text.split("\n")
    escape = "`" if re.match(r"#\s*escape\s*=\s*`", text, re.IGNORECASE) else "\\"
    at = 0
    while at < len(lines):
        first = at
        if not lines[at].strip() or _COMMENT.match(lines[at]):
            at += 1
            continue
        parts: list[str] = []
        while at < len(lines):
            raw = lines[at]
            at += 1
            if parts and (_COMMENT.match(raw) or not raw.strip()):
                parts.append("\\")
                continue
            stripped = raw.rstrip()
            if stripped.endswith(escape):
                parts.append(stripped[:-1] + "\\")
                continue
            parts.append(raw)
            break
        match = _INSTRUCTION.match("\n".join(parts))
        if match is None:
            continue
        bodies: list[tuple[int, str, str]] = []
        if match[1].upper() in ("RUN", "COPY", "ADD"):
            for document in _HEREDOC.finditer(match[2]):
                start, body = at, list[str]()
                while at < len(lines) and (lines[at].lstrip("\t") if document[1] else lines[at]) != document[3]:
                    body.append(lines[at])
                    at += 1
                at += 1
                bodies.append((start, document[3], "\n".join(body) + "\n"))
        yield _Instruction(match[1].upper(), match[2], first + 1, tuple(bodies))


def _filled(text: str, state: _State) -> str:
    """Text with the values that ENV and ARG gave."""

    def one(match: re.Match[str]) -> str:
        return state.values.get(match[1] or match[3], match[2] if match[2] is not None else match[0])

    return re.sub(r"\$\{(\w+)(?::-([^}]*))?\}|\$(\w+)", one, text)


def _run(each: _Instruction, state: _State, name: str) -> Iterator[Trace]:
    rest = each.text
    while (flag := _FLAG.match(rest)) is not None:
        option = flag[0].strip()
        if option.startswith("--mount="):
            for touches in scan_commands.mount_value(_filled(option.removeprefix("--mount="), state)):
                yield Trace(line=each.line, kind="mount", touches=touches, text=option[:200])
        rest = rest[flag.end() :]
    before = each.text[: len(each.text) - len(rest)].count("\n")
    words = _exec_form(rest)
    if words is not None:
        yield from _exec(words, each, state, name)
        return
    if each.bodies and re.fullmatch(r"\s*(?:<<-?['\"]?\w+['\"]?\s*)+", rest):
        for start, _, body in each.bodies:  # the here-document is the script
            yield from scan_shell.shell(body, name=name, line=start, cwd=state.cwd, given=state.values)
        return
    script = "\n" * before + rest
    for _, delimiter, body in each.bodies:
        script += f"\n{body}{delimiter}"
    yield from scan_shell.shell(script + "\n", name=name, line=each.line - 1, cwd=state.cwd, given=state.values)


def _exec_form(text: str) -> list[str] | None:
    """The words of `["program", "argument"]`; None for the shell form."""
    if not text.lstrip().startswith("["):
        return None
    try:
        words = json.loads(text.replace("\\\n", " "))
    except ValueError:
        return None
    return words if isinstance(words, list) and words and all(isinstance(word, str) for word in words) else None


def _exec(words: list[str], each: _Instruction, state: _State, name: str) -> Iterator[Trace]:
    if posixpath.basename(words[0]) in scan_commands.SHELLS and len(words) > 2 and re.fullmatch(r"-\w*c", words[1]):
        yield from scan_shell.shell(words[2] + "\n", name=name, line=each.line - 1, cwd=state.cwd, given=state.values)
        return
    made = scan_walk.plain(words, line=each.line, cwd=state.cwd)
    yield from scan_shell.commands_of(made, name, 0)


def _copy(each: _Instruction, state: _State) -> Iterator[Trace]:
    rest = each.text
    while (flag := _FLAG.match(rest)) is not None:
        rest = rest[flag.end() :]
    words = _exec_form(rest) or [word.strip("\"'") for word in rest.replace("\\\n", " ").split()]
    words = [_filled(word, state) for word in words]
    if len(words) < 2:
        return
    target = words[-1]
    path = target if target.startswith("/") else posixpath.join(state.cwd, target)
    for source in words[:-1]:
        name = posixpath.basename(source.rstrip("/"))
        is_file = re.search(r"\.\w{1,6}$", posixpath.basename(path)) and not target.endswith("/")
        full = path if is_file or name in (".", "", "*") or source.startswith("<<") else posixpath.join(path, name)
        if scan_commands.is_hook(full):
            yield Trace(line=each.line, kind="shadow", touches=full, text=_shown(each))
            continue
        found = place(full)
        own = place(path)
        touches = touched(full) or (own.shown if own.where == "installed" else None)
        if (
            touches is None
            and found.where == "tree"
            and not name.endswith((".md", ".txt", ".log"))
            and own.where == "tree"
        ):
            touches = found.shown
        if touches is None and found.where == "installed":
            touches = found.shown
        if touches is not None:
            fetched = each.name == "ADD" and re.match(r"https?:|git@", source) is not None
            yield Trace(line=each.line, kind="download" if fetched else "overwrite", touches=touches, text=_shown(each))


def _env(each: _Instruction, state: _State) -> Iterator[Trace]:
    text = each.text.replace("\\\n", " ")
    pairs = [(match[1], match[2].strip("\"'")) for match in _PAIR.finditer(text)]
    if each.name == "ENV" and not re.match(r"\w+=", text) and " " in text:
        key, _, value = text.strip().partition(" ")
        pairs = [(key, value.strip().strip("\"'"))]
    for key, value in pairs:
        filled = _filled(value, state)
        state.values[key] = filled
        if key == "PYTHONPATH":
            for touches in scan_commands.python_path(filled):
                yield Trace(line=each.line, kind="shadow", touches=touches, text=_shown(each))
        if key == "AITER_REBUILD" and filled not in ("", "0"):
            yield Trace(line=each.line, kind="rebuild", touches=key, text=_shown(each))


def _shown(each: _Instruction) -> str:
    return f"{each.name} {each.text}".split("\n", 1)[0][:200]
