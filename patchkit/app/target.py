"""Which tree a command works on: `--root`, else `/` if it is the image, else the managed root."""

from __future__ import annotations

import os
from contextlib import contextmanager
from typing import TYPE_CHECKING

from patchkit.targets.directory import Choice, is_running_image, open_root

if TYPE_CHECKING:
    from collections.abc import Iterator

    from patchkit.app.project import Project
    from patchkit.core.lockfile import Lock
    from patchkit.core.operate import Target


@contextmanager
def open_target(
    project: Project, lock: Lock, choice: Choice, *, create: bool
) -> Iterator[tuple[Target | None, tuple[str, ...]]]:
    """Open the target that `choice` means, with notes for the person.

    None where that is the managed root, it does not exist, and `create` is False.
    """
    managed = project.managed_root(lock.image.name)
    if choice.root is not None:
        is_managed = os.path.realpath(choice.root) == os.path.realpath(managed)
        with open_root(lock, choice, choice.root, managed=is_managed) as target:
            yield target, ()
        return
    if is_running_image(lock, choice):
        with open_root(lock, choice, "/", managed=False) as target:
            yield target, ()
        return
    notes: tuple[str, ...] = ()
    if create:
        from patchkit.app.roots import ensure

        notes = ensure(project, lock, choice.site).notes
    elif not os.path.isdir(managed):
        yield None, ()
        return
    with open_root(lock, choice, managed, managed=True) as target:
        yield target, notes
