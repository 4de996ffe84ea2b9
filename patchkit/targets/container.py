"""Containers as targets: which one is meant, may it be touched, and the bundle run inside it."""

from __future__ import annotations

import fcntl
import json
import os
from contextlib import contextmanager
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from patchkit.core.errors import BusyError, ConfigError, RefusedByMachineError
from patchkit.core.identity import commit_in, same_commit
from patchkit.core.site import machine_says
from patchkit.core.values import Value
from patchkit.targets.mirror import resolved

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from patchkit.core.lockfile import LockedImage
    from patchkit.io.engine import Container, Engine, Finished

#: What is tried in turn inside a container; the bundle needs 3.10.
INTERPRETERS = ("python3", "python3.13", "python3.12", "python3.11", "python3.10")
_USABLE = ("running", "created", "exited")
_READY = b"\0patchkit "
#: Receives the bundle and runs it where it never becomes a file: argv is its size, its prefix, the
#: words that name the container to the client (as JSON), its own words.
_RECEIVE = """
import os, sys
def run():
    size = int(sys.argv[1])
    data = sys.stdin.buffer.read(size)
    if len(data) < size:
        return 137
    try:
        handle = os.memfd_create("patchkit")
    except (AttributeError, OSError):
        import tempfile
        handle, name = tempfile.mkstemp(dir="/dev/shm" if os.path.isdir("/dev/shm") else None)
        os.unlink(name)
    with open(handle, "wb", closefd=False) as stream:
        stream.write(data)
    sys.path.insert(0, "/proc/self/fd/%d" % handle)
    import json
    from patchkit.core.bundle import main, reader
    return main(sys.argv[4:], reader(), sys.argv[2], tuple(json.loads(sys.argv[3])))
if sys.version_info >= (3, 10):
    try:
        sys.stdout.write("\\0patchkit %d\\n" % os.getpid())
        sys.stdout.flush()
        code = run()
    except KeyboardInterrupt:
        sys.stderr.write("interrupted; run the same command again: it finishes or undoes what was begun\\n")
        code = 130
    sys.exit(code)
"""


class Candidate(Value):
    """A container that holds the image, and how that is known."""

    container: Container
    why: str


def candidates(engine: Engine, image: LockedImage, sites: tuple[str, ...]) -> tuple[Candidate, ...]:
    """The containers made from `image`, by what they name and by the digest, and those that have its identity."""
    found = []
    for container in engine.containers():
        why = _match(engine, container, image, sites)
        if why:
            found.append(Candidate(container=container, why=why))
    return tuple(found)


def _match(engine: Engine, container: Container, image: LockedImage, sites: tuple[str, ...]) -> str:
    if image.digest is not None and image.digest in container.digests:
        return "digest"
    if container.image in (image.reference, image.digest):
        return "reference"
    if image.identity_file:
        for site in sites:
            if not any(c in site for c in "*?[") and _has_identity(engine, container, site, image):
                return "identity"
    return ""


def _has_identity(engine: Engine, container: Container, site: str, image: LockedImage) -> bool:
    path = f"/{site}/{image.identity_file}"
    if container.state in ("removing", "dead") or engine.stat(container, path) is None:
        return False
    with engine.archive(container, path) as archive:
        entry = archive.next() if archive is not None else None
        stream = archive.extractfile(entry) if archive is not None and entry is not None else None
        return stream is not None and same_commit(commit_in(stream.read()), image.identity_commit)


def find(engine: Engine, name: str, image: LockedImage, sites: tuple[str, ...]) -> Container:
    """The container that `name` means: its id, its name, or an unambiguous beginning of either.

    Raises ConfigError with the candidates where there is none, or several.
    """
    exact = engine.container(name)
    if exact is not None:
        return exact
    hits = [c for c in engine.containers() if c.name.startswith(name) or c.id.startswith(name)]
    if len(hits) == 1:
        found = engine.container(hits[0].id)
        if found is not None:
            return found
    if len(hits) > 1:
        names = ", ".join(sorted(f"{c.name} ({c.short})" for c in hits))
        raise ConfigError(f"--container {name}: it names {len(hits)} containers: {names}", hint="type more of the name")
    fitting = ", ".join(f"{c.container.name} ({c.container.short})" for c in candidates(engine, image, sites))
    raise ConfigError(
        f"--container {name}: there is no such container",
        hint=f"containers of image {image.name}: {fitting or 'none'}",
    )


def require_usable(container: Container, *, writes: bool) -> None:
    """Raise RefusedByMachineError for a container that is paused, in between two states, or, where a
    command `writes`, has a read-only root."""
    who = f"container {container.name} ({container.short})"
    if container.state == "paused":
        raise RefusedByMachineError(
            f"{who}: it is paused; nothing was done", hint=f"docker unpause {container.name}, then run it again"
        )
    if container.state not in _USABLE:
        raise RefusedByMachineError(
            f"{who}: it is {container.state}; nothing was done", hint=f"docker stop {container.name}, or wait"
        )
    if writes and container.read_only:
        raise RefusedByMachineError(
            f"{who}: its root is read-only (docker run --read-only); nothing was done",
            hint="apply in a container made without --read-only",
        )


def require_owners(engine: Engine, container: Container) -> None:
    """Raise RefusedByMachineError where archives would not keep the owners of files."""
    who = f"container {container.name} ({container.short})"
    hint = "start the container, if it has python3: then nothing passes through archives"
    if os.geteuid() != 0:
        raise RefusedByMachineError(
            f"{who}: only root can keep the owners of its files while they pass through archives", hint=hint
        )
    if engine.has_user_namespaces():
        raise RefusedByMachineError(
            f"{who}: the engine maps its users (--userns-remap), and archives do not tell its owners", hint=hint
        )


def require_visible(engine: Engine, container: Container, patterns: tuple[str, ...], site: str | None) -> None:
    """Raise RefusedByMachineError where a file system in memory covers the site, lies below it, or may hold it:
    an engine's archives tell and change what lies under it, which nobody in the container sees."""
    wanted = [f"/{pattern}" for pattern in patterns] + ([site] if site is not None else [])
    hiding = [
        path
        for path in container.tmpfs
        if any(_overlap(one, pattern) for one in (path, resolved(engine, container, path)) for pattern in wanted)
    ]
    if hiding:
        with_python = "put python3 (3.10 or newer) into it" if container.state == "running" else (
            f"docker start {container.name}, if it has python3"
        )  # fmt: skip
        raise RefusedByMachineError(
            f"container {container.name} ({container.short}): it has a tmpfs at {', '.join(hiding)}, at the site or on"
            " the way to it or below it, and archives do not reach into that; nothing was done",
            hint=f"{with_python}: then nothing passes through archives; or make a container without that tmpfs",
        )


def _overlap(one: str, pattern: str) -> bool:
    """Whether a path is what a glob means, or above or below it."""
    pairs = zip(one.strip("/").split("/"), pattern.strip("/").split("/"), strict=False)
    return all(fnmatchcase(part, glob) or part == glob for part, glob in pairs)


@contextmanager
def held(folder: str, container: Container, *, shared: bool) -> Iterator[None]:
    """Hold the container against other clients of this user. Raises BusyError where another has it."""
    path = os.path.join(folder, f"{container.id}.lock")
    with machine_says(f"cannot lock {path}"):
        os.makedirs(folder, exist_ok=True)
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(handle, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
        except BlockingIOError:
            raise BusyError(
                f"container {container.name} ({container.short}): another run of patchkit is at work on it",
                hint="wait for it to end, then run the same command again",
            ) from None
        yield
    finally:
        os.close(handle)


def prefix_of(container: Container) -> str:
    """What stands before a path inside the container in messages."""
    return f"container:{container.short}:"


def _interrupting(interpreter: str) -> Callable[[str], list[str]]:
    """What interrupts the process that it is given, as ^C would."""
    return lambda pid: [interpreter, "-IBSc", "import os, sys; os.kill(int(sys.argv[1]), 2)", pid]


def run_bundle(
    engine: Engine, container: Container, bundle: bytes, words: list[str], given: tuple[str, ...]
) -> Finished | None:
    """Run the bundle as root inside the running container, without a trace; None where it has no fit python3.

    `given` is how the person named the target: hints repeat it.
    """
    said = json.dumps(given)
    for interpreter in INTERPRETERS:
        argv = [interpreter, "-IBS", "-X", "utf8", "-c", _RECEIVE, str(len(bundle)), prefix_of(container), said, *words]
        done = engine.run(container, argv, bundle, _READY, _interrupting(interpreter))
        if not done.started:
            continue
        if done.code is None or not (0 <= done.code <= 8 or done.code == 130):
            raise RefusedByMachineError(
                f"container {container.name} ({container.short}): the run inside it was cut off (exit code {done.code})",
                hint="see that it runs, then run the same command again: it finishes or undoes what was begun",
            )
        return done
    return None
