"""patchkit diff"""

from __future__ import annotations

from typing import TYPE_CHECKING

from patchkit.cli import options
from patchkit.core import options as shared

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace


def configure(parser: ArgumentParser) -> None:
    """The options of `diff`."""
    options.common(parser, "patchkit diff --image nightly-c50aca > stack.diff")
    shared.target(parser)
    shared.only(parser)


def run(args: Namespace) -> int:
    """Print the stack as one diff and return the exit code."""
    import sys
    from dataclasses import replace

    from patchkit.app import project as projects
    from patchkit.app.target import open_target
    from patchkit.cli.output import emit, print_error
    from patchkit.core import inspect
    from patchkit.core.operate import Request
    from patchkit.io.progress import working

    project = projects.find(args.folder)
    lock = project.lock(project.resolve(args.image))
    request = Request(lock=lock, read_input=project.read_input, only=shared.ids(args.only))
    with (
        working(f"diff {lock.image.name}"),
        open_target(project, lock, shared.choice(args), create=True) as (target, _),
    ):
        assert target is not None
        report, text = inspect.diff(request, target)
    if args.json:
        shown = text.decode("utf-8", "backslashreplace")
        return emit(replace(report, extra={"diff": shown}), as_json=True)
    sys.stdout.buffer.write(text)
    sys.stdout.flush()
    for note in report.notes:
        print(f"note: {note}", file=sys.stderr)
    if report.error is not None:
        print_error(report.error)
    return report.exit_code
