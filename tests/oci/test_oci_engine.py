"""The engine as a reader that nobody here wrote: what it pushed is derived from, what was derived runs in it."""

from __future__ import annotations

import os
import re
import subprocess
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import pytest

from patchkit.oci.entries import Entry, Kind
from patchkit.oci.indexes import ImageIndexes
from patchkit.oci.layers import make_layer
from patchkit.oci.registry import Registry
from patchkit.oci.rootfs import RootFs
from patchkit.oci.transfer import push, read_image
from patchkit.oci.transforms import append, describe
from patchkit.oci.types import DOCKER_MANIFEST, History

if TYPE_CHECKING:
    from collections.abc import Iterator

    from patchkit.io.wire import Wire

pytestmark = pytest.mark.docker
BUSYBOX = "patchkit-test/busybox:latest"
SCRIPTS = Path(__file__).parents[2] / "scripts"


def unavailable(reason: str) -> NoReturn:
    if "docker" in re.split(r"[\s,]+", os.environ.get("PATCHKIT_REQUIRE", "")):
        pytest.fail(f"{reason} (PATCHKIT_REQUIRE demands it)", pytrace=False)
    pytest.skip(reason)


@pytest.fixture
def engine() -> Iterator[Any]:
    import docker

    try:
        client = docker.from_env()
    except (docker.errors.DockerException, OSError) as error:
        unavailable(f"no container engine ({error}): scripts/services start")
    made = subprocess.run([str(SCRIPTS / "test-images"), "busybox"], capture_output=True, text=True, check=False)
    if made.returncode:
        client.close()
        unavailable(f"scripts/test-images busybox: {made.stderr.strip()}")
    yield client
    client.close()


def test_derived_from_what_the_engine_pushed_and_run_by_it(
    engine: Any, wire: Wire, open_registry: str, tmp_path: Path
) -> None:
    name = f"oci-test/engine-{time.time_ns()}"
    where = f"{open_registry}/{name}"
    files = (
        "FROM " + BUSYBOX + "\n"
        "RUN mkdir -p /usr/lib/site/__pycache__ /opt && chmod 1777 /opt && chown 7:8 /usr/lib/site && "
        "echo one > /usr/lib/site/mod.py && chmod 4750 /usr/lib/site/mod.py && ln /usr/lib/site/mod.py /opt/twin && "
        "echo stale > /usr/lib/site/__pycache__/mod.pyc && ln -s usr/lib /l && echo keep > /opt/keep\n"
        "RUN touch /usr/lib/site/later\n"
    )
    context = tmp_path / "context"
    context.mkdir()
    (context / "Dockerfile").write_text(files)
    tags = []
    try:
        engine.images.build(path=str(context), tag=f"{where}:base", rm=True, forcerm=True, network_mode="none")
        tags.append(f"{where}:base")
        for line in engine.images.push(where, tag="base", stream=True, decode=True):
            assert "errorDetail" not in line, line
        repo = Registry(open_registry, wire, login=lambda *_: None).repository(name, push=True)
        found = repo.manifest("base")
        assert found.media_type == DOCKER_MANIFEST
        image = read_image(repo, found.descriptor, found.raw)
        root = RootFs(
            image.manifest.layers, ImageIndexes(image, repo, str(tmp_path / "kept")), ["l/site/mod.py", "opt/twin"]
        )
        seen = {path: root.find(path) for path in ("l/site/mod.py", "l/site/__pycache__/mod.pyc", "opt/keep")}
        mod, stale, keep = seen.values()
        assert mod is not None
        assert stale is not None
        assert keep is not None
        assert (mod.path, mod.entry.mode, mod.entry.data) == ("usr/lib/site/mod.py", 0o4750, b"one\n")
        parents = {entry.path: entry for item in (mod, stale, keep) for entry in item.parents}
        assert (parents["opt"].mode, parents["usr/lib/site"].uid, parents["usr/lib/site"].gid) == (0o1777, 7, 8)
        new = replace(mod.entry, data=b"two\n", kind=Kind.FILE, split=False)
        made = make_layer(
            [new, Entry(path="opt/new", data=b"new\n")], deleted=[stale.path], parents=parents, like=DOCKER_MANIFEST
        )
        derived = describe(append(image, made, History(created_by="patchkit")), labels={"patchkit.stack": "demo"})
        push(derived, repo, repo, "derived")
        engine.images.pull(where, tag="derived")
        tags.append(f"{where}:derived")
        command = (
            "cat /l/site/mod.py; stat -c %a:%u:%g /usr/lib/site/mod.py /opt /usr/lib/site; cat /opt/twin /opt/keep "
            "/opt/new; ls /usr/lib/site /usr/lib/site/__pycache__; readlink /l"
        )
        # the labels and the command of the base are there still
        assert engine.images.get(f"{where}:derived").labels["patchkit.stack"] == "demo"
        said = engine.containers.run(
            f"{where}:derived", ["sh", "-c", command], remove=True, network_mode="none", entrypoint=""
        )
        assert said.decode().split("\n") == [
            "two", "4750:0:0", "1777:0:0", "755:7:8", "one", "keep", "new", "/usr/lib/site:", "__pycache__", "later",
            "mod.py", "", "/usr/lib/site/__pycache__:", "usr/lib", "",
        ]  # fmt: skip
    finally:
        for tag in tags:
            with suppress(Exception):
                engine.images.remove(tag)
