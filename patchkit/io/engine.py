"""The container engine, through the Docker SDK: the one module that imports it.

Every failure is a PatchkitError: an address that cannot be one (2); no engine, or one that goes away (6); no permission on its socket, no space where
it keeps its containers (8).
"""

from __future__ import annotations

import base64
import json
import os
import re
import signal
import socket
import tarfile
import threading
from contextlib import contextmanager, suppress
from typing import IO, TYPE_CHECKING, Any, cast
from urllib.parse import urlsplit

import docker
from docker.constants import MINIMUM_DOCKER_API_VERSION
from docker.errors import APIError, DockerException, InvalidVersion, NotFound
from docker.utils import kwargs_from_env, version_lt

from patchkit.core.errors import ConfigError, RefusedByMachineError, UnreachableError
from patchkit.core.values import Value

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_DEFAULT = "unix:///var/run/docker.sock"
_STDOUT, _STDERR = 1, 2
_FRAME_HEAD = 8  # the stream's number, three zeros, the length in four bytes
_START = "start an engine, or name it in DOCKER_HOST"
_AGAIN = "see that the engine runs, then run the same command again: it finishes or undoes what was begun"
_GOES_ON = "interrupted; what was begun goes on inside the container: wait for its end, then run the same command again"
#: What an engine says where not itself but its machine refuses, and what to do about it.
_MACHINE = {
    "no space left on device": (_SPACE := "free some space, then run the same command again"),
    "disk quota exceeded": _SPACE,
    "read-only file system": "the file system is read-only: apply in a writable container or copy of it",
}
_GO_DIR, _GO_LINK = 1 << 31, 1 << 27


class Container(Value):
    """A container. `state` is the engine's word (running, exited, created, paused, ...); `image` is what
    it was made from, as it was named; `digests` are the registry digests of that image; `tmpfs` is where its
    file systems in memory are mounted (only `Engine.container` tells)."""

    id: str
    name: str
    state: str
    image: str
    image_id: str
    read_only: bool = False
    digests: tuple[str, ...] = ()
    tmpfs: tuple[str, ...] = ()

    @property
    def short(self) -> str:
        """The id as people see it."""
        return self.id[:12]


class PathStat(Value):
    """What stands at a path: `link` is the path a symbolic link leads to in the end, else ""; `mark`
    changes whenever the file does."""

    is_dir: bool
    link: str
    mark: tuple[object, ...]


class Finished(Value):
    """A program that ran in a container. `started`: it said that it is ready; `code` is None where it
    cannot be told (the container is gone)."""

    started: bool
    code: int | None
    out: bytes
    err: bytes


@contextmanager
def connect() -> Iterator[Engine]:
    """The engine that DOCKER_HOST, or the default socket, leads to. Raises ConfigError, UnreachableError,
    RefusedByMachineError where its socket may not be used."""
    address = os.environ.get("DOCKER_HOST") or _DEFAULT
    _require_address(address)
    _knock(address)
    try:
        api = _client()
    except (DockerException, OSError, ValueError) as error:
        raise UnreachableError(f"no container engine at {address}: {_innermost(error)}", hint=_START) from None
    with api:
        yield Engine(api)


def _client() -> Any:
    """The SDK's client, speaking the engine's own version of the API. Raises DockerException, OSError.

    `version="auto"` would ask for it where an engine starts programs to answer.
    """
    api = docker.APIClient(version=MINIMUM_DOCKER_API_VERSION, **kwargs_from_env())
    if api.base_url.startswith("http+docker:"):
        api.trust_env = False  # no proxy stands before a socket of this machine, and no ~/.netrc speaks of it
    try:
        with api._get(api._url("/_ping", versioned_api=False)) as answer:  # noqa: SLF001
            version = answer.headers.get("Api-Version") or api._retrieve_server_version()  # noqa: SLF001
        if version_lt(version, MINIMUM_DOCKER_API_VERSION):
            raise InvalidVersion(f"it speaks version {version} of the API, {MINIMUM_DOCKER_API_VERSION} is the oldest")
        api._version = version  # noqa: SLF001
    except BaseException:
        api.close()
        raise
    return api


def _require_address(address: str) -> None:
    """Raise ConfigError for an address that no client could connect to, or not this one."""
    scheme, _, rest = address.partition("://") if "://" in address else ("tcp", "", address)
    if scheme == "ssh":
        raise ConfigError(
            f"DOCKER_HOST={address}: patchkit does not speak ssh to an engine",
            hint="run it on that machine; or forward the socket:"
            f" ssh -nNT -L /tmp/engine.sock:/var/run/docker.sock {rest}, and DOCKER_HOST=unix:///tmp/engine.sock",
        )
    try:
        fine = bool(urlsplit(f"tcp://{rest}").port) if scheme in ("tcp", "http", "https") else rest.startswith("/")
    except ValueError:
        fine = False
    if not fine or scheme not in ("unix", "http+unix", "tcp", "http", "https"):
        raise ConfigError(
            f"DOCKER_HOST={address}: expected unix:///PATH or tcp://HOST:PORT",
            hint="correct DOCKER_HOST, or unset it for the default socket",
        )


def _knock(address: str) -> None:
    """Connect to a socket of this machine once: the SDK would leave one open where nobody listens."""
    scheme, _, path = address.partition("://")
    if scheme not in ("unix", "http+unix"):
        return
    try:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(path)
    except PermissionError:
        raise RefusedByMachineError(
            f"{address}: no permission to use the container engine's socket",
            hint="run it as root or as a member of the socket's group",
        ) from None
    except OSError as error:
        raise UnreachableError(f"no container engine at {address}: {error.strerror or error}", hint=_START) from None


@contextmanager
def _asking(what: str) -> Iterator[None]:
    """Turn the SDK's and the connection's failures into UnreachableError."""
    try:
        yield
    except NotFound:
        raise
    except APIError as error:
        problem = f"the container engine: {what}: {error.explanation or error}"
        for words, hint in _MACHINE.items():
            if words in problem.lower():
                raise RefusedByMachineError(problem, hint=hint) from None
        raise UnreachableError(problem, hint=_AGAIN) from None
    except (DockerException, OSError) as error:
        raise UnreachableError(f"the container engine went away: {what}: {_innermost(error)}", hint=_AGAIN) from None


def _innermost(error: BaseException) -> str:
    """What the system said: the SDK and its HTTP library wrap it several times."""
    while True:
        inner = error.__cause__ or (error.args[-1] if error.args else None)
        if not isinstance(inner, BaseException):
            return getattr(error, "strerror", None) or str(error)
        error = inner


class Engine:
    """An open connection to the engine."""

    def __init__(self, api: Any) -> None:
        self._api = api

    # -- containers

    def containers(self) -> tuple[Container, ...]:
        """Every container, running or not, the newest first."""
        with _asking("list the containers"):
            digests = {image["Id"]: _digests(image.get("RepoDigests")) for image in self._api.images()}
            found = self._api.containers(all=True)
        return tuple(
            Container(
                id=entry["Id"],
                name=(entry.get("Names") or ["/"])[0].lstrip("/"),
                state=entry["State"],
                image=entry["Image"],
                image_id=entry["ImageID"],
                digests=digests.get(entry["ImageID"], ()),
            )
            for entry in found
        )

    def container(self, ref: str) -> Container | None:
        """The container of that id, name, or beginning of an id; None where the engine knows none, or several."""
        try:
            with _asking(f"look at the container {ref}"):
                data = self._api.inspect_container(ref)
        except NotFound:
            return None
        return Container(
            id=data["Id"],
            name=data["Name"].lstrip("/"),
            state=data["State"]["Status"],
            image=data["Config"]["Image"],
            image_id=data["Image"],
            read_only=bool(data["HostConfig"].get("ReadonlyRootfs")),
            tmpfs=_in_memory(data),
        )

    def has_user_namespaces(self) -> bool:
        """Whether the owners in its archives are not the container's (dockerd --userns-remap)."""
        with _asking("ask for its settings"):
            options = self._api.info().get("SecurityOptions") or []
        return any("userns" in option for option in options)

    # -- programs

    def run(
        self,
        container: Container,
        argv: list[str],
        stdin: bytes,
        ready: bytes,
        interrupting: Callable[[str], list[str]] | None = None,
    ) -> Finished:
        """Run a program as root in a running container: its exit code and all that it printed.

        Once it has printed `ready`, a line or its beginning (which is left out, with the rest of the line: the
        program's mark), it gets `stdin`; one that never does, nothing. An interrupt (^C) is then passed on by the
        program that `interrupting` names for the mark, and waited for; a second one is not.
        """
        talk = _Talk(stdin, ready)

        def pass_on() -> bool:
            if talk.mark is None or interrupting is None:
                return False  # it has not got its input, and ends without
            with suppress(DockerException, OSError):
                session = self._api.exec_create(container.id, interrupting(talk.mark), user="0")["Id"]
                self._api.exec_start(session)
                return True
            raise KeyboardInterrupt(_GOES_ON)

        try:
            with _asking(f"run {argv[0]} in {container.name}"):
                session = self._api.exec_create(container.id, argv, stdin=True, user="0")["Id"]
                stream = self._api.exec_start(session, socket=True)
                try:
                    with _interrupts(pass_on):
                        talk.listen(stream)
                finally:
                    stream._response.close()  # noqa: SLF001 - or its socket stays open
                    stream.close()
                code = self._api.exec_inspect(session)["ExitCode"]
        except NotFound:
            return Finished(started=False, code=None, out=b"", err=b"")
        return Finished(started=talk.mark is not None, code=code, out=talk.outputs[_STDOUT], err=talk.outputs[_STDERR])

    # -- files

    def stat(self, container: Container, path: str) -> PathStat | None:
        """What stands at `path`; None where nothing does. Links on the way are followed, the last part is not."""
        with _asking(f"look at {path} in {container.name}"):
            url = self._api._url("/containers/{0}/archive", container.id)  # noqa: SLF001 - the SDK has no call for it
            with self._api.head(url, params={"path": path}, timeout=self._api.timeout) as answer:
                if answer.status_code != 200:
                    if answer.status_code != 404:
                        self._api._raise_for_status(answer)  # noqa: SLF001
                    return None
                told = json.loads(base64.b64decode(answer.headers["X-Docker-Container-Path-Stat"]))
        mode = told["mode"]
        return PathStat(
            is_dir=bool(mode & _GO_DIR),
            link=told["linkTarget"] if mode & _GO_LINK else "",
            mark=(mode, told["size"], told["mtime"], told["linkTarget"]),
        )

    @contextmanager
    def archive(self, container: Container, path: str) -> Iterator[tarfile.TarFile | None]:
        """What stands at `path`, with all below it, as a stream to read in order and as far as wanted;
        None where nothing is there."""
        with _asking(f"read {path} in {container.name}"):
            try:
                chunks, _ = self._api.get_archive(container.id, path)
            except NotFound:
                yield None
                return
            try:
                with tarfile.open(fileobj=cast("IO[bytes]", _Reader(chunks)), mode="r|") as archive:
                    yield archive
            except tarfile.TarError as error:
                problem = f"the container engine: {path} in {container.name}: its archive is cut off: {error}"
                raise UnreachableError(problem, hint=_AGAIN) from None
            finally:
                chunks.close()

    def put(self, container: Container, path: str, archive: bytes) -> None:
        """Unpack `archive` in the directory `path`, entry after entry. Raises UnreachableError where the
        engine stops at one, with its words, RefusedByMachineError where that is for want of space."""
        try:
            with _asking(f"write to {path} in {container.name}"):
                self._api.put_archive(container.id, path, archive)
        except NotFound:
            raise UnreachableError(f"{path} in {container.name}: it is gone", hint=_AGAIN) from None


def _in_memory(data: dict[str, Any]) -> tuple[str, ...]:
    """Where an inspected container has file systems in memory; not each engine lists each of them everywhere."""
    asked = [(m.get("Type"), m.get("Target")) for m in data["HostConfig"].get("Mounts") or ()]
    made = [(m.get("Type"), m.get("Destination")) for m in data.get("Mounts") or ()]
    found = {path for kind, path in (*asked, *made) if kind == "tmpfs" and path}
    return tuple(sorted({*(data["HostConfig"].get("Tmpfs") or ()), *found}))


def _digests(names: list[str] | None) -> tuple[str, ...]:
    return tuple(name.partition("@")[2] for name in names or [])


@contextmanager
def _interrupts(pass_on: Callable[[], bool]) -> Iterator[None]:
    """Give the first interrupt to `pass_on`; one that it does not take, and a second one, is a KeyboardInterrupt."""
    if threading.current_thread() is not threading.main_thread() or (
        signal.getsignal(signal.SIGINT) is not signal.default_int_handler
    ):
        yield  # somebody else sees to it, or nobody wants it
        return
    passed = False

    def handler(*_: object) -> None:
        nonlocal passed
        if passed:
            raise KeyboardInterrupt(_GOES_ON)
        passed = pass_on()
        if not passed:
            raise KeyboardInterrupt

    signal.signal(signal.SIGINT, handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


class _Talk:
    """What a program prints, and its `mark` once it is ready."""

    def __init__(self, stdin: bytes, ready: bytes) -> None:
        self._stdin = stdin
        self._opening = re.compile(re.escape(ready) + (b"()" if ready.endswith(b"\n") else b"([^\n]*)\n"))
        self.mark: str | None = None
        self.outputs = {_STDOUT: b"", _STDERR: b""}

    def listen(self, stream: Any) -> None:
        """Read both outputs to their end, and send the input when it is time."""
        connection = getattr(stream, "_sock", stream)  # over TLS the SDK hands out the socket itself
        connection.settimeout(None)  # a program may be silent for as long as it takes
        # Output that came in one piece with the head of the answer lies in this buffer: the SDK's own readers
        # pass it by, and wait at the socket for what has come already.
        reader = stream._response.raw._fp.fp  # noqa: SLF001
        while len(head := reader.read(_FRAME_HEAD)) == _FRAME_HEAD:
            self.outputs[head[0]] += reader.read(int.from_bytes(head[4:], "big"))
            opening = self._opening.match(self.outputs[_STDOUT]) if self.mark is None else None
            if opening is not None:
                self.outputs[_STDOUT] = self.outputs[_STDOUT][opening.end() :]
                self.mark = opening[1].decode("ascii", "replace")
                with suppress(BrokenPipeError, ConnectionResetError):  # it died: there is no exit code then
                    connection.sendall(self._stdin)  # the SDK hands out a wrapper that cannot write


class _Reader:
    """The engine's chunks as a file to read from."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks = chunks
        self._rest = b""

    def read(self, size: int) -> bytes:
        """At most `size` bytes, and as many where there are so many."""
        parts = [self._rest]
        length = len(self._rest)
        while length < size and (chunk := next(self._chunks, b"")):
            parts.append(chunk)
            length += len(chunk)
        data = b"".join(parts)
        self._rest = data[size:]
        return data[:size]
