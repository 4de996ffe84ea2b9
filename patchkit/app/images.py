"""What there is: every image with its stack and lock, for `image list` and `image show`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from patchkit.core.errors import ConfigError
from patchkit.core.lockfile import Unknown as Fact
from patchkit.model import diffstat
from patchkit.model.load import load_image, load_stack
from patchkit.report.images import Details, FileStat, Overview, StepDetails

if TYPE_CHECKING:
    from patchkit.app.project import Project
    from patchkit.core.lockfile import LockedStep
    from patchkit.model.image import Image
    from patchkit.model.stack import Stack


def overview(project: Project) -> list[Overview]:
    """Every image of the project, also those whose files are broken."""
    return [_overview(project, name) for name in project.images()]


def _overview(project: Project, name: str) -> Overview:
    image: Image | None = None
    version, steps, unresolved = None, 0, 0
    problems: list[str] = []
    hint = ""
    try:
        image = load_image(Path(project.image_file(name)))
        stack = load_stack(Path(project.stack_file(name)))
        version, steps = stack.version, len(stack.steps)
        unresolved = sum(1 for facts in _unresolved(project, name, stack).values() if facts)
    except ConfigError as error:
        problems, hint = list(error.problems), error.hint
    return Overview(
        name=name,
        reference=None if image is None else image.reference,
        digest=None if image is None else image.digest,
        platform=None if image is None else image.platform,
        version=version,
        steps=steps,
        unresolved=unresolved,
        lock=_lock_state(project, name),
        error=ConfigError(*problems, hint=hint) if problems else None,
    )


def _unresolved(project: Project, name: str, stack: Stack) -> dict[str, tuple[str, ...]]:
    """What is not known about each step: by its fresh lock, which also knows what could not be fetched,
    else by the YAML alone."""
    if _lock_state(project, name) == "fresh":
        steps = project.lock_as_it_is(name).steps
        return {step.id: tuple(f"{u}; {u.command}" for u in step.unresolved) for step in steps}
    return {
        step.id: tuple(f"{Fact(what=u.what, command=u.command)}; {u.command}" for u in stack.unresolved(step))
        for step in stack.steps
    }


def _lock_state(project: Project, name: str) -> str:
    if not Path(project.lock_file(name)).exists():
        return "missing"
    try:
        lock = project.lock_as_it_is(name)
    except ConfigError:
        return "broken"
    return "stale" if project.stale(lock) else "fresh"


def details(project: Project, name: str) -> Details:
    """Image `name` with its stack. Raises ConfigError for broken files."""
    image = load_image(Path(project.image_file(name)))
    stack = load_stack(Path(project.stack_file(name)))
    state = _lock_state(project, name)
    lock = project.lock_as_it_is(name) if state in ("fresh", "stale") else None
    unresolved = _unresolved(project, name, stack)
    steps = []
    for step in stack.steps:
        locked = lock.step(step.id) if lock is not None else None
        steps.append(
            StepDetails(
                id=step.id,
                kind=step.kind,
                type=step.type,
                upstream=step.upstream,
                reason=step.reason or "",
                files=_stats(project, locked),
                unresolved=unresolved[step.id],
            )
        )
    return Details(image=image, lock_state=state, lock=lock, steps=tuple(steps))


def _stats(project: Project, step: LockedStep | None) -> tuple[FileStat, ...]:
    """The diffstat of a patch: for people to see, never for applying."""
    if step is None:
        return ()
    if step.kind != "patch" or step.input is None:
        return tuple(FileStat(path=change.path, added=0, removed=0) for change in step.changes)
    try:
        counts = diffstat.count(project.read_input(step))
    except (ConfigError, OSError):
        counts = None
    prefix = step.action.get("prefix")
    found = ((change.path, diffstat.find(counts, change.path, prefix)) for change in step.changes)
    return tuple(
        FileStat(path=path, added=count.added if count else 0, removed=count.removed if count else 0)
        for path, count in found
    )
