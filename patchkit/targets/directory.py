"""Which directory a command works on: the one that was named, `/` if it is the image, else the managed root."""

from __future__ import annotations

import os
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from patchkit.core.roots import Choice, is_running_image, open_root

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from patchkit.core.lockfile import Lock
    from patchkit.core.operate import Target


@dataclass(frozen=True, slots=True, kw_only=True)
class ManagedRoot:
    """Where an image's managed root is, and how to make or complete it; `make` returns notes for the
    person, and is None for commands that only look."""

    path: str
    make: Callable[[], tuple[str, ...]] | None


@contextmanager
def open_directory(lock: Lock, choice: Choice, managed: ManagedRoot) -> Iterator[tuple[Target | None, tuple[str, ...]]]:
    """Open the target that `choice` means (design.md, Target rule), with notes for the person.

    None where that is the managed root, it does not exist, and it is not to be made.
    """
    notes: tuple[str, ...] = ()
    if choice.root is not None:
        root, is_managed = choice.root, os.path.realpath(choice.root) == os.path.realpath(managed.path)
    elif is_running_image(lock, choice):
        root, is_managed = "/", False
    else:
        root, is_managed = managed.path, True
        if managed.make is not None:
            notes = managed.make()
        elif not os.path.isdir(root):
            yield None, ()
            return
    with open_root(lock, choice, root, managed=is_managed) as target:
        yield target, notes
