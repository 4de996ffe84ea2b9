"""A second container engine, of a test's own: it may be killed and started again, the one that others use may not."""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import docker

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from docker import DockerClient
    from docker.models.containers import Container

LIMIT_SECONDS = 60


def until(holds: Callable[[], object], what: str, limit: float = LIMIT_SECONDS) -> None:
    """Wait for a condition; fail where it does not come in time."""
    end = time.monotonic() + limit
    while not holds():
        assert time.monotonic() < end, f"{what}: not within {limit} seconds"
        time.sleep(0.01)


def alive(pid: int) -> bool:
    """Whether the process still runs: one that ended and that nobody asked about does not."""
    try:
        with open(f"/proc/{pid}/status") as status:
            return "State:\tZ" not in status.read()
    except (FileNotFoundError, ProcessLookupError):
        return False


@dataclass(kw_only=True)
class Daemon:
    """A dockerd with its own containerd, all of it below `folder`, which has a short path (it holds sockets).

    `within` is a command that starts it (in other namespaces, say). It ends with the process that started it.
    """

    folder: Path
    options: tuple[str, ...] = ()
    within: tuple[str, ...] = ()
    process: subprocess.Popen[bytes] | None = None
    client: DockerClient | None = None
    images: set[str] = field(default_factory=set)

    @property
    def host(self) -> str:
        return f"unix://{self.folder}/s"

    # -- life

    @classmethod
    @contextmanager
    def of(cls, *options: str, within: tuple[str, ...] = (), folder: Path | None = None) -> Iterator[Daemon]:
        """One that is started, and whatever became of it, nothing of it is left at the end."""
        made = cls(folder=folder or Path(tempfile.mkdtemp(prefix="pk-", dir="/tmp")), options=options, within=within)
        try:
            made.start()
            yield made
        finally:
            made.close()

    def start(self) -> None:
        (self.folder / "config.json").write_text("{}")  # not the machine's own daemon.json
        words = ["setpriv", "--pdeathsig", "TERM", *self.within, "dockerd", f"--host={self.host}",
                 f"--data-root={self.folder}/data", f"--exec-root={self.folder}/exec", f"--pidfile={self.folder}/pid",
                 f"--config-file={self.folder}/config.json", "--bridge=none", "--iptables=false", "--ip6tables=false",
                 "--shutdown-timeout=2", *self.options]  # fmt: skip
        path = f"{os.environ['PATH']}:/usr/sbin:/sbin"  # where Debian keeps dockerd
        with open(self.folder / "log", "ab") as log:
            self.process = subprocess.Popen(
                words, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
                env={**os.environ, "PATH": path},
            )  # fmt: skip
        until(self._listens, "a second engine")
        self.client = docker.DockerClient(base_url=self.host, timeout=LIMIT_SECONDS)
        self.client.ping()

    def _listens(self) -> bool:
        assert self.process is not None
        assert self.process.poll() is None, self.log()
        with suppress(OSError), socket.socket(socket.AF_UNIX) as connection:
            connection.connect(f"{self.folder}/s")
            return True
        return False

    def log(self) -> str:
        return (self.folder / "log").read_text()[-3000:]

    def kill(self, init: int | None = None) -> None:
        """SIGKILL; its containerd goes with it, its containers run on, but for the one whose process `init` is."""
        assert self.process is not None
        self.process.kill()
        if init is not None:
            os.kill(init, signal.SIGKILL)
        self.process.wait()
        self._forget()

    def _forget(self) -> None:
        if self.client is not None:
            self.client.close()
        self.client = self.process = None
        pid = self.folder / "exec/containerd/containerd.pid"
        if pid.exists():
            number = int(pid.read_text())
            until(lambda: not alive(number), "the end of its containerd")
            pid.unlink()  # the next dockerd takes a process nobody asked about for a living one

    def close(self) -> None:
        """End it, its containers, its mounts and its files, however it was left."""
        if self.process is not None and self.process.poll() is None:
            for made in self.api.containers.list(all=True):
                with suppress(docker.errors.APIError):
                    made.remove(force=True, v=True)
            self.process.terminate()
            with suppress(subprocess.TimeoutExpired):
                self.process.wait(LIMIT_SECONDS)
        if self.process is not None:
            self.kill()
        for pid in self._shims():
            with open(f"/proc/{pid}/task/{pid}/children") as children:
                for one in (*map(int, children.read().split()), pid):
                    with suppress(ProcessLookupError):
                        os.kill(one, signal.SIGKILL)
        with open("/proc/self/mounts") as mounts:
            below = [line.split()[1] for line in mounts if line.split()[1].startswith(f"{self.folder}/")]
        for mount in sorted(below, reverse=True):
            subprocess.run(["umount", "-l", mount], check=False, capture_output=True)
        shutil.rmtree(self.folder)

    def _shims(self) -> list[int]:
        found = []
        for name in filter(str.isdigit, os.listdir("/proc")):
            with suppress(OSError), open(f"/proc/{name}/cmdline", "rb") as stream:
                words = stream.read().split(b"\0")
                if (
                    b"containerd-shim" in words[0]
                    and os.fsencode(f"{self.folder}/exec/containerd/containerd.sock") in words
                ):
                    found.append(int(name))
        return found

    # -- use

    @property
    def api(self) -> DockerClient:
        assert self.client is not None
        return self.client

    def bring(self, tag: str) -> None:
        """Copy an image over from the engine that the tests use."""
        if tag in self.images:
            return
        with subprocess.Popen(["docker", "save", tag], stdout=subprocess.PIPE) as save:
            subprocess.run(["docker", "-H", self.host, "load"], stdin=save.stdout, check=True, capture_output=True)
        assert save.returncode == 0
        self.images.add(tag)

    def create(self, tag: str, *, start: bool = True, **options: Any) -> Container:
        self.bring(tag)
        options = {"command": ["sleep", "3600"], "stop_signal": "SIGKILL", "network_mode": "none", **options}
        made = self.api.containers.create(tag, **options)
        if start:
            made.start()
        return made

    def container(self, name: str) -> Container:
        """The container as it is now; objects of before a restart are of no more use."""
        return self.api.containers.get(name)

    def upper(self, container: Container) -> str:
        """Where on this machine the container's own changes are."""
        container.reload()
        path: str = container.attrs["GraphDriver"]["Data"]["UpperDir"]
        assert re.fullmatch(r"/.+/overlay2/.+", path)
        return path
