"""A stack and a container: finds it, and runs the bundle inside."""

from __future__ import annotations

import os
from contextlib import contextmanager
from typing import TYPE_CHECKING

from patchkit.app.bundle import make_bundle
from patchkit.core import options
from patchkit.core.errors import RefusedByMachineError
from patchkit.core.operate import is_active
from patchkit.core.roots import site_patterns
from patchkit.core.selection import FILE_KINDS, require_resolved, select
from patchkit.core.values import Value
from patchkit.io.engine import Container, Engine, Finished, connect
from patchkit.sources.cache import default_root
from patchkit.targets import container as targets

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Iterator

    from patchkit.app.project import Project
    from patchkit.core.lockfile import Lock
    from patchkit.core.operate import Request

#: The options that are handed on to the bundle, as argparse calls them.
_FLAGS = ("json", "stand_in", "dry_run", "force")
_VALUES = ("site", "only", "stage")
WRITING = ("apply", "revert")


class Place(Value):
    """A container that is held for one command."""

    engine: Engine
    container: Container
    writes: bool


def listing(lock: Lock, args: Namespace) -> tuple[targets.Candidate, ...]:
    """The containers that `--container` could name for this lock's image. Nothing is touched."""
    with connect() as engine:
        return targets.candidates(engine, lock.image, site_patterns(lock, options.choice(args)))


@contextmanager
def opened(lock: Lock, command: str, args: Namespace) -> Iterator[Place]:
    """The container that `--container` names, held. Raises ConfigError, RefusedByMachineError,
    BusyError, UnreachableError."""
    writes = command in WRITING and not getattr(args, "dry_run", False)
    with connect() as engine:
        container = targets.find(engine, args.container, lock.image, site_patterns(lock, options.choice(args)))
        targets.require_usable(container, writes=writes)
        folder = os.path.join(default_root(), "containers")
        with targets.held(folder, container, shared=not writes):
            yield Place(engine=engine, container=container, writes=writes)


def require_runnable(place: Place, command: str, request: Request) -> None:
    """Raise RefusedByMachineError where `command` would carry steps out in a container that cannot run them:
    one that is read and written through archives."""
    if command != "apply":
        return
    steps = select(request.lock, request.only)
    require_resolved(request.lock, steps)
    now = [step for step in steps if is_active(step, request.stage)]
    if not now:
        return
    who = f"container {place.container.name} ({place.container.short})"
    if place.container.state == "running":
        why, cure = "it has no python3 (3.10 or newer)", "put python3 into it"
    else:
        why, cure = f"it is {place.container.state}", f"docker start {place.container.name}, then run it again"
    rest = ",".join(step.id for step in steps if step.kind in FILE_KINDS)
    raise RefusedByMachineError(
        *(f"step {step.id} ({step.kind}): cannot run here: {who}: {why}; nothing was done" for step in now),
        hint=cure + (f"; or apply the other steps: --only {rest}" if rest else ""),
    )


def run_inside(project: Project, lock: Lock, place: Place, command: str, args: Namespace) -> Finished | None:
    """Run the command by the bundle inside the container; None where it does not run or has no python3."""
    if place.container.state != "running":
        return None
    words = [command]
    words += [f"--{name.replace('_', '-')}" for name in _FLAGS if getattr(args, name, False)]
    words += [f"--{name}={getattr(args, name)}" for name in _VALUES if getattr(args, name, None) is not None]
    steps = () if command in ("verify", "revert") else select(lock, options.ids(getattr(args, "only", None)))
    bundle = make_bundle(project, lock, steps, compiled=True)
    return targets.run_bundle(place.engine, place.container, bundle, words, options.given(args))
