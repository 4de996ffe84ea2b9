"""Runs something in a forked child, as an ordinary user where the tests run as root."""

from __future__ import annotations

import encodings.ascii  # noqa: F401
import os
import pickle
import time  # noqa: F401
import warnings
from typing import TYPE_CHECKING, Any

# an ordinary user may not be let in to where the interpreter is: everything is loaded before that
import patchkit.core.change
import patchkit.core.journal
import patchkit.core.layout
import patchkit.core.repair  # noqa: F401
from patchkit.core.identity import contradiction  # noqa: F401

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

NOBODY = 65534
AS_ROOT = os.geteuid() == 0


def in_child(act: Callable[[], Any], uid: int | None = None) -> Any:
    """What `act` returns or raises in a forked child, as user `uid`."""
    read, write = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        pid = os.fork()
    if pid == 0:
        os.close(read)
        try:
            if uid is not None:
                os.setgroups([])
                os.setgid(uid)
                os.setuid(uid)
            result: Any = act()
        except BaseException as error:  # noqa: BLE001 - handed to the parent
            result = error
        os.write(write, pickle.dumps((type(result), str(result))))
        os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as stream:
        kind, text = pickle.loads(stream.read())
    os.waitpid(pid, 0)
    return kind, text


def as_user(act: Callable[[], object], uid: int = NOBODY) -> tuple[type, str]:
    """`act` as an ordinary user: another one where this is root."""
    return in_child(act, uid if AS_ROOT else None)


def open_to_user(site: Path) -> None:
    """Hand the tree to the ordinary user, and let that user in from above."""
    if not AS_ROOT:
        return
    for path in [site, *site.rglob("*")]:
        os.chown(path, NOBODY, NOBODY, follow_symlinks=False)
    for above in list(site.parents)[:-2]:
        if not above.stat().st_mode & 0o001:
            above.chmod(above.stat().st_mode | 0o011)
