"""Finds patching in YAML: what workflows, compose files, Kubernetes manifests and recipe configs run, mount and set."""

from __future__ import annotations

import posixpath
import re
from typing import TYPE_CHECKING

from patchkit.model import yamlfile
from patchkit.waivers import exempt, scan_commands, scan_python, scan_shell, scan_walk
from patchkit.waivers.scan_places import touched
from patchkit.waivers.scan_types import Trace

if TYPE_CHECKING:
    from collections.abc import Iterator

    from patchkit.model.yamlfile import Scalar, Where
    from patchkit.waivers.kinds import Kind

_RUNS = re.compile(
    r"(?:^|[_-])(?:run|runs?cmd|commands?|cmds?|scripts?|args?|entry-?points?|exec|shell|bash|setup|prepare|prologue|"
    r"preamble|pre|post|before|after|init|install|launch|start|hooks?|steps|startup|precommand|build|bootcmd)(?:$|[_-])",
    re.IGNORECASE,
)
_MOUNTS = re.compile(r"volumes?|mounts?|binds?|bind_mounts", re.IGNORECASE)
_TARGETS = ("target", "mountPath", "mount_path", "containerPath", "container_path", "destination")
_MODULES = re.compile(r"(?:^|\.)(?:lineinfile|replace|blockinfile|copy|template|patch|unarchive|get_url)$")
_FILE = re.compile(r"(?P<name>[\w./-]+)\.(?P<suffix>py|sh|bash)$")


def yaml_file(data: bytes, *, name: str) -> list[Trace]:
    """What a YAML file patches."""
    found: dict[tuple[object, ...], Trace] = {}
    values = list(yamlfile.scalars(data))
    for scalar in values:
        for trace in _scalar(scalar, name):
            found.setdefault((trace.line, trace.kind, trace.touches), trace)
    for trace in (*_lists(values, name), *_named(values)):
        found.setdefault((trace.line, trace.kind, trace.touches), trace)
    return list(found.values())


def _keys(where: Where) -> list[str]:
    return [part for part in where if isinstance(part, str)]


def _scalar(scalar: Scalar, name: str) -> Iterator[Trace]:
    keys = _keys(scalar.where)
    last = keys[-1] if keys else ""
    text = scalar.value
    file = _FILE.search(last)
    if file is not None and "\n" in text:  # a config map that holds a program
        if scan_commands.is_hook(last):
            yield _trace(scalar, "shadow", last, line=scalar.line - 1)
        if file["suffix"] == "py":
            yield from scan_python.python(text, line=scalar.line - 1)
        else:
            yield from scan_shell.shell(text, name=name, line=scalar.line - 1)
        return
    if any(_RUNS.search(key) for key in keys[-2:]) or "\n" in text.strip():
        yield from scan_shell.shell(_script(text), name=name, line=scalar.line - 1)
    if last == "PYTHONPATH" or text.startswith("PYTHONPATH="):
        for touches in scan_commands.python_path(text.removeprefix("PYTHONPATH=")):
            yield _trace(scalar, "shadow", touches)
    for touches in _mounted(scalar, keys, last):
        yield _trace(scalar, "mount", touches)
    yield from _settings(scalar, keys, last)


def _settings(scalar: Scalar, keys: list[str], last: str) -> Iterator[Trace]:
    """Variables that start a rebuild, and the files that Ansible's modules change."""
    text = scalar.value
    if last in scan_commands.REBUILD_NAMES and text not in ("", "0", "false"):
        yield _trace(scalar, "rebuild", last)
    if last in ("path", "dest", "dst") and text.startswith("/") and len(keys) > 1 and _MODULES.search(keys[-2]):
        found = touched(text, in_place=True)
        puts = keys[-2].rsplit(".", 1)[-1] in ("copy", "template", "unarchive", "get_url")
        if found is not None:
            yield _trace(scalar, "overwrite" if puts else "edit", found)


def _trace(scalar: Scalar, kind: Kind, touches: str, *, line: int = 0) -> Trace:
    shown = scalar.value.strip().split("\n", 1)[0][:200]
    return Trace(line=line or scalar.line, kind=kind, touches=touches, text=shown)


def _mounted(scalar: Scalar, keys: list[str], last: str) -> Iterator[str]:
    """The installed paths that a value mounts over."""
    if last in _TARGETS:
        yield from scan_commands.mount_target(scalar.value)
    elif any(_MOUNTS.search(key) for key in keys[-2:]):
        yield from scan_commands.mount_value(scalar.value)
        if last.startswith("/"):
            yield from scan_commands.mount_target(last)


def _script(text: str) -> str:
    """A step's text as shell reads it: an expression of the workflow language is a value that is not known."""
    return re.sub(r"\$\{\{[^}]*\}\}", "${expression}", text) + "\n"


def _lists(values: list[Scalar], name: str) -> Iterator[Trace]:
    """Words in a list: `command: ["pip", "install", "vllm"]`, `["bash", "-c", TEXT]`, command and args in one."""
    groups: dict[Where, list[Scalar]] = {}
    for scalar in values:
        if scalar.where and isinstance(scalar.where[-1], int) and _keys(scalar.where):
            groups.setdefault(scalar.where[:-1], []).append(scalar)
    for where, words in groups.items():
        key = where[-1] if isinstance(where[-1], str) else ""
        if not _RUNS.search(str(key)):
            continue
        texts = [word.value for word in words]
        before = groups.get((*where[:-1], "command"), []) if key == "args" else []
        texts = [*(word.value for word in before), *texts]
        if len(texts) < 2 or (posixpath.basename(texts[0]) in scan_commands.SHELLS):
            continue
        if any("\n" in text for text in texts[:1]) or " " in texts[0]:
            continue
        made = scan_walk.plain(texts, line=words[0].line)
        yield from scan_shell.commands_of(made, name, 0)


def _named(values: list[Scalar]) -> Iterator[Trace]:
    """`- name: PYTHONPATH` with its value beside it, and packages of a list of pip's."""
    table = {scalar.where: scalar for scalar in values}
    for where, scalar in table.items():
        keys = _keys(where)
        if not keys:
            continue
        value = table.get((*where[:-1], "value")) if keys[-1] == "name" and scalar.value == "PYTHONPATH" else None
        if value is not None:
            for touches in scan_commands.python_path(value.value):
                yield _trace(value, "shadow", touches)
        listed = keys[-1] in ("pip", "pip_packages", "pip_install", "extra_pip_packages") and isinstance(where[-1], int)
        module = len(keys) > 1 and keys[-1] == "name" and re.search(r"(?:^|\.)pip$", keys[-2])
        if (listed or module) and exempt.requirement(scalar.value) in exempt.STACK:
            yield _trace(scalar, "install", scalar.value)
