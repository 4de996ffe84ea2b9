"""The real engine, the images of scripts/test-images, and containers that never outlive their test.

Where there is no engine the tests are skipped with the reason, or fail, if PATCHKIT_REQUIRE names docker.
`eval "$(scripts/services start)"` provides one.
"""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import pytest

if TYPE_CHECKING:
    from docker import DockerClient
    from docker.models.containers import Container

HERE = Path(__file__).parent
SCRIPTS = HERE.parent.parent / "scripts"
TAGS = {
    "python": "patchkit-test/python:bookworm",
    "busybox": "patchkit-test/busybox:latest",
    "vllmlike": "patchkit-test/vllmlike:1",
    "numa": "patchkit-test/numa:bookworm",
}
MAKE_IMAGE_SECONDS = 600
MAKE_ENVIRONMENT_SECONDS = 1200

#: image(name) -> its tag in the engine
ImageOf = Callable[[str], str]
#: container(name, *, start=True, **what `containers.create` takes) -> a container, removed at the end of the test
ContainerOf = Callable[..., "Container"]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.docker)


def unavailable(reason: str, what: str = "docker") -> NoReturn:
    if what in re.split(r"[\s,]+", os.environ.get("PATCHKIT_REQUIRE", "")):
        pytest.fail(f"{reason} (PATCHKIT_REQUIRE demands it)", pytrace=False)
    pytest.skip(reason)


def knock() -> None:
    """Connects to the engine's socket once: where nobody listens, docker's own attempt leaves a socket open."""
    scheme, _, path = (os.environ.get("DOCKER_HOST") or "unix:///var/run/docker.sock").partition("://")
    if scheme == "unix":
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(path)


@pytest.fixture(scope="session")
def engine() -> Iterator[DockerClient]:
    """A client of the engine that DOCKER_HOST, or the default socket, leads to."""
    try:
        import docker
    except ModuleNotFoundError:
        unavailable("the Python package docker is not installed: make setup")
    try:
        knock()
        client = docker.from_env()  # asks the engine for its version
    except (docker.errors.DockerException, OSError) as error:
        unavailable(f"no container engine ({error}): scripts/services start")
    with closing(client):
        yield client


@pytest.fixture(scope="session")
def root() -> None:
    """Only root may start an engine, become somebody else, and keep owners through archives."""
    if os.geteuid() != 0:
        unavailable("needs root")


@pytest.fixture(scope="session")
def programs(root: None) -> None:
    """What a second engine beside the first one takes (second.py)."""
    for program in ("dockerd", "setpriv", "unshare"):
        if shutil.which(program, path=f"{os.environ['PATH']}:/usr/sbin:/sbin") is None:
            unavailable(f"no {program} on this machine: scripts/services need {program} docker.io (or util-linux)")


@pytest.fixture(scope="session")
def image(engine: DockerClient) -> ImageOf:
    """image("python" | "busybox" | "vllmlike") is the tag; the image is made when the engine does not have it."""
    made: set[str] = set()

    def tag_of(name: str) -> str:
        if name not in made:
            command = [str(SCRIPTS / "test-images"), name]
            run = subprocess.run(command, capture_output=True, text=True, timeout=MAKE_IMAGE_SECONDS, check=False)
            if run.returncode:
                unavailable(f"scripts/test-images {name}: {run.stderr.strip().splitlines()[-1]}")
            made.add(name)
        return TAGS[name]

    return tag_of


@pytest.fixture
def container(engine: DockerClient, image: ImageOf) -> Iterator[ContainerOf]:
    """Containers of the test images, by default started and doing nothing until the test ends.

    `image=` names any other image that the engine has; `start=False` only creates it; the rest goes to
    `containers.create`. A test may stop, kill or remove it: that it is gone already is no error.
    """
    from docker.errors import NotFound

    def remove(made: Container) -> None:
        with suppress(NotFound):
            made.remove(force=True, v=True)

    with ExitStack() as removals:

        def create(name: str = "python", *, start: bool = True, **options: Any) -> Container:
            options.setdefault("command", ["sleep", "3600"])  # left over from a killed run, it ends within the hour
            options.setdefault("stop_signal", "SIGKILL")  # as process 1 it does not hear another
            options.setdefault("network_mode", "none")
            options["labels"] = {
                "patchkit-test": os.environ.get("PYTEST_CURRENT_TEST", ""),
                **options.get("labels", {}),
            }
            made = engine.containers.create(options.pop("image", None) or image(name), **options)
            removals.callback(remove, made)
            if start:
                made.start()
                made.reload()
            return made

        yield create


@pytest.fixture(scope="session")
def vllm_environment() -> Callable[[str], Path]:
    """vllm_environment(VERSION): the environment of scripts/vllm-cpu, which makes it where it is not there yet."""

    def directory_of(version: str) -> Path:
        if os.environ.get("PATCHKIT_VLLM") == "no":
            unavailable("PATCHKIT_VLLM=no", "vllm")
        command = [str(SCRIPTS / "vllm-cpu"), "env", version]
        run = subprocess.run(command, capture_output=True, text=True, timeout=MAKE_ENVIRONMENT_SECONDS, check=False)
        if run.returncode:
            unavailable(f"scripts/vllm-cpu env {version}: {run.stderr.strip().splitlines()[-1]}", "vllm")
        return Path(run.stdout.strip())

    return directory_of
