"""The real vLLM in a container: patched by the bundle, and then it serves and tells what it carries.

Most of an environment of scripts/vllm-cpu is torch and triton, which no stack touches: those are mounted from the
machine, read-only, and found through a .pth file. `vllm` itself lies in an image of its own that the test makes, in a
virtual environment of Debian's Python, as a vendor would lay it out: a file that is patched there is the file that
serves, and `docker diff` knows it from what is patched. Would the mounted vllm serve instead, it had no ledger to tell of.
"""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import tarfile
import time
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import cache_from_source
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

import pytest

from .stacks import ROOT, SCHEMA

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from docker import DockerClient
    from docker.models.containers import Container

    from .conftest import ContainerOf, ImageOf

pytestmark = [pytest.mark.slow, pytest.mark.vllm]

VERSION = "0.27.1"
IMAGE = f"v{VERSION}"
HOME = "opt/vllm"
SITE = f"{HOME}/lib/python3.11/site-packages"
WHERE = ("--site", SITE)
MOUNT = "/environment"
MODEL = f"{MOUNT}/tiny-llama"
STEPS = ["triton-mla-cudagraphs", "kda-state-indices", "draft-layers-cudagraph-mode", "provenance"]
START_SECONDS, STOP_SECONDS = 420, 60
MODIFIED, ADDED, DELETED = 0, 1, 2  # kinds of `docker diff`

VARIABLES = {
    "HOME": "/scratch",
    "TMPDIR": "/scratch",
    "HF_HUB_OFFLINE": "1",
    "VLLM_TARGET_DEVICE": "cpu",
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "VLLM_HOST_IP": "127.0.0.1",
    "VLLM_NO_USAGE_STATS": "1",
}
SERVE = (
    f"/{HOME}/bin/python {MOUNT}/bin/vllm serve {MODEL} --load-format dummy --dtype bfloat16 --max-model-len 256"
    " --enforce-eager --host 127.0.0.1 --port 8000"
)
ASK = """
import sys, urllib.error, urllib.request
address, body = "http://127.0.0.1:8000" + sys.argv[1], sys.argv[2].encode() or None
request = urllib.request.Request(address, body, {"Content-Type": "application/json"})
try:
    print(urllib.request.urlopen(request, timeout=120).read().decode())
except urllib.error.HTTPError as error:
    sys.exit(f"{error}: {error.read().decode()}")
"""
LOOK = """
import hashlib, json, os, sys
found = {}
for folder, folders, names in os.walk(sys.argv[1]):
    for path in (os.path.join(folder, name) for name in folders + names):
        is_file, state = os.path.isfile(path), os.lstat(path)
        content = hashlib.sha256(open(path, "rb").read()).hexdigest() if is_file else None
        found[os.path.relpath(path, sys.argv[1])] = [state.st_mode, state.st_uid, state.st_gid, content, state.st_mtime_ns]
print(json.dumps(found))
"""

Tree = dict[str, list[Any]]


@dataclass(frozen=True)
class Lock:
    """What the shipped lock says: the facts that the container has to agree with."""

    digest: str
    version: int
    touched: dict[str, int]

    @staticmethod
    def shipped() -> Lock:
        lock = json.loads((ROOT / f"patches/{IMAGE}/stack.lock.json").read_text())
        kinds = {"modified": MODIFIED, "added": ADDED}
        touched = {change["path"]: kinds[change["change"]] for step in lock["steps"] for change in step["changes"]}
        return Lock(lock["digest"], lock["stack"]["version"], touched)

    def byte_code(self) -> set[str]:
        optimized = {cache_from_source(path, optimization="") for path in self.touched}
        return {path.replace(sys.implementation.cache_tag, "cpython-311") for path in optimized}


def skeleton() -> bytes:
    """A virtual environment of /usr/bin/python3.11 without packages, and the mount points."""
    files = {
        f"{HOME}/pyvenv.cfg": "home = /usr/bin\ninclude-system-site-packages = false\n",
        f"{SITE}/mounted.pth": f"{MOUNT}/lib/python3.11/site-packages\n",
    }
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        parents = {
            str(parent): None for path in (*files, f"{HOME}/bin/python") for parent in PurePosixPath(path).parents
        }
        for name in sorted({*parents, MOUNT[1:], "scratch"} - {"."}):
            folder = tarfile.TarInfo(name)
            folder.type, folder.mode = tarfile.DIRTYPE, 0o755
            archive.addfile(folder)
        for name, text in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(text)
            archive.addfile(entry, io.BytesIO(text.encode()))
        python = tarfile.TarInfo(f"{HOME}/bin/python")
        python.type, python.linkname = tarfile.SYMTYPE, "/usr/bin/python3.11"
        archive.addfile(python)
    return buffer.getvalue()


@pytest.fixture(scope="module")
def environment(engine: DockerClient, vllm_environment: Callable[[str], Path]) -> Path:
    return vllm_environment(VERSION)


@pytest.fixture(scope="module")
def vllm_image(engine: DockerClient, image: ImageOf, environment: Path) -> Iterator[str]:
    """The id of an image that holds vllm and its metadata, byte-code included; removed at the end."""
    packages = environment / "lib/python3.11/site-packages"
    names = ["vllm", f"vllm-{VERSION}+cpu.dist-info", f"vllm_cpu-{VERSION}.dist-info"]
    draft = engine.containers.create(image("numa"), "true")
    try:
        draft.put_archive("/", skeleton())
        pack = ["tar", "--owner=0", "--group=0", "--numeric-owner", "-C", str(packages), "-c", *names]
        with subprocess.Popen(pack, stdout=subprocess.PIPE) as packer:
            subprocess.run(["docker", "cp", "-", f"{draft.id}:/{SITE}"], stdin=packer.stdout, check=True)
        assert packer.returncode == 0
        made = draft.commit()
    finally:
        draft.remove()
    try:
        yield made.id
    finally:
        engine.images.remove(made.id)


@dataclass(frozen=True)
class Box:
    """The container, and what one does with it."""

    container: Container
    folder: Path

    def patchkit(self, command: str, *words: str) -> tuple[int, dict[str, Any]]:
        """The bundle, as a recipe runs it."""
        code, (out, _) = self.container.exec_run(["python3", "/k3.pyz", command, *WHERE, *words, "--json"], demux=True)
        document = json.loads(out)
        SCHEMA.validate(document)
        return code, document

    def tree(self) -> Tree:
        code, out = self.container.exec_run(["python3", "-c", LOOK, f"/{SITE}"])
        assert code == 0, out
        found: Tree = json.loads(out)
        return found

    def changes(self) -> dict[str, int]:
        """`docker diff` without the directories that hold other changes."""
        rows = {row["Path"]: row["Kind"] for row in self.container.diff() or []}
        holders = {str(parent) for path in rows for parent in PurePosixPath(path).parents}
        return {path: kind for path, kind in rows.items() if path not in holders}

    def ask(self, path: str, body: Any = None) -> tuple[int, str]:
        """0 and the server's answer, asked from inside, as the container has no network; else 1 and why there is none."""
        code, out = self.container.exec_run(["python3", "-c", ASK, path, json.dumps(body) if body else ""])
        return code, out.decode()

    def answer(self, path: str, body: Any = None) -> Any:
        code, text = self.ask(path, body)
        assert code == 0, text
        return json.loads(text)

    @contextmanager
    def serving(self) -> Iterator[Path]:
        """`vllm serve` while the block runs; its log."""
        log = self.folder / "serve.log"
        variables = [word for name, value in VARIABLES.items() for word in ("-e", f"{name}={value}")]
        start = ["docker", "exec", *variables, self.container.id, "sh", "-c", f"echo $$ >/scratch/pid; exec {SERVE}"]
        with log.open("wb") as output, subprocess.Popen(start, stdout=output, stderr=output) as server:
            try:
                self.wait_for_health(server, log)
                yield log
                self.container.exec_run(["sh", "-c", "kill $(cat /scratch/pid)"])
                server.wait(STOP_SECONDS)
            finally:
                server.kill()  # the client alone; what may still run inside ends with the container

    def wait_for_health(self, server: subprocess.Popen[bytes], log: Path) -> None:
        deadline = time.monotonic() + START_SECONDS
        while self.ask("/health")[0] != 0:
            if server.poll() is not None or time.monotonic() > deadline:
                pytest.fail(f"vllm serve did not come up:\n{log.read_text()[-6000:]}", pytrace=False)
            time.sleep(0.5)


@pytest.fixture
def box(vllm_image: str, environment: Path, container: ContainerOf, tmp_path: Path) -> Box:
    """A fresh container of that image with nothing of patchkit's but the bundle of the shipped stack."""
    made = container(
        image=vllm_image,
        volumes={str(environment): {"bind": MOUNT, "mode": "ro"}},
        tmpfs={"/scratch": ""},
        shm_size="512m",  # vLLM needs 160 MB there
    )
    bundle = tmp_path / "k3.pyz"
    client("bundle", "-o", str(bundle))
    subprocess.run(["docker", "cp", str(bundle), f"{made.id}:/k3.pyz"], check=True, capture_output=True)
    return Box(made, tmp_path)


def client(command: str, *words: str) -> dict[str, Any]:
    run = [sys.executable, "-m", "patchkit", command, "-C", str(ROOT), "--image", IMAGE, *words, "--json"]
    variables = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(run, capture_output=True, text=True, check=False, env=variables)
    assert done.returncode == 0, done.stdout + done.stderr
    document: dict[str, Any] = json.loads(done.stdout)
    return document


def content(tree: Tree, without: set[str]) -> Tree:
    """What revert restores: kind, mode, owner and bytes; not times."""
    return {path: state[:4] for path, state in tree.items() if path not in without}


def check_apply(box: Box, lock: Lock) -> dict[str, int]:
    """The bundle, from the refusal to a second apply; what `docker diff` shows."""
    before = box.tree()
    code, refused = box.patchkit("apply")
    assert (code, refused["outcome"], refused["errors"][0]["code"]) == (4, "refused", "identity")
    assert "records no commit" in refused["errors"][0]["message"]
    assert box.tree() == before
    assert box.changes() == {"/k3.pyz": ADDED}
    code, applied = box.patchkit("apply", "--stand-in")
    assert (code, applied["outcome"], applied["stand_in"]) == (0, "applied", True)
    assert [(step["id"], step["verdict"]) for step in applied["steps"]] == [(step, "applies") for step in STEPS]
    after = box.tree()
    code, again = box.patchkit("apply", "--stand-in")
    assert (code, again["outcome"]) == (0, "unchanged")
    assert box.tree() == after
    assert box.patchkit("verify")[1]["outcome"] == "clean"
    shown = {path: kind for path, kind in box.changes().items() if not path.startswith(f"/{SITE}/.patchkit/")}
    touched = {f"/{SITE}/{path}": kind for path, kind in lock.touched.items()}
    stale = {f"/{SITE}/{path}": DELETED for path in lock.byte_code() if path in before}
    assert len(stale) == list(touched.values()).count(MODIFIED)
    assert shown == {"/k3.pyz": ADDED, **touched, **stale}
    return box.changes()


def check_served(box: Box, lock: Lock, log: Path) -> None:
    # greedy: the sampler of random tokens is compiled on its first use, and the container has no compiler
    wanted = {"model": MODEL, "prompt": "a short question", "max_tokens": 8, "ignore_eos": True, "temperature": 0}
    completion = box.answer("/v1/completions", wanted)
    assert completion["usage"]["completion_tokens"] == 8
    assert box.answer("/version") == {
        "version": VERSION,
        "patchkit": {
            "image": IMAGE,
            "version": lock.version,
            "lock": lock.digest,
            "stand_in": True,
            "steps": STEPS,
        },
    }
    told = f"patchkit: image {IMAGE}, stack version {lock.version}, lock {lock.digest}, {len(STEPS)} steps, stand-in"
    assert log.read_text().count(told) == 1


def test_what_the_bundle_patched_serves_and_tells_so(box: Box) -> None:
    lock = Lock.shipped()
    byproducts = {*lock.byte_code()}
    pristine = content(box.tree(), byproducts)
    by_bundle = check_apply(box, lock)
    patched = content(box.tree(), byproducts)
    assert box.patchkit("revert")[1]["outcome"] == "reverted"
    assert content(box.tree(), byproducts) == pristine

    there = ("--container", box.container.id, *WHERE)
    applied = client("apply", *there, "--stand-in")
    assert (applied["outcome"], applied["stand_in"], applied["stack"]["lock"]) == ("applied", True, lock.digest)
    assert box.changes() == by_bundle
    own = {path for path in patched if path.startswith(".patchkit/")}
    assert content(box.tree(), byproducts | own) == content(patched, byproducts | own)

    with box.serving() as log:
        check_served(box, lock, log)
    assert box.patchkit("verify")[1]["outcome"] == "clean"
    assert box.patchkit("revert")[1]["outcome"] == "reverted"
    last = box.tree()
    assert content(last, byproducts) == pristine
    assert not byproducts & set(last)
