"""`--container` where the machine has a say: user namespaces, the socket's permission, space."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from .second import Daemon
from .stacks import NAME, ROOT, SITE, STALE, TOUCHED, make_project, tree

if TYPE_CHECKING:
    from collections.abc import Iterator

    from docker.models.containers import Container

    from .conftest import ContainerOf, ImageOf

NOBODY = 65534
FIRST_OWNER = 200_000
#: Run inside a container: every path below the site, with owner, mode, attributes and content as seen there.
LOOK = """
import base64, json, os, stat, sys
found = {}
for folder, folders, files in os.walk(sys.argv[1]):
    for name in folders + files:
        path = os.path.join(folder, name)
        status = os.lstat(path)
        data = open(path, "rb").read() if stat.S_ISREG(status.st_mode) else b""
        attributes = {key: os.getxattr(path, key, follow_symlinks=False).hex()
                      for key in os.listxattr(path, follow_symlinks=False)}
        found[os.path.relpath(path, sys.argv[1])] = [
            status.st_mode, status.st_uid, status.st_gid, attributes, base64.b64encode(data).decode()]
print(json.dumps(found))
"""

pytestmark = pytest.mark.usefixtures("root")


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where a project is to be made."""
    monkeypatch.setenv("PATCHKIT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    (tmp_path / "project").mkdir()
    return tmp_path / "project"


def inside(container: Container) -> dict[str, Any]:
    code, out = container.exec_run(["python3", "-IBSc", LOOK, f"/{SITE}"])
    assert code == 0, out
    found = json.loads(out)
    assert isinstance(found, dict)
    return {p: s for p, s in found.items() if p not in STALE and not p.startswith(".patchkit")}


# ---- user namespaces


@pytest.fixture(scope="module")
def mapped(programs: None, image: ImageOf) -> Iterator[Daemon]:
    """An engine with --userns-remap=default. The user that it wants is there for its own eyes only."""
    folder = Path(tempfile.mkdtemp(prefix="pk-", dir="/tmp"))
    folder.chmod(0o711)
    user = {"passwd": "dockremap:x:991:991::/:/bin/false", "group": "dockremap:x:991:",
            "subuid": f"dockremap:{FIRST_OWNER}:65536", "subgid": f"dockremap:{FIRST_OWNER}:65536"}  # fmt: skip
    for name, line in user.items():
        present = Path("/etc", name).read_text() if Path("/etc", name).exists() else ""
        kept = [one for one in present.splitlines() if not one.startswith("dockremap:")]
        (folder / name).write_text("\n".join([*kept, line, ""]))
    binds = "; ".join(f"[ -e /etc/{n} ] || touch /etc/{n}; mount --bind {folder}/{n} /etc/{n}" for n in user)
    within = ("unshare", "--mount", "sh", "-ec", f'{binds}; exec "$@"', "sh")
    with Daemon.of("--userns-remap=default", within=within, folder=folder) as made:
        made.bring(image("vllmlike"))
        made.bring(image("busybox"))
        yield made


def test_user_namespaces_keep_owners_from_inside(
    mapped: Daemon, image: ImageOf, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOCKER_HOST", mapped.host)
    running = mapped.create(image("vllmlike"))
    there = ("--container", str(running.id))
    assert running.exec_run(["cat", "/proc/self/uid_map"])[1].split()[:2] == [b"0", str(FIRST_OWNER).encode()]
    project = make_project(home, running)
    before = inside(running)
    assert before["vllm/worker.py"][1:3] == [1000, 2000]
    assert project.run("apply", *there, "--json").json["outcome"] == "applied"
    after = inside(running)
    assert {path for path in {*before, *after} if before.get(path) != after.get(path)} >= {*TOUCHED}
    for path in ("vllm/scheduler.py", "vllm/worker.py", "vllm/entrypoints/windows.py", "vllm/entrypoints/probe.py"):
        assert after[path][:4] == before[path][:4], path
        assert after[path][4] != before[path][4], path
    assert after["vllm/extra/deep/new.py"][1] == 0
    assert project.run("apply", *there, "--json").json["outcome"] == "unchanged"
    assert project.run("verify", *there, "--json").json["outcome"] == "clean"
    running.stop(timeout=5)
    assert project.run("verify", *there, "--json").json["outcome"] == "clean"
    running.start()
    assert project.run("revert", *there, "--json").json["outcome"] == "reverted"
    assert inside(running) == before


def test_user_namespaces_and_archives(
    mapped: Daemon, image: ImageOf, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOCKER_HOST", mapped.host)
    stopped = mapped.create(image("vllmlike"), start=False)
    bare = mapped.create(image("busybox"))
    project = make_project(home, stopped)
    before = tree(stopped)
    for made in (stopped, bare):
        for command in ("apply", "revert"):
            refused = project.run(command, "--container", str(made.id))
            assert refused.code == 8
            who = f"container {project_name(made)}"
            assert refused.err == (
                f"error: {who}: the engine maps its users (--userns-remap), and archives do not tell its owners\n"
                "hint: start the container, if it has python3: then nothing passes through archives\n"
            )
    assert project.run("status", "--container", str(stopped.id)).code == 0
    assert project.run("apply", "--container", str(stopped.id), "--dry-run").code == 0
    assert tree(stopped) == before
    assert not stopped.diff()
    assert not bare.diff()


def project_name(container: Container) -> str:
    return f"{container.name} ({str(container.id)[:12]})"


# ---- the socket


#: argv: a command's words. Everything is loaded as root, since nobody else may read the repository.
AS_NOBODY = f"""
import contextlib, io, os, secrets, sys
from importlib import import_module
from patchkit.cli.main import main
words = sys.argv[1:]
import_module("patchkit.cli." + words[0])
with contextlib.redirect_stdout(io.StringIO()):
    assert main(["status", *words[1:3], "--container", *words[3:5]]) == 0
os.setgroups([])
os.setgid({NOBODY})
os.setuid({NOBODY})
sys.exit(main(words))
"""


@pytest.mark.parametrize("command", ["apply", "verify", "revert", "diff", "status"])
def test_no_permission_on_the_socket(command: str, home: Path, container: ContainerOf, short: Path) -> None:
    """As somebody who is not in the socket's group."""
    made = container("vllmlike", start=False)
    project = make_project(home, made)
    address = os.environ.get("DOCKER_HOST") or "unix:///var/run/docker.sock"
    shutil.copytree(project.folder, short / "p")
    words = [command, "--image", NAME, "-C", str(short / "p"), "--container", str(made.id)]
    run = [sys.executable, "-c", AS_NOBODY, *words]
    environment = {**os.environ, "PATCHKIT_CACHE": str(short / "cache")}
    done = subprocess.run(run, env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (8, "")
    assert done.stderr == (
        f"error: {address}: no permission to use the container engine's socket\n"
        "hint: run it as root or as a member of the socket's group\n"
    )
    told = subprocess.run([*run, "--json"], env=environment, capture_output=True, text=True, check=False)
    assert told.returncode == 8
    assert json.loads(told.stdout)["errors"][0]["code"] == "environment"
    assert not made.diff()


@pytest.fixture
def short() -> Iterator[Path]:
    """A folder that anybody may use."""
    path = Path(tempfile.mkdtemp(prefix="pk-", dir="/tmp"))
    path.chmod(0o777)
    yield path
    shutil.rmtree(path)


# ---- space


@pytest.fixture
def narrow(engine: Any, container: ContainerOf, request: pytest.FixtureRequest) -> Iterator[Container]:
    """A running container whose site is a small file system of its own, with the image's files in it."""
    kind, _ = request.param
    files = container("vllmlike", start=False)
    chunks, _ = files.get_archive(f"/{SITE}")
    archive = b"".join(chunks)
    options = {"type": "tmpfs", "device": "tmpfs", "o": "size=256k,nr_inodes=200"}
    volume = engine.volumes.create(driver="local", driver_opts=options)
    made = container(kind, volumes=[f"{volume.name}:/{SITE}"])
    made.exec_run(["sh", "-c", f"mkdir -p /{SITE}"])
    made.put_archive(os.path.dirname(f"/{SITE}"), archive)
    yield made
    made.remove(force=True)
    volume.remove()


def fill(container: Container, spare: int, what: str) -> None:
    """Leave so many pages, or inodes, of the site's file system."""
    option = {"pages": "-k", "inodes": "-i"}[what]
    code, out = container.exec_run(["sh", "-c", f"rm -f /{SITE}/ballast*; df {option} /{SITE}"])
    assert code == 0
    free = int(out.decode().splitlines()[-1].split()[3])
    lay = {
        "pages": f"dd if=/dev/zero of=/{SITE}/ballast bs=1k count={free - 4 * spare}",
        "inodes": f"i=0; while [ $i -lt {free - spare} ]; do : > /{SITE}/ballast$i || exit 1; i=$((i + 1)); done",
    }
    assert container.exec_run(["sh", "-c", lay[what]])[0] == 0


NARROW = [("vllmlike", "bundle"), ("busybox", "archives")]


@pytest.mark.parametrize("narrow", NARROW, indirect=True, ids=lambda p: p[1])
def test_no_space(narrow: Container, home: Path, container: ContainerOf) -> None:
    project = make_project(home, container("vllmlike", start=False))
    there = ("--container", str(narrow.id))
    codes = []
    for spare in (
        0,
        4,
        12,
        40,
    ):  # the journal, the pristine copies and the new files, the ledger: each in turn has none
        fill(narrow, spare, "pages")
        before = tree(narrow)
        done = project.run("apply", *there)
        codes.append(done.code)
        if done.code != 0:
            assert tree(narrow) == before
            assert "o space left on device" in done.err
            assert done.err.endswith("hint: free some space, then run the same command again\n")
    assert codes == [8, 8, 8, 0]
    assert project.run("verify", *there).code == 0
    assert project.run("revert", *there).code == 0


@pytest.mark.slow
@pytest.mark.parametrize("narrow", NARROW, indirect=True, ids=lambda p: p[1])
def test_no_inodes(narrow: Container, home: Path, container: ContainerOf, request: pytest.FixtureRequest) -> None:
    """A tmpfs counts hard links, too: there archives may be stopped after the commit point, which is told."""
    project = make_project(home, container("vllmlike", start=False))
    there = ("--container", str(narrow.id))
    halves = 0
    for spare in (0, 10, 16, 17, 18, 19):
        fill(narrow, spare, "inodes")
        before = tree(narrow)
        done = project.run("apply", *there)
        if done.code == 0:
            break
        assert (done.code, done.err.splitlines()[-1]) == (8, "hint: free some space, then run the same command again")
        assert project.run("verify", *there).code == 4
        half = f"the change of /{SITE} was interrupted; run the same command again to finish it" in done.err
        assert (tree(narrow) != before) == half
        halves += half
    fill(narrow, 60, "inodes")
    assert project.run("apply", *there).code == 0
    assert project.run("verify", *there).code == 0
    assert halves == (1 if "archives" in request.node.name else 0)
