"""Opens the target of a command: a directory, with the image's managed root as the last resort."""

from __future__ import annotations

from typing import TYPE_CHECKING

from patchkit.targets.directory import ManagedRoot, open_directory

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from patchkit.app.project import Project
    from patchkit.core.lockfile import Lock
    from patchkit.core.operate import Target
    from patchkit.core.roots import Choice


def open_target(
    project: Project, lock: Lock, choice: Choice, *, create: bool
) -> AbstractContextManager[tuple[Target | None, tuple[str, ...]]]:
    """The target that `choice` means, with notes; `create` makes a managed root that is not there.

    None where that is the managed root, it does not exist, and `create` is False.
    """

    def make() -> tuple[str, ...]:
        from patchkit.app.roots import ensure

        return ensure(project, lock, choice.site).notes

    managed = ManagedRoot(path=project.managed_root(lock.image.name), make=make if create else None)
    return open_directory(lock, choice, managed)
