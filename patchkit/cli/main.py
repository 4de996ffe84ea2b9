"""The entry point: finds the command in the table and loads only its module."""

from __future__ import annotations

import sys
from importlib import import_module

from patchkit.core.errors import ConfigError
from patchkit.core.program import Parser, guarded

#: Name, module below patchkit.cli, and one line for the overview. The one place where commands are listed.
COMMANDS: tuple[tuple[str, str, str], ...] = (
    ("apply", "apply", "apply an image's stack to a file tree, all or nothing"),
    ("revert", "revert", "put the pristine files back"),
    ("verify", "verify", "compare a tree with its ledger and the lock"),
    ("diff", "diff", "print the stack as one unified diff"),
    ("status", "status", "each step: what is on disk, what became of it upstream, and what to do"),
    ("lock", "lock", "resolve a stack and pin every input and file by hash"),
    ("bundle", "bundle", "one file that applies the stack where there is nothing but python3"),
    ("image", "image", "list and show images"),
    ("waiver", "waiver", "waivers: the scaffold, the document, and the check that they cover the stacks"),
    ("import", "import_", "turn a hand-written apply script into steps of a stack, without running it"),
)


def main(argv: list[str] | None = None) -> int:
    """Run one command and return its exit code. `argv` is without the program's name."""
    words = list(sys.argv[1:] if argv is None else argv)
    if words[:1] == ["-C"] and len(words) > 2:  # as in git, the folder may come first
        words = [*words[2:], *words[:2]]
    command = words[0] if words else ""
    return guarded(lambda: _run(command, words[1:]), command, as_json="--json" in words)


def _run(command: str, words: list[str]) -> int:
    if command in ("", "-h", "--help", "help"):
        print(_overview())
        return 0
    if command == "--version":
        from patchkit import __version__

        print(f"patchkit {__version__}")
        return 0
    for name, module, summary in COMMANDS:
        if name == command:
            loaded = import_module(f"patchkit.cli.{module}")
            parser = Parser(f"patchkit {name}", summary)
            loaded.configure(parser)
            code: int = loaded.run(parser.parse_args(words))
            return code
    names = ", ".join(name for name, _, _ in COMMANDS)
    raise ConfigError(f"patchkit: there is no command {command!r}; the commands are: {names}", hint="patchkit --help")


def _overview() -> str:
    rows = "\n".join(f"  {name:<8} {summary}" for name, _, summary in COMMANDS)
    return (
        "usage: patchkit COMMAND [options]\n\nThe container patch manager for LLM serving.\n\n"
        f"{rows}\n\nEvery command takes --json, -C DIR and --help.\nexample: patchkit apply --image nightly-c50aca"
    )
