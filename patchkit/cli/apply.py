"""patchkit apply"""

from __future__ import annotations

from typing import TYPE_CHECKING

from patchkit.cli import options
from patchkit.core import options as shared

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace


def configure(parser: ArgumentParser) -> None:
    """The options of `apply`."""
    options.common(
        parser,
        "patchkit apply --image nightly-c50aca",
        "patchkit apply --image nightly-c50aca --root /mnt/rootfs --dry-run",
        "patchkit apply --image nightly-c50aca --container vllm-prefill-0",
    )
    options.target(parser)
    shared.applying(parser)


def run(args: Namespace) -> int:
    """Apply the stack and return the exit code."""
    if args.container is not None:
        from patchkit.cli import container

        return container.run("apply", args)
    from dataclasses import replace

    from patchkit.app import project as projects
    from patchkit.app.target import open_target
    from patchkit.cli.output import emit
    from patchkit.core import operate
    from patchkit.core.roots import is_machine
    from patchkit.io.progress import working

    project = projects.find(args.folder)
    lock = project.lock(project.resolve(args.image))
    request = shared.request(lock, project.read_input, args)
    runs = any(operate.is_active(step, request.stage) for step in lock.steps)
    machine = runs and is_machine(lock, shared.choice(args))
    operate.check_request(request, is_machine=machine)  # before a managed root is made for it
    with (
        working(f"apply {lock.image.name}"),
        open_target(project, lock, shared.choice(args), create=True) as (target, notes),
    ):
        assert target is not None
        report = operate.apply(replace(request, notes=notes), target)
    return emit(report, as_json=args.json)
