"""scripts/services and scripts/test-images: what they start, reuse, replace and leave alone."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import urllib.request
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

SERVICES = Path(__file__).parent.parent.parent / "scripts" / "services"
TEST_IMAGES = SERVICES.with_name("test-images")
LIMIT_SECONDS = 180
NOBODY = 65534

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root may start an engine")


@dataclass(kw_only=True)
class Own:
    """One state folder with its own services; `host` is where it looks for an engine."""

    folder: Path
    host: str | None = None
    environment: dict[str, str] = field(default_factory=dict)

    @property
    def state(self) -> Path:
        return self.folder / "services"

    def variables(self) -> dict[str, str]:
        return {
            **os.environ,
            "PATCHKIT_CACHE": str(self.folder),
            **({"DOCKER_HOST": self.host} if self.host else {}),
            **self.environment,
        }

    def popen(self, *command: str) -> subprocess.Popen[str]:
        pipe = subprocess.PIPE
        return subprocess.Popen(
            [str(SERVICES), *command],
            stdout=pipe,
            stderr=pipe,
            stdin=subprocess.DEVNULL,
            text=True,
            env=self.variables(),
            start_new_session=True,
        )

    def run(self, *command: str, expect: int | None = 0) -> tuple[str, str]:
        with self.popen(*command) as process:
            stdout, stderr = process.communicate(timeout=LIMIT_SECONDS)
        assert expect in {None, process.returncode}, f"{process.returncode}\n{stdout}\n{stderr}"
        return stdout, stderr

    def exports(self) -> dict[str, str]:
        lines = self.run("start")[0].splitlines()
        assert all(re.fullmatch(r"export [A-Z_]+=\S+", line) for line in lines), lines
        return dict(line.removeprefix("export ").split("=", 1) for line in lines)

    def pid(self, what: str) -> int:
        found = re.search(rf"^{what} .*\(pid (\d+)\)", self.run("status", expect=None)[0], re.MULTILINE)
        assert found, f"no {what} of {self.state} runs"
        return int(found[1])


def running(pid: int) -> bool:
    try:
        return "State:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except FileNotFoundError:
        return False


def engine_version(host: str) -> str:
    command = ["docker", "-H", host, "version", "--format", "{{.Server.Version}}"]
    return subprocess.run(command, capture_output=True, text=True, timeout=30, check=True).stdout.strip()


@pytest.fixture
def short() -> Iterator[Path]:
    """A short path: the address of a socket has 107 characters at most."""
    path = Path(tempfile.mkdtemp(prefix="patchkit-", dir="/tmp"))
    yield path
    shutil.rmtree(path)


@pytest.fixture
def beside(engine: object, short: Path) -> Iterator[Own]:
    """Services of a new state folder, beside the engine that the other tests use."""
    own = Own(folder=short)
    yield own
    own.run("stop")


@pytest.fixture
def alone(engine: object, short: Path) -> Iterator[Own]:
    """The same, where no engine answers yet."""
    own = Own(folder=short, host=f"unix://{short}/engine.sock")
    yield own
    own.environment.clear()
    own.run("stop")


def test_an_engine_that_answers_is_used_and_left_alone(beside: Own) -> None:
    host = os.environ.get("DOCKER_HOST", "unix:///var/run/docker.sock")
    stdout, stderr = beside.run("start")
    assert "export PATCHKIT_TEST_REGISTRY=127.0.0.1:" in stdout
    assert f"at {host}: not started from {beside.state}, used as it is" in stderr
    assert f"not started from {beside.state}" in beside.run("status")[0]
    beside.run("stop")
    assert engine_version(host)
    assert "registry: none answers" in beside.run("status", expect=1)[0]


def test_registry_keeps_its_process_and_its_port(beside: Own) -> None:
    first = beside.exports()["PATCHKIT_TEST_REGISTRY"]
    pid = beside.pid("registry")
    with urllib.request.urlopen(f"http://{first}/v2/", timeout=10) as answer:
        assert answer.headers["Docker-Distribution-Api-Version"] == "registry/2.0"
    assert beside.exports()["PATCHKIT_TEST_REGISTRY"] == first
    assert beside.pid("registry") == pid
    beside.run("stop")
    assert not running(pid)
    assert beside.exports()["PATCHKIT_TEST_REGISTRY"] == first


def test_registry_moves_when_another_program_has_its_port(beside: Own) -> None:
    first = beside.exports()["PATCHKIT_TEST_REGISTRY"]
    beside.run("stop")
    with socket.create_server(("127.0.0.1", int(first.split(":")[1]))):
        second = beside.exports()["PATCHKIT_TEST_REGISTRY"]
    assert second != first
    assert (beside.state / "exports").read_text().strip().endswith(f"PATCHKIT_TEST_REGISTRY={second}")


def test_registry_that_was_killed_or_hangs_is_replaced(beside: Own) -> None:
    beside.environment["PATCHKIT_SERVICES_WAIT"] = "2"
    first = beside.exports()["PATCHKIT_TEST_REGISTRY"]
    for how in (signal.SIGKILL, signal.SIGSTOP):
        pid = beside.pid("registry")
        os.kill(pid, how)
        assert beside.exports()["PATCHKIT_TEST_REGISTRY"] == first
        assert not running(pid)


def test_registry_that_cannot_start_names_its_log(beside: Own) -> None:
    (beside.state / "registry.yml.new").mkdir(parents=True)
    assert "Is a directory" in beside.run("start", expect=1)[1]
    (beside.state / "registry.yml.new").rmdir()
    beside.folder.joinpath("bin").mkdir()
    broken = beside.folder / "bin" / "docker-registry"
    broken.write_text("#!/bin/sh\necho no such storage >&2\n")
    broken.chmod(0o755)
    beside.environment["PATH"] = f"{broken.parent}:{os.environ['PATH']}"
    stderr = beside.run("start", expect=8)[1]
    assert "no such storage" in stderr
    assert f"the registry did not start; its log is {beside.state}/registry.log" in stderr


@needs_root
def test_own_engine_at_docker_host(alone: Own) -> None:
    exports = alone.exports()
    assert exports["DOCKER_HOST"] == alone.host
    pid = alone.pid("engine")
    assert engine_version(exports["DOCKER_HOST"])
    assert alone.exports() == exports
    assert alone.pid("engine") == pid
    assert f"started by this script (pid {pid}), log {alone.state}/engine.log" in alone.run("status")[0]
    # its address is found again by those who lost it, if no other engine answers where they look
    lost = Own(folder=alone.folder, host=f"unix://{alone.folder}/elsewhere.sock")
    assert lost.exports() == exports
    registry = alone.pid("registry")
    alone.run("stop")
    assert not running(pid)
    assert not running(registry)
    assert not (alone.state / "exports").exists()
    assert engine_version(os.environ.get("DOCKER_HOST", "unix:///var/run/docker.sock"))
    assert str(alone.state) not in Path("/proc/self/mounts").read_text()
    alone.run("stop")


@needs_root
def test_pid_files_of_other_processes_mislead_nobody(alone: Own) -> None:
    alone.exports()
    engine = alone.pid("engine")
    runtime = re.search(rb"--exec-root=([^\0]+)", Path(f"/proc/{engine}/cmdline").read_bytes())
    assert runtime
    os.kill(engine, signal.SIGKILL)
    os.kill(alone.pid("registry"), signal.SIGKILL)
    with subprocess.Popen(["sleep", "600"]) as bystander:
        (alone.state / "engine.pid").write_text(str(bystander.pid))
        (Path(runtime[1].decode()) / "containerd" / "containerd.pid").write_text(str(bystander.pid))
        assert engine_version(alone.exports()["DOCKER_HOST"])
        assert alone.pid("engine") != bystander.pid
        alone.run("stop")
        assert bystander.poll() is None
        bystander.kill()


@needs_root
@pytest.mark.slow
def test_what_a_killed_engine_left_is_taken_up_or_ended(alone: Own, image) -> None:
    alone.exports()
    docker = ["docker", "-H", str(alone.host)]
    saved = subprocess.run(["docker", "save", image("busybox")], capture_output=True, timeout=60, check=True).stdout
    subprocess.run([*docker, "load"], input=saved, capture_output=True, timeout=60, check=True)
    run = [*docker, "run", "-d", "--network=none", image("busybox"), "sleep", "4321"]
    name = subprocess.run(run, capture_output=True, text=True, timeout=60, check=True).stdout.strip()
    os.kill(alone.pid("engine"), signal.SIGKILL)
    alone.exports()
    subprocess.run([*docker, "start", name], capture_output=True, timeout=60, check=True)
    top = subprocess.run(
        [*docker, "inspect", "-f", "{{.State.Pid}}", name], capture_output=True, timeout=60, check=True
    )
    os.kill(alone.pid("engine"), signal.SIGKILL)
    assert running(int(top.stdout))
    assert "ending a container" in alone.run("stop")[1]
    assert not running(int(top.stdout))
    assert str(alone.state) not in Path("/proc/self/mounts").read_text()


@needs_root
@pytest.mark.slow
def test_engine_that_hangs_is_replaced(alone: Own) -> None:
    alone.exports()
    pid = alone.pid("engine")
    os.kill(pid, signal.SIGSTOP)
    alone.environment["PATCHKIT_SERVICES_WAIT"] = "8"
    stderr = alone.run("start")[1]
    assert f"(pid {pid}) does not answer: replacing it" in stderr
    assert alone.pid("engine") != pid
    assert not running(pid)


@needs_root
def test_two_starts_at_once_start_one_engine(alone: Own) -> None:
    with alone.popen("start") as first, alone.popen("start") as second:
        answers = [process.communicate(timeout=LIMIT_SECONDS) for process in (first, second)]
    assert [first.returncode, second.returncode] == [0, 0], answers
    assert answers[0][0] == answers[1][0]
    said = answers[0][1] + answers[1][1]
    assert len(re.findall(r"engine .*: started now", said)) == 1
    assert len(re.findall(r"registry .*: started now", said)) == 1
    assert "waiting" in said


@needs_root
def test_start_that_was_killed_half_way_is_taken_up(alone: Own) -> None:
    with alone.popen("start") as process:
        deadline = time.monotonic() + 30
        while not (alone.state / "engine.log").exists() and time.monotonic() < deadline:
            time.sleep(0.01)
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate(timeout=LIMIT_SECONDS)
    assert engine_version(alone.exports()["DOCKER_HOST"])
    assert alone.pid("engine")


@needs_root
def test_engine_that_cannot_start_shows_its_log(alone: Own) -> None:
    alone.state.mkdir()
    (alone.state / "engine").write_text("not a folder")
    assert "File exists" in alone.run("start", expect=1)[1]
    (alone.state / "engine").unlink()
    (alone.state / "bin").mkdir()
    broken = alone.state / "bin" / "dockerd"
    broken.write_text("#!/bin/sh\necho no space left on device >&2\nexit 1\n")
    broken.chmod(0o755)
    alone.environment["PATH"] = f"{broken.parent}:{os.environ['PATH']}"
    stderr = alone.run("start", expect=8)[1]
    assert "no space left on device" in stderr
    assert f"the engine did not start; its log is {alone.state}/engine.log" in stderr


def test_only_a_socket_of_this_machine_can_get_an_engine(engine: object, short: Path) -> None:
    own = Own(folder=short, host="tcp://127.0.0.1:1")
    stderr = own.run("start", expect=6)[1]
    assert "no engine answers at DOCKER_HOST=tcp://127.0.0.1:1; only one at a unix:// socket" in stderr


@needs_root
def test_without_root_it_says_what_root_is_for(engine: object, short: Path) -> None:
    short.chmod(0o777)
    own = Own(folder=short / "cache", host=f"unix://{short}/engine.sock")
    command = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", "bash", "-s", "start"]
    run = subprocess.run(
        command,
        input=SERVICES.read_text(),
        capture_output=True,
        text=True,
        timeout=60,
        env=own.variables(),
        check=False,
    )
    assert run.returncode == 8
    assert (
        run.stderr
        == f"services: no engine answers at {own.host}, and starting one needs root (sudo scripts/services start)\n"
    )


@pytest.mark.parametrize("command", [(), ("restart",), ("start", "now"), ("need", "dockerd")])
def test_usage(command: tuple[str, ...], tmp_path: Path) -> None:
    stdout, stderr = Own(folder=tmp_path).run(*command, expect=2)
    assert stdout == ""
    assert stderr.startswith("The container engine and the registry")


# ---- images and fixtures


def test_python_image_has_python_and_none_of_the_tools(container) -> None:
    code, output = container("python").exec_run(
        ["sh", "-c", "for p in pip git patch patchkit; do type $p; done; python3 -V"]
    )
    assert code == 0
    assert output.decode().splitlines()[-1].startswith("Python 3.11.")
    assert output.count(b"not found") == 4


def test_busybox_image_is_one_binary(container) -> None:
    made = container("busybox")
    assert made.exec_run(["python3"])[0] in {126, 127}
    code, output = made.exec_run(["sh", "-c", "find / -xdev -type f -perm -100 ! -path '/sys/*' ! -path '/proc/*'"])
    assert (code, output.decode().split()) == (0, ["/bin/busybox", "/.dockerenv"])


def test_vllmlike_image_keeps_modes_owners_links_and_capability(container) -> None:
    site = "/usr/local/lib/python3.12/dist-packages"
    made = container("vllmlike")
    listing = made.exec_run(["find", f"{site}/vllm", "-printf", "%M %U:%G %n %P%l\n"])[1].decode().splitlines()
    assert {
        "drwxrwsr-x 0:50 4 ",
        "-rw-r--r-- 0:0 1 _version.py",
        "-rw-rw-r-- 1000:2000 1 scheduler.py",
        "drwxr-x--- 1000:2000 2 entrypoints",
        "-rwsr-xr-x 0:0 1 entrypoints/serve.py",
        "-r--r--r-- 1000:2000 2 entrypoints/twin.py",
        "lrwxrwxrwx 0:0 1 entrypoints/alias.pyserve.py",
    } <= set(listing)
    ask = f"import os; print(os.listxattr('{site}/vllm/entrypoints/probe.py'))"
    assert made.exec_run(["python3", "-c", ask])[1] == b"['security.capability']\n"
    commit = re.search(r"commit_id = 'g([0-9a-f]+)'", made.exec_run(["cat", f"{site}/vllm/_version.py"])[1].decode())
    image = (SERVICES.parent.parent / "images" / "nightly-c50aca.yaml").read_text()
    assert commit
    assert f"commit: {commit[1]}}}" in image


def test_numa_image_has_the_library_and_nothing_else_more(container) -> None:
    made = container("numa")
    assert made.exec_run(["python3", "-c", "import ctypes; ctypes.CDLL('libnuma.so.1')"]) == (0, b"")
    count = ["sh", "-c", "find / -xdev -type f ! -path '/sys/*' ! -path '/proc/*' | wc -l"]
    assert int(made.exec_run(count)[1]) == int(container("python").exec_run(count)[1]) + 1


def test_new_container_differs_in_nothing_from_its_image(container) -> None:
    assert container("vllmlike").diff() is None
    assert container("vllmlike", start=False).diff() is None


def test_container_may_be_gone_before_the_test_ends(container, engine) -> None:
    made = container("busybox")
    assert made.status == "running"
    begun = time.monotonic()
    made.stop()
    assert time.monotonic() - begun < 5
    made.remove()
    assert container("busybox", start=False).status == "created"


def test_images_that_are_there_are_not_made_again(engine, image) -> None:
    before = {name: engine.images.get(image(name)).id for name in ("python", "busybox", "vllmlike", "numa")}
    run = subprocess.run([str(TEST_IMAGES)], capture_output=True, text=True, timeout=LIMIT_SECONDS, check=True)
    assert run.stdout.split() == [image(name) for name in before]
    assert run.stderr == ""
    assert {name: engine.images.get(image(name)).id for name in before} == before


def test_test_images_without_an_engine(short: Path) -> None:
    own = Own(folder=short, host=f"unix://{short}/none.sock")
    run = subprocess.run(
        [str(TEST_IMAGES)], capture_output=True, text=True, timeout=60, env=own.variables(), check=False
    )
    assert run.returncode == 6
    assert f"no engine at unix://{short}/none.sock" in run.stderr
    assert "scripts/services start" in run.stderr


@needs_root
def test_another_engine_imports_the_kept_archives(alone: Own, image) -> None:
    image("vllmlike")
    image("numa")
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    kept = Path(os.environ.get("PATCHKIT_CACHE") or Path(home) / "patchkit") / "services" / "images"
    alone.state.mkdir()
    (alone.state / "images").mkdir()
    for archive in kept.glob("*.tar"):
        with contextlib.suppress(FileNotFoundError):
            (alone.state / "images" / archive.name).symlink_to(archive)
    alone.exports()
    run = subprocess.run(
        [str(TEST_IMAGES)], capture_output=True, text=True, timeout=120, env=alone.variables(), check=True
    )
    assert "making" not in run.stderr
    assert run.stdout.split()[-2:] == [image("vllmlike"), image("numa")]
