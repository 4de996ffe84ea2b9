"""Decides whether a command of a script runs on the good path: the one on which everything succeeds.

Guards that ask whether a change is there already fall away, for a step is judged from bytes. What runs
only where another command fails is a second way. What hangs on anything else is a person's decision.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

from patchkit.app import import_packages, import_patches

if TYPE_CHECKING:
    from patchkit.app.import_types import SiteView
    from patchkit.model.shellscript import Command, Condition, Script

Kind: TypeAlias = Literal["unknown", "action", "check", "applied", "marker", "neutral"]
Verdict: TypeAlias = Literal["runs", "second", "never", "unknown", "later"]

_ORDER: tuple[Kind, ...] = ("unknown", "action", "check", "applied", "marker", "neutral")
_QUIET_NAMES = (
    "cd pushd popd echo printf mkdir true : cat head tail wc tr cut sort uniq mktemp dirname basename readlink realpath"
    " read rm set local export return exit shift false touch tee sha256sum"
)
_QUIET = frozenset(_QUIET_NAMES.split())
_TOOLS = ("git", "patch", "python3", "python", "pip", "pip3", "curl", "wget", "bash")
_FILE_TESTS = frozenset(("-f", "-e", "-d", "-s", "-r", "-w", "-x", "-L", "-h"))


@dataclass(frozen=True, slots=True)
class Gate:
    """Whether a command runs, and the condition that decides it otherwise."""

    verdict: Verdict
    condition: Condition | None = None


def gate(command: Command, script: Script, site: SiteView, home: str) -> Gate:
    """Judge the conditions of `command`, the outermost first; `home` is the folder of the script."""
    for condition in command.conditions:
        if condition.held is False or condition.relation == "uncalled":
            return Gate("never", condition)
        if condition.relation == "trap":
            return Gate("later", condition)
        if condition.relation in ("loop", "case"):
            return Gate("unknown", condition)
        kind, negated = _kind(condition, script, site, home)
        succeeds = (condition.relation in ("then", "and")) is not negated
        if kind == "unknown":
            return Gate("unknown", condition)
        if kind in ("action", "check", "neutral") and not succeeds:
            return Gate("second", condition)
        if kind == "applied" and succeeds:
            return Gate("second", condition)
    return Gate("runs")


def _kind(condition: Condition, script: Script, site: SiteView, home: str) -> tuple[Kind, bool]:
    """What a condition asks, and whether it asks for the opposite."""
    negated = condition.raw.lstrip().startswith("!")
    kinds: set[Kind] = set()
    for command in condition.commands:
        if not command.words or script.calls_function(command):
            continue
        if any("$?" in word.raw for word in command.words):
            kinds.add("action")
            negated = negated is not any(word.text in ("-ne", "!=") for word in command.words)
        else:
            kinds.add(_asks(command, site, home))
    return next((kind for kind in _ORDER if kind in kinds), "neutral"), negated


def _asks(command: Command, site: SiteView, home: str) -> Kind:
    program = command.program
    if program == "patch" or (program == "git" and import_patches.git_subcommand(command)[0] in ("apply", "am")):
        call = import_patches.read_call(command, None)
        return ("applied" if call.reverse else "check") if call.asks else "action"
    if program in ("[", "test"):
        return _tests(command, site, home)
    if program in ("grep", "egrep", "fgrep", "diff", "cmp"):
        return "marker"
    if import_packages.pip_words(command) is not None or program in ("curl", "wget", "cp", "mv", "install", "sed"):
        return "action"
    if re.fullmatch(r"python[0-9.]*", program or ""):
        return "action" if command.stdin is not None else "unknown"
    if program in ("command", "which", "type"):
        return (
            "neutral"
            if all(word.text in _TOOLS or word.raw.startswith("-") for word in command.words[1:])
            else "unknown"
        )
    return "neutral" if program in _QUIET else "unknown"


def _tests(command: Command, site: SiteView, home: str) -> Kind:
    """A test of constants is decided; one of a file of the site, or of the script's own, is a marker."""
    words = command.words[1:]
    if any(word.text is None for word in words):
        return "unknown"
    if not any(word.text in _FILE_TESTS for word in words):
        return "neutral"
    for word in words:
        text = word.text or ""
        if text in _FILE_TESTS or text in ("!", "-a", "-o", "&&", "||"):
            continue
        path = command.path(text)
        if path is None or not (site.place(path) or path in command.files or path.startswith((f"{home}/", "/tmp/"))):  # noqa: S108
            return "unknown"
    return "marker"
