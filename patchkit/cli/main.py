"""The entry point: finds the command in the table, loads only its module, turns errors into exit codes."""

from __future__ import annotations

import os
import sys
from argparse import ArgumentParser
from importlib import import_module
from typing import NoReturn

from patchkit.cli.options import Formatter
from patchkit.core.errors import INTERRUPTED_EXIT_CODE, ConfigError, PatchkitError, RefusedByMachineError

#: Name, module below patchkit.cli, and one line for the overview. The one place where commands are listed.
COMMANDS: tuple[tuple[str, str, str], ...] = (
    ("apply", "apply", "apply an image's stack to a file tree, all or nothing"),
    ("revert", "revert", "put the pristine files back"),
    ("verify", "verify", "compare a tree with its ledger and the lock"),
    ("diff", "diff", "print the stack as one unified diff"),
    ("status", "status", "what is on disk, step by step"),
    ("lock", "lock", "resolve a stack and pin every input and file by hash"),
    ("image", "image", "list and show images"),
)


class Parser(ArgumentParser):
    """An argument parser whose complaints are configuration errors like any other."""

    def error(self, message: str) -> NoReturn:
        """Raise ConfigError with the way to the command's help."""
        raise ConfigError(f"{self.prog}: {message}", hint=f"{self.prog} --help")


def main(argv: list[str] | None = None) -> int:
    """Run one command and return its exit code (design.md, exit codes). `argv` is without the program."""
    words = list(sys.argv[1:] if argv is None else argv)
    as_json = "--json" in words
    command = ""
    try:
        if words[:1] == ["-C"] and len(words) > 2:  # as in git, the folder may come first
            words = [words[2], *words[:2], *words[3:]]
        command = words[0] if words else ""
        return _run(command, words[1:])
    except PatchkitError as error:
        return _fail(command, error, as_json)
    except KeyboardInterrupt:
        print("interrupted; run the same command again: it finishes or undoes what was begun", file=sys.stderr)
        return INTERRUPTED_EXIT_CODE
    except BrokenPipeError:
        _close_stdout()
        return 0
    except OSError as error:
        name = f"{error.filename}: " if error.filename else ""
        return _fail(command, RefusedByMachineError(f"{name}{error.strerror or error}"), as_json)
    except Exception as error:
        if os.environ.get("PATCHKIT_DEBUG"):
            raise
        bug = PatchkitError(
            f"a bug in patchkit: {type(error).__name__}: {error}",
            hint="run it again with PATCHKIT_DEBUG=1 and report what it prints",
        )
        return _fail(command, bug, as_json)


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
            parser = Parser(prog=f"patchkit {name}", description=summary, formatter_class=Formatter)
            loaded.configure(parser)
            code: int = loaded.run(parser.parse_args(words))
            sys.stdout.flush()
            return code
    names = ", ".join(name for name, _, _ in COMMANDS)
    raise ConfigError(f"patchkit: there is no command {command!r}; the commands are: {names}", hint="patchkit --help")


def _overview() -> str:
    rows = "\n".join(f"  {name:<8} {summary}" for name, _, summary in COMMANDS)
    return (
        "usage: patchkit COMMAND [options]\n\nThe container patch manager for LLM serving.\n\n"
        f"{rows}\n\nEvery command takes --json, -C DIR and --help.\nexample: patchkit apply --image nightly-c50aca"
    )


def _fail(command: str, error: PatchkitError, as_json: bool) -> int:
    """Report `error`: for people on stderr, with --json as the one object on stdout."""
    from patchkit.cli.output import print_error, print_failure

    try:
        if as_json:
            print_failure(command, error)
        else:
            print_error(error)
        sys.stdout.flush()
    except BrokenPipeError:
        _close_stdout()
    return error.exit_code


def _close_stdout() -> None:
    """The reader of our pipe is gone; keep the interpreter from complaining about that at its end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
