"""What `--container` means for every command that works on a target."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from patchkit.core import options as shared
from patchkit.core.bundle import perform
from patchkit.core.errors import ConfigError

if TYPE_CHECKING:
    from argparse import Namespace

    from patchkit.core.lockfile import Lock


def run(command: str, args: Namespace) -> int:
    """Carry `command` out in the container, or list the containers where none is named; the exit code."""
    import gc

    gc.disable()  # the engine's SDK is a fifth faster to load, and the process is short
    from patchkit.app import container
    from patchkit.app import project as projects
    from patchkit.io.progress import working

    gc.freeze()  # nor is all of it looked through once more at the end
    if args.root is not None:
        raise ConfigError("--root and --container: only one of them names the target", hint="leave one of them out")
    project = projects.find(args.folder)
    image = project.resolve(args.image)
    lock = project.lock_as_it_is(image) if command == "revert" else project.lock(image)
    if not args.container:
        return _list(command, lock, args)
    with working(f"{command} {lock.image.name}"), container.opened(lock, command, args) as place:
        inside = container.run_inside(project, lock, place, command, args)
        if inside is None:
            from patchkit.app.archives import by_archives

            request = shared.request(lock, project.read_input, args)
            container.require_runnable(place, command, request)
            with by_archives(lock, place, args) as target:
                done = perform(command, request, target, force=getattr(args, "force", False))
    if inside is None:
        return done.emit(as_json=args.json)
    sys.stdout.buffer.write(inside.out)
    sys.stdout.flush()
    sys.stderr.buffer.write(inside.err)
    assert inside.code is not None
    return inside.code


def _list(command: str, lock: Lock, args: Namespace) -> int:
    from patchkit.app import container
    from patchkit.core.program import print_json, print_lines
    from patchkit.core.report import Report, to_json
    from patchkit.core.verdicts import Outcome

    found = container.listing(lock, args)
    rows = [
        {"id": c.container.id, "name": c.container.name, "state": c.container.state, "image": c.container.image,
         "match": c.why}
        for c in found
    ]  # fmt: skip
    if args.json:
        report = Report(
            command=command,
            image=lock.image.name,
            outcome=Outcome.REPORTED,
            version=lock.version,
            lock=lock.digest,
        )
        print_json({**to_json(report), "containers": rows})
        return 0
    print_lines([f"containers of image {lock.image.name}: {len(rows) or 'none'}"])
    width = max((len(row["name"]) for row in rows), default=0)
    for row in rows:
        print_lines(
            [f"  {row['id'][:12]}  {row['name']:<{width}}  {row['state']:<8}  {row['image']} (by {row['match']})"]
        )
    return 0
