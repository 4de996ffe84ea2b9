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
    options.target(parser)
    shared.only(parser)


def run(args: Namespace) -> int:
    """Print the stack as one diff and return the exit code."""
    if args.container is not None:
        from patchkit.cli import container

        return container.run("diff", args)
    from patchkit.app import project as projects
    from patchkit.app.target import open_target
    from patchkit.core import inspect
    from patchkit.core.program import emit_diff
    from patchkit.io.progress import working

    project = projects.find(args.folder)
    lock = project.lock(project.resolve(args.image))
    request = shared.request(lock, project.read_input, args)
    with (
        working(f"diff {lock.image.name}"),
        open_target(project, lock, shared.choice(args), create=True) as (target, _),
    ):
        assert target is not None
        report, text = inspect.diff(request, target)
    return emit_diff(report, text, as_json=args.json)
