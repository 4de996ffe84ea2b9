"""patchkit verify"""

from __future__ import annotations

from typing import TYPE_CHECKING

from patchkit.cli import options
from patchkit.core import options as shared

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace


def configure(parser: ArgumentParser) -> None:
    """The options of `verify`."""
    options.common(parser, "patchkit verify --image nightly-c50aca")
    options.target(parser)


def run(args: Namespace) -> int:
    """Compare the target with ledger and lock and return the exit code."""
    if args.container is not None:
        from patchkit.cli import container

        return container.run("verify", args)
    from patchkit.app import project as projects
    from patchkit.app.target import open_target
    from patchkit.cli.output import emit
    from patchkit.core import operate
    from patchkit.core.errors import DriftError

    project = projects.find(args.folder)
    lock = project.lock(project.resolve(args.image))
    with open_target(project, lock, shared.choice(args), create=False) as (target, _):
        if target is None:
            raise DriftError(
                f"{lock.image.name}: the stack is not applied: there is no managed root yet",
                hint=shared.choice(args).caller.spell("apply", image=lock.image.name),
            )
        report = operate.verify(lock, target)
    return emit(report, as_json=args.json)
