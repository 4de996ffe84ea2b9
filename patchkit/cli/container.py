"""What `--container` means for every command that works on a target."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from patchkit.cli.options import LIST
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
    if args.container is not LIST and not args.container.strip():
        raise ConfigError(
            "--container: expected the id or name of a container, found an empty value; nothing was done",
            hint=f"--container ID; with no value at all, patchkit status --image {args.image or 'NAME'} --container"
            " lists those that fit",
        )
    project = projects.find(args.folder)
    image = project.resolve(args.image)
    lock = project.lock_as_it_is(image) if command == "revert" else project.lock(image)
    if args.container is LIST:
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
    from patchkit.core.program import print_error, print_json, print_lines
    from patchkit.core.report import Report, to_json
    from patchkit.core.verdicts import Outcome

    found = container.listing(lock, args)
    error = _unnamed(command, lock, [c.container.name for c in found]) if command in container.WRITING else None
    rows = [
        {"id": c.container.id, "name": c.container.name, "state": c.container.state, "image": c.container.image,
         "match": c.why}
        for c in found
    ]  # fmt: skip
    if args.json:
        report = Report(
            command=command,
            image=lock.image.name,
            outcome=Outcome.REPORTED if error is None else Outcome.REFUSED,
            version=lock.version,
            lock=lock.digest,
            error=error,
        )
        print_json({**to_json(report), "containers": rows})
        return report.exit_code
    print_lines([f"containers of image {lock.image.name}: {len(rows) or 'none'}"])
    width = max((len(row["name"]) for row in rows), default=0)
    for row in rows:
        print_lines(
            [f"  {row['id'][:12]}  {row['name']:<{width}}  {row['state']:<8}  {row['image']} (by {row['match']})"]
        )
    if error is None:
        return 0
    sys.stdout.flush()
    print_error(error)
    return error.exit_code


def _unnamed(command: str, lock: Lock, names: list[str]) -> ConfigError:
    """What a command that changes its target says where it has none."""
    done = {"apply": "applied", "revert": "reverted"}[command]
    which = names[0] if len(names) == 1 else "ID"
    return ConfigError(
        f"--container: no container is named; nothing was {done}",
        hint=f"name one of those listed: patchkit {command} --image {lock.image.name} --container {which}"
        if names
        else f"start a container of {lock.image.name}, or name any other: --container ID",
    )
