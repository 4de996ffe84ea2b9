"""What every program of patchkit does with a command: parse its words, print its result, turn errors into exit codes.

stdout carries data only; messages go to stderr. Shared by the command line and the bundle.
"""

from __future__ import annotations

import json
import os
import sys
from argparse import ArgumentParser, RawDescriptionHelpFormatter

from patchkit.core.errors import INTERRUPTED_EXIT_CODE, ConfigError, PatchkitError, RefusedByMachineError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any, NoReturn

    from patchkit.core.report import Report


class Formatter(RawDescriptionHelpFormatter):
    """Help as wide as the terminal, measured without `shutil`, which takes longer to load than a command does."""

    def __init__(self, prog: str) -> None:
        try:
            width = os.get_terminal_size().columns
        except OSError:
            width = 100
        super().__init__(prog, width=max(min(width, 120), 60) - 2)


class Parser(ArgumentParser):
    """An argument parser whose complaints are configuration errors like any other."""

    def __init__(self, prog: str, summary: str = "") -> None:
        super().__init__(prog=prog, description=summary, formatter_class=Formatter)

    def error(self, message: str) -> NoReturn:
        """Raise ConfigError with the way to the command's help."""
        raise ConfigError(f"{self.prog}: {message}", hint=f"{self.prog} --help")


def guarded(run: Callable[[], int], command: str, *, as_json: bool) -> int:
    """Run a command and return its exit code (design.md, exit codes); nothing but that leaves it.

    With PATCHKIT_DEBUG set, a bug's traceback is shown.
    """
    _open_streams()
    try:
        code = run()
        sys.stdout.flush()
    except PatchkitError as error:
        return _fail(command, error, as_json=as_json)
    except KeyboardInterrupt as stop:
        said = str(stop) or "interrupted; run the same command again: it finishes or undoes what was begun"
        print(said, file=sys.stderr)
        return INTERRUPTED_EXIT_CODE
    except BrokenPipeError:
        _close_stdout()
        return 0
    except OSError as error:
        name = f"{error.filename}: " if error.filename else ""
        return _fail(command, RefusedByMachineError(f"{name}{error.strerror or error}"), as_json=as_json)
    except Exception as error:
        if os.environ.get("PATCHKIT_DEBUG"):
            raise
        bug = PatchkitError(
            f"a bug in patchkit: {type(error).__name__}: {error}",
            hint="run it again with PATCHKIT_DEBUG=1 and report what it prints",
        )
        return _fail(command, bug, as_json=as_json)
    return code


def _open_streams() -> None:
    """A stream that was closed before the start swallows what is written to it, as it does for any program;
    messages must not end up on the other one."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115 - for the rest of the process


def _fail(command: str, error: PatchkitError, *, as_json: bool) -> int:
    """Report `error`: for people on stderr, with --json as the one object on stdout."""
    try:
        if as_json:
            from patchkit.core.report import failure_json

            print_json(failure_json(command, error))
        else:
            print_error(error)
        sys.stdout.flush()
    except OSError:  # stdout itself is what failed: full, or its reader gone
        _close_stdout()
        if as_json and not isinstance(error, RefusedByMachineError):
            return error.exit_code
        print_error(error)
    return error.exit_code


def _close_stdout() -> None:
    """The reader of our pipe is gone; keep the interpreter from complaining about that at its end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def print_json(document: dict[str, Any]) -> None:
    """The one JSON object of a run."""
    print(json.dumps(document, indent=2, ensure_ascii=True))


def print_lines(lines: Iterable[str]) -> None:
    """Plain lines on stdout."""
    for line in lines:
        print(printable(line))


def print_error(error: PatchkitError) -> None:
    """An error for people: one `error:` line a problem, then the next command to type."""
    for problem in error.problems:
        print(printable(f"error: {problem}"), file=sys.stderr)
    if error.hint:
        print(printable(f"hint: {error.hint}"), file=sys.stderr)


def printable(text: str) -> str:
    """`text` without what the streams cannot encode: file names need not be UTF-8."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def emit(report: Report, *, as_json: bool, show: Callable[[Report], None] | None = None) -> int:
    """Print a report the way that was asked for, and return its exit code. `show` prints it for a terminal."""
    from patchkit.core.report import plain_lines, to_json

    if as_json:
        print_json(to_json(report))
        return report.exit_code
    if show is not None:
        show(report)
    else:
        print_lines(plain_lines(report))
    if report.error is not None:
        sys.stdout.flush()
        print_error(report.error)
    return report.exit_code


def emit_diff(report: Report, text: bytes, *, as_json: bool) -> int:
    """Print a diff as it is, its notes on stderr; or with --json as the field `diff`. The exit code."""
    if as_json:
        from patchkit.core.report import to_json

        print_json({**to_json(report), "diff": text.decode("utf-8", "backslashreplace")})
        return report.exit_code
    sys.stdout.buffer.write(text)
    sys.stdout.flush()
    for note in report.notes:
        print(printable(f"note: {note}"), file=sys.stderr)
    if report.error is not None:
        print_error(report.error)
    return report.exit_code
