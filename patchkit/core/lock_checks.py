"""Whether what a lock says of `run` and `pip` steps can be carried out. Raises KeyError, TypeError or ValueError."""

from __future__ import annotations

from typing import Any

from patchkit.core.canonical import want, want_sha256, want_texts
from patchkit.core.lockfile import safe


def check_packages(action: dict[str, Any]) -> None:
    """Raise where a pip step's action is not what pip steps are."""
    want(str, action["index"])
    want(str, action["hashes"])
    want_texts(action.get("may_move", []))
    if any("==" not in text or text.startswith("-") for text in want_texts(action["requirements"])):
        raise ValueError("expected requirements pinned with ==")


def check_command(action: dict[str, Any]) -> None:
    """Raise where a run step's action is not what run steps are."""
    commands = [action["argv"], action["revert"]]
    for question in (action["unless"], action["check"]):
        if question is not None:
            commands.append(want(dict, question)["argv"])
            if question["argv"] is None:
                safe(question["path"])
            if question["sha256"] is not None:
                want_sha256(question["sha256"])
    for command in commands:
        if command is not None and not want_texts(command):
            raise ValueError("expected a command, found an empty list")
    want(list, action["argv"])
    if action["creates"] is not None:
        safe(action["creates"])
    want_texts(action["needs"])
    if want(int, action["timeout"]) < 1 or any(len(want_texts(pair)) != 2 for pair in want(list, action["env"])):
        raise ValueError("expected a timeout in seconds, and pairs of names and values in `env`")
