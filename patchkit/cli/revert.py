"""patchkit revert"""

from __future__ import annotations

from typing import TYPE_CHECKING

from patchkit.cli import options
from patchkit.core import options as shared

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace


def configure(parser: ArgumentParser) -> None:
    """The options of `revert`."""
    options.common(parser, "patchkit revert --image nightly-c50aca")
    options.target(parser)
    shared.force(parser)


def run(args: Namespace) -> int:
    """Put the pristine files back and return the exit code."""
    if args.container is not None:
        from patchkit.cli import container

        return container.run("revert", args)
    from patchkit.app import project as projects
    from patchkit.app.target import open_target
    from patchkit.cli.output import emit
    from patchkit.core import operate
    from patchkit.core.report import Report
    from patchkit.core.verdicts import Outcome

    project = projects.find(args.folder)
    image = project.resolve(args.image)
    lock = project.lock_as_it_is(image)
    with open_target(project, lock, shared.choice(args), create=False) as (target, _):
        if target is None:
            note = "there is no managed root: nothing was applied"
            report = Report(command="revert", image=image, outcome=Outcome.UNCHANGED, notes=(note,))
        else:
            report = operate.revert(image, target, force=args.force, lock=lock)
    return emit(report, as_json=args.json)
