"""Progress on a terminal for what takes longer than two seconds; nothing in a pipe.

The terminal library itself is loaded only once two seconds have passed.
"""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

PATIENCE = 2.0


@contextmanager
def working(text: str) -> Iterator[None]:
    """Show `text` with a spinner on stderr while the block runs, from the third second on."""
    if not sys.stderr.isatty():
        yield
        return
    from threading import Event, Thread

    done = Event()
    thread = Thread(target=_spin, args=(text, done), daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def _spin(text: str, done: object) -> None:
    from threading import Event

    assert isinstance(done, Event)
    if done.wait(PATIENCE):
        return
    from patchkit.io.console import spinner

    with spinner(text):
        done.wait()
