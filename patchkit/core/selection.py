"""Which steps of a lock are meant, and whether they can be applied at all. Light: on the hot path of `apply`."""

from __future__ import annotations

from patchkit.core.errors import ConfigError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from patchkit.core.lockfile import Lock, LockedStep

#: The kinds of steps that change files and nothing else; the others need a running machine.
FILE_KINDS = ("patch", "replace", "file")


def select(lock: Lock, only: tuple[str, ...]) -> tuple[LockedStep, ...]:
    """The steps to apply, in the stack's order: all, or the closed selection `only`.

    Raises ConfigError for an unknown id, and where an unselected earlier step touches a selected
    step's files.
    """
    if not only:
        return lock.steps
    known = [step.id for step in lock.steps]
    strange = [step_id for step_id in only if step_id not in known]
    if strange:
        raise ConfigError(
            *(f"--only {step_id}: the stack of {lock.image.name} has no such step" for step_id in strange),
            hint=f"its steps are: {', '.join(known)}",
        )
    problems = [
        f"--only: step {step.id} builds on the files of step {earlier.id}, which is not selected"
        for index, step in enumerate(lock.steps)
        if step.id in only
        for earlier in lock.steps[:index]
        if earlier.id not in only and earlier.kind in FILE_KINDS and earlier.shares_files(step)
    ]
    if problems:
        raise ConfigError(*problems, hint="select the named steps, too")
    return tuple(step for step in lock.steps if step.id in only)


def require_resolved(lock: Lock, steps: tuple[LockedStep, ...]) -> None:
    """Raise ConfigError naming every fact of `steps` that is not known, with the command that resolves it."""
    unknown = [(step, fact) for step in steps for fact in step.unresolved]
    if not unknown:
        return
    ready = [step.id for step in lock.steps if not step.unresolved]
    problems = [f"step {step.id} is unresolved: {fact}; {fact.command}" for step, fact in unknown]
    closed = _closed(lock, tuple(ready))
    hint = f"apply the rest now: --only {','.join(closed)}" if closed else "resolve them, then: patchkit lock"
    raise ConfigError(*problems, hint=hint)


def _closed(lock: Lock, ids: tuple[str, ...]) -> tuple[str, ...]:
    """The largest part of `ids` that `select` accepts and a plain directory can take."""
    kept: list[str] = []
    for index, step in enumerate(lock.steps):
        if step.id not in ids or step.kind not in FILE_KINDS:
            continue
        missing = [e for e in lock.steps[:index] if e.id not in kept and e.kind in FILE_KINDS and e.shares_files(step)]
        if not missing:
            kept.append(step.id)
    return tuple(kept)
