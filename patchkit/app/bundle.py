"""Makes a bundle: core, the lock and every input of a stack in one file that python3 runs.

The same input gives the same bytes on any machine and any Python: members sorted, uncompressed (zlib's
output differs between versions), with one time stamp and one mode (zip application: PEP 441).
"""

from __future__ import annotations

import errno
import io
import os
import zipfile
from contextlib import suppress
from importlib.util import MAGIC_NUMBER, cache_from_source, source_hash
from pathlib import Path
from typing import TYPE_CHECKING

import patchkit
from patchkit.core.bundle import LOCK
from patchkit.core.errors import RefusedByMachineError
from patchkit.core.values import replace

if TYPE_CHECKING:
    from patchkit.app.project import Project
    from patchkit.core.lockfile import Lock, LockedStep

_SHEBANG = b"#!/usr/bin/env python3\n"
_MAIN = b"""import sys

if sys.version_info < (3, 10):
    sys.stderr.write("error: this bundle needs python3 of at least 3.10, this is %d.%d\\n" % sys.version_info[:2])
    sys.exit(8)

from patchkit.core.bundle import main, reader

sys.exit(main(sys.argv[1:], reader()))
"""
_SPACE = "free some space, or name a file elsewhere: -o FILE"
_HINTS = {
    errno.ENOSPC: _SPACE,
    errno.EDQUOT: _SPACE,
    errno.ENOENT: "make the directory first, or name a file in another one: -o FILE",
    errno.EACCES: "name a file in a directory that you may write to: -o FILE",
    errno.EPERM: "name a file in a directory that you may write to: -o FILE",
}
_EARLIEST = (1980, 1, 1, 0, 0, 0)


def make_bundle(
    project: Project, lock: Lock, steps: tuple[LockedStep, ...] | None = None, *, compiled: bool = False
) -> bytes:
    """The bundle of `lock` as bytes, with the inputs of `steps` (all without). Raises ConfigError where
    an input is stale or not at hand. `compiled`: for one use; this interpreter's byte-code goes along, and spares
    one of the same version the compiling. Any other passes it by and takes the sources."""
    carried = lock.steps if steps is None else steps
    members = {
        "__main__.py": _MAIN,
        LOCK: Path(project.lock_file(lock.image.name)).read_bytes(),
        **{f"patchkit/{name}": data for name, data in _code().items()},
        **({f"patchkit/{name}": data for name, data in _byte_code().items()} if compiled else {}),
        **{f"inputs/{s.input.sha256}": project.read_input(s) for s in _with_inputs(carried) if s.input is not None},
    }
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        for name in sorted(members):
            info = zipfile.ZipInfo(name, _EARLIEST)
            info.external_attr = 0o100644 << 16
            info.create_system = 3
            archive.writestr(info, members[name])
    return _SHEBANG + buffer.getvalue()


def _with_inputs(steps: tuple[LockedStep, ...]) -> list[LockedStep]:
    """The steps, one for each input: a step that carries wheels once for each of them, too."""
    wheels = [(step, wheel) for step in steps for package in step.packages for wheel in package.wheels]
    return [*steps, *(replace(step, input=wheel.input) for step, wheel in wheels)]


def _code() -> dict[str, bytes]:
    """The modules that a bundle runs: the package itself and its core, nothing else."""
    root = Path(patchkit.__file__).parent
    return {
        "__init__.py": (root / "__init__.py").read_bytes(),
        **{f"core/{path.name}": path.read_bytes() for path in (root / "core").glob("*.py")},
    }


def _byte_code() -> dict[str, bytes]:
    """The byte-code of core that this interpreter keeps and that fits the sources, as PEP 552 has it: unchecked."""
    found = {}
    for path in (Path(patchkit.__file__).parent / "core").glob("*.py"):
        try:
            data = Path(cache_from_source(str(path), optimization="")).read_bytes()
        except OSError:
            continue
        status = path.stat()
        stamp = b"".join(
            (number & 0xFFFFFFFF).to_bytes(4, "little") for number in (int(status.st_mtime), status.st_size)
        )
        if data[:16] == MAGIC_NUMBER + bytes(4) + stamp:
            found[f"core/{path.name}c"] = MAGIC_NUMBER + b"\1\0\0\0" + source_hash(path.read_bytes()) + data[16:]
    return found


def write_bundle(path: str, data: bytes) -> None:
    """Write the bundle as an executable file, whole or not at all. Raises RefusedByMachineError."""
    temp = f"{path}.{os.getpid()}.tmp"
    try:
        try:
            with open(temp, "xb") as stream:
                stream.write(data)
                stream.flush()
                os.fsync(stream.fileno())
            os.chmod(temp, 0o755)  # noqa: S103 - a program that anybody may run
            os.replace(temp, path)
        except BaseException:
            with suppress(OSError):
                os.unlink(temp)
            raise
    except OSError as error:
        raise RefusedByMachineError(
            f"-o {path}: the bundle cannot be written there: {error.strerror or error}",
            hint=_HINTS.get(error.errno or 0, "name another file: -o FILE"),
        ) from None
