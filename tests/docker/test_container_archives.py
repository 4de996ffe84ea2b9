"""`--container` on containers that do not run, or have no python3: through archives, with the same ledger."""

from __future__ import annotations

import io
import json
import os
import random
import shutil
import socket
import subprocess
import sys
import tarfile
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from .stacks import NAME, ROOT, SITE, STALE, Project, content, make_project, tree

if TYPE_CHECKING:
    from docker.models.containers import Container

    from .conftest import ContainerOf
    from .stacks import Tree

CUT = str(Path(__file__).parent / "cut.py")

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root keeps owners through archives")


@pytest.fixture
def stopped(container: ContainerOf) -> Container:
    """Never started."""
    return container("vllmlike", start=False)


@pytest.fixture
def project(tmp_path: Path, stopped: Container, monkeypatch: pytest.MonkeyPatch) -> Project:
    monkeypatch.setenv("PATCHKIT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    (tmp_path / "project").mkdir()
    return make_project(tmp_path / "project", stopped)


def second_version(project: Project) -> Project:
    """The same project one version later."""
    folder = project.folder.parent / "second"
    shutil.copytree(project.folder, folder)
    second = Project(folder)
    from .stacks import write_stack

    write_stack(second, 2)
    return second


def run_life(project: Project, there: tuple[str, ...], target: Container) -> None:
    """apply, again, verify, drift, forced revert; what is in the way is exit 4."""
    before = tree(target)
    applied = project.run("apply", *there, "--json")
    assert (applied.code, applied.json["outcome"]) == (0, "applied"), applied.out
    assert applied.json["target"] == f"container:{target.id[:12]}:/{SITE}"
    patched = tree(target)
    assert b"tokens >= limit + 1" in patched["vllm/scheduler.py"][-1]  # type: ignore[operator]
    for path in ("vllm/scheduler.py", "vllm/worker.py", "vllm/entrypoints/probe.py"):
        assert patched[path][:6] == before[path][:6]
    assert patched["vllm/entrypoints/run.py"] == before["vllm/entrypoints/serve.py"]
    assert project.run("apply", *there, "--json").json["outcome"] == "unchanged"
    assert tree(target) == patched
    assert project.run("verify", *there, "--json").json["outcome"] == "clean"
    assert project.run("revert", *there, "--json").json["outcome"] == "reverted"
    assert tree(target) == {path: state for path, state in before.items() if path not in STALE}


def test_never_started_and_stopped(project: Project, stopped: Container) -> None:
    there = ("--container", stopped.id)
    run_life(project, there, stopped)
    stopped.start()
    stopped.stop(timeout=5)
    assert project.run("apply", *there).code == 0
    stopped.start()
    assert project.run("verify", *there, "--json").json["outcome"] == "clean"  # the bundle reads the same ledger
    stopped.stop(timeout=5)
    (mine := project.folder / "mine.py").write_text("# mine\n")
    subprocess.run(["docker", "cp", str(mine), f"{stopped.id}:/{SITE}/vllm/worker.py"], check=True, capture_output=True)
    for command in ("verify", "apply", "revert"):
        assert project.run(command, *there).code == 4
    assert project.run("revert", *there, "--force").code == 0
    assert not any(path.startswith(".patchkit") for path in tree(stopped))


def test_the_same_json_and_tree_as_the_bundle(project: Project, stopped: Container, container: ContainerOf) -> None:
    running = container("vllmlike")
    second = second_version(project)
    work = [(project, c) for c in ("status", "diff", "verify", "apply", "verify", "diff")]
    work += [(second, c) for c in ("status", "verify", "apply", "status", "revert", "revert")]
    for which, command in work:
        mine = which.run(command, "--container", stopped.id, "--json")
        theirs = which.run(command, "--container", running.id, "--json")
        expected = json.loads(theirs.out.replace(running.id, stopped.id).replace(running.id[:12], stopped.id[:12]))
        assert (mine.code, mine.json, mine.err) == (theirs.code, expected, theirs.err)
        assert tree(stopped) == tree(running)


def test_busybox(project: Project, container: ContainerOf) -> None:
    """Running, with no python3: the files are there, as a model cache or an unpacked image would be."""
    bare = container("busybox")
    pack = subprocess.run(["tar", "-c", "-C", str(project.folder / "pristine"), "."], capture_output=True, check=True)
    bare.put_archive("/", pack.stdout)
    before = tree(bare)
    there = ("--container", bare.id)
    assert project.run("apply", *there, "--json").json["outcome"] == "applied"
    assert project.run("verify", *there).code == 0
    assert bare.exec_run(["python3", "-V"]).exit_code != 0
    assert project.run("revert", *there).code == 0
    assert content(tree(bare)) == content(before)
    listed = project.run("status", "--container", "--json").json["containers"]
    assert [row["match"] for row in listed if row["id"] == bare.id] == ["identity"]


def test_refusals_touch_nothing(project: Project, container: ContainerOf) -> None:
    locked = container("vllmlike", start=False, read_only=True)
    assert project.run("apply", "--container", locked.id).code == 8
    assert project.run("status", "--container", locked.id).code == 0
    strange = container("python", start=False)
    assert project.run("apply", "--container", strange.id).code == 2
    other = container("vllmlike", start=False)
    (version := project.folder / "_version.py").write_text("commit_id = 'gdeadbeef0'\n")
    subprocess.run(
        ["docker", "cp", str(version), f"{other.id}:/{SITE}/vllm/_version.py"], check=True, capture_output=True
    )
    before = tree(other)
    assert project.run("apply", "--container", other.id).code == 4
    assert project.run("apply", "--container", other.id, "--dry-run", "--stand-in").code == 0
    assert tree(other) == before


class Cuts:
    """A container, two versions of its stack, and what it looks like pristine, under the first, and the second."""

    def __init__(self, first: Project, target: Container) -> None:
        self.target, self.there = target, ("--container", target.id)
        self.work = {"apply": first, "upgrade": second_version(first), "revert": first}
        self.counts: dict[str, int] = {}
        self.after: dict[str, Tree] = {}
        for name in self.work:
            done = self.cut(name, "before", 0)
            assert done.returncode == 0, done.stderr
            self.counts[name] = int(done.stderr.split()[-1])
            self.after[name] = content(tree(target))

    def words(self, name: str) -> list[str]:
        command = "apply" if name == "upgrade" else name
        return [command, "--image", NAME, *self.there, "-C", str(self.work[name].folder)]

    def cut(self, name: str, how: str, number: int) -> subprocess.CompletedProcess[str]:
        if name == "apply":
            self.put_stale_bytecode()  # the last apply removed it: each writes the same entries as the first
        run = [sys.executable, CUT, how, str(number), *self.words(name)]
        return subprocess.run(run, capture_output=True, text=True, check=False)

    def put_stale_bytecode(self) -> None:
        buffer = io.BytesIO()
        with tarfile.open(fileobj=buffer, mode="w") as archive:
            info = tarfile.TarInfo(f"{SITE}/{STALE[1]}")
            info.size = 1
            archive.addfile(info, io.BytesIO(b"-"))
        assert self.target.put_archive("/", buffer.getvalue())

    def check(self, name: str, label: str, *, bundle: bool) -> None:
        """Nothing half done is called done, and the next run, by archives or by the bundle, ends whole."""
        now = content(tree(self.target))
        for version in ("apply", "upgrade"):
            if self.work[version].run("verify", *self.there).code == 0:
                assert now == self.after[version], label
        if bundle:
            self.target.start()
        done = self.work[name].run("apply" if name == "upgrade" else name, *self.there)
        assert done.code == 0, (label, done)
        if bundle:
            self.target.stop(timeout=5)
        found = tree(self.target)
        assert content(found) == self.after[name], label
        assert not [p for p in found if ".tmp" in p or "journal" in p], label
        if name != "revert":
            assert self.work[name].run("verify", *self.there).code == 0, label


@pytest.mark.parametrize("count", [20, pytest.param(200, marks=pytest.mark.kills)])
def test_killed_at_any_entry(count: int, project: Project, stopped: Container) -> None:
    cuts = Cuts(project, stopped)
    chance = random.Random(count)
    names = list(cuts.work)
    for round_ in range(count):
        name = names[round_ % 3]
        how = chance.choice(("before", "removed", "half"))
        last = cuts.counts[name]
        number = {0: last, 1: 1}.get(round_ // 3) or chance.randint(1, last)  # the ends first
        killed = cuts.cut(name, how, number)
        label = f"{name}, {how} entry {number} of {last}"
        assert killed.returncode == -9, (label, killed.stderr)
        cuts.check(name, label, bundle=round_ % 2 == 1)


def test_the_client_is_killed_at_any_time(project: Project, stopped: Container) -> None:
    cuts = Cuts(project, stopped)
    for number in range(9):
        name = list(cuts.work)[number % 3]
        client = subprocess.Popen([sys.executable, "-m", "patchkit", *cuts.words(name)], stdout=subprocess.DEVNULL)
        time.sleep(0.5 + 0.1 * number)
        client.kill()
        client.wait()
        cuts.check(name, f"{name} {number}", bundle=False)


class Flaky:
    """A socket before the engine's that goes away for good after so many bytes to it."""

    def __init__(self, path: Path, budget: int) -> None:
        self.left = budget
        self.server = socket.socket(socket.AF_UNIX)
        self.server.bind(str(path))
        self.server.listen()
        self.open: list[socket.socket] = []
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self.server.accept()
                engine = socket.socket(socket.AF_UNIX)
                engine.connect((os.environ.get("DOCKER_HOST") or "unix:///var/run/docker.sock").partition("://")[2])
                self.open += [client, engine]
                threading.Thread(target=self.pump, args=(client, engine, True), daemon=True).start()
                threading.Thread(target=self.pump, args=(engine, client, False), daemon=True).start()

    def pump(self, source: socket.socket, target: socket.socket, counts: bool) -> None:
        with suppress(OSError):
            while data := source.recv(4096):
                if counts:
                    self.left -= len(data)
                    if self.left < 0:
                        self.close()
                        return
                target.sendall(data)
            target.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        with suppress(OSError):
            self.server.shutdown(socket.SHUT_RDWR)
        for one in (self.server, *self.open):
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()


def test_the_engine_goes_away(project: Project, stopped: Container, tmp_path: Path) -> None:
    cuts = Cuts(project, stopped)
    codes = set()
    for number, budget in enumerate((3_000, 12_000, 20_000, 30_000, 40_000, 55_000)):
        flaky = Flaky(tmp_path / f"{number}.sock", budget)
        environment = {**os.environ, "DOCKER_HOST": f"unix://{tmp_path}/{number}.sock"}
        name = list(cuts.work)[number % 3]
        run = [sys.executable, "-m", "patchkit", *cuts.words(name), "--json"]
        done = subprocess.run(run, env=environment, capture_output=True, text=True, check=False)
        flaky.close()
        codes.add(done.returncode)
        assert done.returncode in {0, 6}, done.stdout
        cuts.check(name, f"{name} after {budget} bytes", bundle=False)
    assert 6 in codes


# ---- file systems in memory: archives see what lies under them


def fill(target: Container, source: Container) -> None:
    """Put the image's files into the site as the container itself sees it."""
    chunks, _ = source.get_archive(f"/{SITE}")
    run = ["docker", "exec", "-i", target.id, "tar", "-xf", "-", "-C", os.path.dirname(f"/{SITE}")]
    subprocess.run(run, input=b"".join(chunks), check=True)


def seen_inside(target: Container) -> bytes:
    code, out = target.exec_run(["cat", f"/{SITE}/vllm/scheduler.py"])
    assert code == 0
    assert isinstance(out, bytes)
    return out


MEMORY = {
    "at": {"tmpfs": {f"/{SITE}": "size=400k,exec"}},
    "above": {"tmpfs": {"/usr/local": "size=400k,exec"}},
    "below": {"tmpfs": {f"/{SITE}/vllm/entrypoints": ""}},
    "mount": {"mounts": [{"Type": "tmpfs", "Target": f"/{SITE}/vllm/extra"}]},
}


@pytest.mark.parametrize("command", ["apply", "verify", "revert", "diff", "status"])
@pytest.mark.parametrize("where", ["at", "above", "below", "mount"])
@pytest.mark.parametrize("kind", ["busybox", "vllmlike"])
def test_a_tmpfs_hides_the_site(
    kind: str, where: str, command: str, project: Project, container: ContainerOf, stopped: Container
) -> None:
    """Without python3, or not running: refused, whatever is to be done, and whatever the archives show."""
    options = MEMORY[where]
    made = container(kind, start=kind == "busybox", **options)
    if kind == "busybox":
        made.exec_run(["mkdir", "-p", f"/{SITE}"])
        fill(made, stopped)
        pristine = seen_inside(made)
    refused = project.run(command, "--container", made.id, "--json")
    assert (refused.code, refused.json["errors"][0]["code"]) == (8, "environment"), refused.out
    mount = next(iter(options.get("tmpfs", {})), None) or options["mounts"][0]["Target"]  # type: ignore[index]
    assert f"it has a tmpfs at {mount}, " in refused.json["errors"][0]["message"]
    assert refused.json["errors"][0]["hint"].endswith("or make a container without that tmpfs")
    if kind == "busybox":
        assert seen_inside(made) == pristine
    assert not any(".patchkit" in entry["Path"] for entry in made.diff() or [])


def test_a_tmpfs_elsewhere_is_nobodys_business(project: Project, container: ContainerOf) -> None:
    elsewhere = {"/tmp": "", f"/{SITE}-other": "", "/run": ""}
    run_life(project, ("--container", (made := container("vllmlike", start=False, tmpfs=elsewhere)).id), made)


def test_a_tmpfs_and_python(project: Project, container: ContainerOf, stopped: Container) -> None:
    """The bundle works inside, and sees what everybody there sees."""
    made = container("vllmlike", tmpfs={f"/{SITE}": "size=400k,exec"})
    fill(made, stopped)
    there = ("--container", made.id)
    assert project.run("apply", *there, "--json").json["outcome"] == "applied"
    assert b"tokens >= limit + 1" in seen_inside(made)
    assert project.run("verify", *there, "--json").json["outcome"] == "clean"
    assert project.run("revert", *there, "--json").json["outcome"] == "reverted"


def test_a_tmpfs_behind_a_link(project: Project, container: ContainerOf, stopped: Container) -> None:
    """The mount is named by another path than the site: links are followed on both sides."""
    made = container("vllmlike")
    made.exec_run(["sh", "-c", "ln -s usr/local/lib /alias"])
    image = made.commit()
    try:
        other = container(image=image.id, start=False, tmpfs={f"/alias/{SITE.partition('lib/')[2]}/vllm": ""})
        refused = project.run("apply", "--container", other.id)
        assert refused.code == 8
        assert "it has a tmpfs at /alias/" in refused.err
        other.remove(force=True)
    finally:
        made.client.images.remove(image.id)
