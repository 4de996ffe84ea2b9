"""Runs the command line with an engine that stops: `cut.py HOW NUMBER COMMAND...`, killed (SIGKILL) at the
NUMBER-th archive entry that would be written; prints how many were.

HOW: `before` the entry; when what it replaces is `removed` already; when a file is `half` written.
"""

from __future__ import annotations

import io
import os
import signal
import sys
import tarfile
from contextlib import suppress

from patchkit.cli.main import main
from patchkit.core.errors import UnreachableError
from patchkit.io.engine import Container, Engine

HOW, LEFT = sys.argv[1], int(sys.argv[2])
COUNT = 0
PUT = Engine.put


def archive_of(info: tarfile.TarInfo, data: bytes) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as archive:
        archive.addfile(info, io.BytesIO(data))
    return buffer.getvalue()


def put(self: Engine, container: Container, path: str, archive: bytes) -> None:
    """One entry after another, as the engine itself does it, and no more after the last."""
    global COUNT  # noqa: PLW0603
    with tarfile.open(fileobj=io.BytesIO(archive)) as entries:
        for info in entries:
            stream = entries.extractfile(info) if info.isreg() else None
            data = stream.read() if stream is not None else b""
            COUNT += 1
            if COUNT == LEFT:
                stop(self, container, path, info, data)
            PUT(self, container, path, archive_of(info, data))


def stop(engine: Engine, container: Container, path: str, info: tarfile.TarInfo, data: bytes) -> None:
    if HOW == "removed" and not info.isdir():
        nothing = tarfile.TarInfo(info.name)
        nothing.type, nothing.linkname = tarfile.LNKTYPE, "none/such"
        with suppress(UnreachableError):
            PUT(engine, container, path, archive_of(nothing, b""))
    if HOW == "half" and info.isreg():
        info.size = len(data) // 2
        PUT(engine, container, path, archive_of(info, data[: info.size]))
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    Engine.put = put  # type: ignore[method-assign]
    code = main(sys.argv[3:])
    print(COUNT, file=sys.stderr)
    sys.exit(code)
