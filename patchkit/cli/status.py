"""patchkit status"""

from __future__ import annotations

from typing import TYPE_CHECKING

from patchkit.cli import options
from patchkit.core import options as shared

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace


def configure(parser: ArgumentParser) -> None:
    """The options of `status`."""
    options.common(parser, "patchkit status --image nightly-c50aca")
    options.target(parser)


def run(args: Namespace) -> int:
    """Report each step's state on disk and return the exit code."""
    if args.container is not None:
        from patchkit.cli import container

        return container.run("status", args)
    from patchkit.app import project as projects
    from patchkit.app.target import open_target
    from patchkit.cli.output import emit
    from patchkit.core import inspect
    from patchkit.core.operate import Request
    from patchkit.core.report import Report, StepReport
    from patchkit.core.verdicts import Outcome

    project = projects.find(args.folder)
    lock = project.lock(project.resolve(args.image))
    with open_target(project, lock, shared.choice(args), create=False) as (target, _):
        if target is not None:
            return emit(inspect.status(Request(lock=lock, read_input=project.read_input), target), as_json=args.json)
    steps = tuple(
        StepReport(
            id=step.id,
            verdict=None,
            changes=step.changes,
            upstream=step.upstream,
            detail=tuple(f"unresolved: {fact}" for fact in step.unresolved),
        )
        for step in lock.steps
    )
    apply = shared.choice(args).caller.spell("apply", image=lock.image.name)
    report = Report(
        command="status",
        image=lock.image.name,
        outcome=Outcome.REPORTED,
        version=lock.version,
        lock=lock.digest,
        steps=steps,
        notes=(f"there is no tree yet; {apply} makes one",),
    )
    return emit(report, as_json=args.json)
