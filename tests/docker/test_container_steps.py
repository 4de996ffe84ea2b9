"""Steps that do more than change files, in real containers: packages, commands and whole files, by `--container`
and by the bundle inside."""

from __future__ import annotations

import hashlib
import importlib.util
import io
import json
import os
import signal
import subprocess
import tarfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.cli.machines import Index, make_wheel

from .stacks import NAME, ROOT, Project, Result, Tree, diff, tree

if TYPE_CHECKING:
    from collections.abc import Iterator

    from docker.models.containers import Container

    from .conftest import ContainerOf

SITE = "usr/local/lib/python3.11/dist-packages"
COMMIT = "c50aca14416ef29f6ed0ed256302f30646726dcd"
FILES = {
    "demo/__init__.py": "",
    "demo/_version.py": f"__commit_id__ = commit_id = 'g{COMMIT[:9]}'\n",
    "demo/a.py": "".join(f"a_{n} = {n}\n" for n in range(1, 21)),
    "demo/b.py": "".join(f"b_{n} = {n}\n" for n in range(1, 21)),
}
KERNEL = bytes(range(256)) * 100
MAKE = {
    "argv": ["/bin/sh", "-c", "echo making; sed s/a_1/made_1/ demo/a.py > demo/made.py; echo $GREETING >&2"],
    "unless": {"argv": ["grep", "-q", "^made_1 ", "demo/made.py"]},
    "creates": "demo/made.py",
    "check": {"argv": ["python3", "-B", "-c", "import demo.made"]},
    "revert": ["rm", "demo/made.py"],
    "env": {"GREETING": "hello"},
}


def unpacked(name: str, version: str) -> dict[str, bytes]:
    """A wheel as pip leaves it: its files, and who installed it."""
    import zipfile

    with zipfile.ZipFile(io.BytesIO(make_wheel(name, version)[1])) as archive:
        found = {member: archive.read(member) for member in archive.namelist()}
    return {**found, f"{name}-{version}.dist-info/INSTALLER": b"pip\n"}


def put(container: Container, files: dict[str, bytes], mode: int = 0o644) -> None:
    """Files below the site, folders as needed."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for path, data in files.items():
            info = tarfile.TarInfo(f"{SITE}/{path}")
            info.size, info.mode, info.mtime = len(data), mode, 1_790_000_000
            archive.addfile(info, io.BytesIO(data))
    assert container.put_archive("/", buffer.getvalue())


def sh(container: Container, script: str) -> str:
    code, output = container.exec_run(["sh", "-c", script])
    text: str = output.decode()
    assert code == 0, text
    return text


def version(container: Container, name: str) -> str:
    """By metadata, as any Python program would ask."""
    code = f"import importlib.metadata as m\ntry: print(m.version('{name}'))\nexcept m.PackageNotFoundError: print('-')"
    return sh(container, f'python3 -B -c "{code}"').strip()


def state(container: Container) -> Tree:
    """The site, without byte-code, pip itself and the ledger."""
    return {
        path: what
        for path, what in tree(container, f"/{SITE}").items()
        if "__pycache__" not in path and not path.startswith((".patchkit", "pip"))
    }


def contents(container: Container) -> dict[str, object]:
    """The bytes of the site's files; of a package's metadata the names, but for what pip notes of its own work."""
    notes = ("/INSTALLER", "/REQUESTED")
    return {
        path: b"" if path.endswith("/RECORD") else what[-1]
        for path, what in state(container).items()
        if not path.endswith(notes)
    }


def changed(container: Container) -> dict[str, int]:
    """What `docker diff` shows, with how: 0 changed, 1 added, 2 removed."""
    return {entry["Path"]: entry["Kind"] for entry in container.diff() or []}


def traces(before: dict[str, int], after: dict[str, int]) -> set[str]:
    """What is new in `after` and is neither a directory on the way to it nor below the site."""
    new = {path for path, kind in after.items() if before.get(path) != kind}
    if any(path.startswith("/tmp/patchkit-") for path in new):  # the output of a run that failed is kept there
        new = {path for path in new if path != "/tmp" and not path.startswith("/tmp/patchkit-")}
    return {path for path in new if not path.startswith(f"/{SITE}") and not f"/{SITE}".startswith(path)}


@dataclass(frozen=True)
class Bench:
    """The project, the index, and where its stack is to go."""

    project: Project
    index: Index

    def patch(self, step: str, path: str, old: str, new: str) -> dict[str, Any]:
        text = diff(self.project.folder / "pristine" / SITE, path, old, new)
        (self.project.folder / "patches" / NAME / f"{step}.patch").write_text(text)
        return {"id": step, "patch": f"{step}.patch", "reason": "a test"}

    def lock(self, *steps: dict[str, Any], number: int = 1, more: tuple[str, ...] = ("--vendor",)) -> str:
        path = self.project.folder / "patches" / NAME / "stack.yaml"
        path.write_text(json.dumps({"image": NAME, "version": number, "steps": list(steps)}))
        done = self.project.run("lock", "--from", str(self.project.folder / "pristine"), *more)
        assert done.code == 0, done.err
        return done.out

    def first(self) -> dict[str, Any]:
        return self.patch("first", "demo/a.py", "a_15 = 15", "a_15 = 'patched'")

    def all_kinds(self) -> list[dict[str, Any]]:
        """patch, pip, run, file, and a patch on what came before: all that there is."""
        kernel = {"path": "demo/hsa/x.co", "url": "https://example.invalid/x.co", "mode": "0755",
                  "sha256": hashlib.sha256(KERNEL).hexdigest(), "size": len(KERNEL)}  # fmt: skip
        return [
            self.first(),
            pip("kern==2.0"),
            run("make", MAKE),
            {"id": "kernel", "file": kernel, "reason": "a test"},
            self.patch("last", "demo/b.py", "b_15 = 15", "b_15 = 'patched'"),
        ]


def pip(*requirements: str, **more: Any) -> dict[str, Any]:
    return {"id": "kern", "pip": {"requirements": list(requirements), **more}, "reason": "a test"}


def run(step: str, command: dict[str, Any]) -> dict[str, Any]:
    return {"id": step, "run": command, "reason": "a test"}


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bench]:
    """A project whose pristine files are FILES, with KERNEL in the cache, and an index with kern 1.0 and 2.0."""
    monkeypatch.setenv("PATCHKIT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    folder = tmp_path / "project"
    for path, text in FILES.items():
        file = folder / "pristine" / SITE / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    (folder / "images").mkdir()
    (folder / "patches" / NAME).mkdir(parents=True)
    image = {"name": NAME, "reference": "example/steps:1", "site": SITE,
             "components": {"demo": {"repo": "example/demo", "commit": COMMIT}},
             "identity": {"file": "demo/_version.py", "commit": COMMIT[:9]}}  # fmt: skip
    (folder / f"images/{NAME}.yaml").write_text(json.dumps(image))
    digest = hashlib.sha256(KERNEL).hexdigest()
    blob = tmp_path / "cache" / "blobs" / digest[:2] / digest[2:]
    blob.parent.mkdir(parents=True)
    blob.write_bytes(KERNEL)
    (tmp_path / "index").mkdir()
    index = Index(tmp_path / "index")
    monkeypatch.setenv("PIP_INDEX_URL", index.url)
    for number in ("1.0", "2.0"):
        index.add("kern", number)
    yield Bench(Project(folder), index)
    index.close()


@pytest.fixture(scope="session")
def pip_wheel() -> bytes:
    """The pip that comes with this Python."""
    spec = importlib.util.find_spec("ensurepip")
    folder = Path(spec.origin or "").parent / "_bundled" if spec is not None else Path()
    wheels = sorted(folder.glob("pip-*.whl"))
    if not wheels:
        pytest.skip("this Python carries no pip of its own (ensurepip)")
    return wheels[0].read_bytes()


def furnish(made: Container, pip_wheel: bytes) -> Container:
    """Put the demo, kern 1.0 and pip into a container."""
    put(
        made, {**{path: text.encode() for path, text in FILES.items()}, **unpacked("kern", "1.0"), "pip.zip": pip_wheel}
    )
    there = f"/{SITE}"
    sh(
        made,
        f"cd {there} && python3 -m zipfile -e pip.zip . && rm pip.zip && python3 -m compileall -q pip kern.py demo",
    )
    return made


@pytest.fixture
def machine(container: ContainerOf, pip_wheel: bytes) -> Container:
    """A container without a network."""
    return furnish(container("python"), pip_wheel)


class Way:
    """How a command reaches the container: by `--container`, or by the bundle that is run in it."""

    def __init__(self, how: str, bench: Bench, container: Container) -> None:
        self.how, self.bench, self.container = how, bench, container

    def __call__(self, command: str, *words: str) -> Result:
        if self.how == "client":
            return self.bench.project.run(command, "--container", self.container.id, *words)
        argv = ["docker", "exec", "-i", self.container.id, "python3", "-I", "-B", "/dev/shm/b.pyz", command, *words]
        load = ["docker", "exec", "-i", self.container.id, "sh", "-c", "cat > /dev/shm/b.pyz"]
        subprocess.run(load, input=self.bench.project.bundle(), check=True)
        done = subprocess.run(argv, capture_output=True, check=False, text=True)
        assert "Traceback" not in done.stderr
        return Result(done.returncode, done.stdout, done.stderr)


WAYS = pytest.mark.parametrize("how", ["client", "bundle"])


@WAYS
def test_every_kind_from_apply_to_revert(how: str, bench: Bench, machine: Container) -> None:
    bench.lock(*bench.all_kinds())
    bench.index.close()
    way = Way(how, bench, machine)
    before, shown, contents_before = state(machine), changed(machine), contents(machine)
    planned = way("apply", "--dry-run", "--json").json
    assert [s["verdict"] for s in planned["steps"]] == ["applies", "applies", "applies", "applies", "applies"]
    assert planned["steps"][1]["detail"].startswith("would install kern 1.0 -> 2.0 from ")
    assert planned["steps"][2]["detail"].startswith("would run: /bin/sh -c ")
    assert (state(machine), changed(machine)) == (before, shown)
    applied = way("apply", "--json").json
    assert (applied["outcome"], applied["errors"]) == ("applied", [])
    assert applied["steps"][1]["detail"] == "installed kern 1.0 -> 2.0"
    assert version(machine, "kern") == "2.0"
    assert sh(
        machine, f"cd /{SITE}; python3 -B -c 'import kern, demo.made; print(kern.VERSION, demo.made.made_1)'"
    ) == ("2.0 1\n")
    assert sh(machine, f"stat -c %a /{SITE}/demo/hsa/x.co") == "755\n"
    log = sh(machine, f"cat /{SITE}/.patchkit/log")
    assert "    making\n    hello\n" in log
    assert "Successfully installed kern-2.0" in log
    assert not traces(shown, changed(machine))
    patched, all_of_it = state(machine), tree(machine, f"/{SITE}")
    assert way("apply", "--json").json["outcome"] == "unchanged"
    assert tree(machine, f"/{SITE}") == all_of_it
    assert way("verify", "--json").json["outcome"] == "clean"
    status = way("status", "--json").json
    assert [step["on_disk"] for step in status["steps"]] == ["applied"] * 5
    sh(machine, f"rm -r /{SITE}/kern.py /{SITE}/kern-2.0.dist-info /{SITE}/demo/made.py")
    drifted = way("verify")
    assert drifted.code == 4
    assert "step kern (pip): kern is not there, not 2.0" in drifted.err
    assert "step make (run): it does not hold any more that demo/made.py is there" in drifted.err
    again = way("apply", "--json").json
    assert [s["verdict"] for s in again["steps"]][1:3] == ["applies", "applies"], again
    assert state(machine) == patched
    assert way("verify").code == 0
    reverted = way("revert")
    assert (reverted.code, reverted.err) == (0, "")
    assert version(machine, "kern") == "1.0"
    assert contents(machine) == contents_before
    assert not [path for path in tree(machine, f"/{SITE}") if path.startswith(".patchkit")]
    assert not traces(shown, changed(machine))


@WAYS
def test_packages_of_an_index(how: str, bench: Bench, container: ContainerOf, pip_wheel: bytes) -> None:
    """The container shares the host's network; what may move with the package moves, and all moves back."""
    bench.index.add("wants", "1.0", "kern>=2", "new")
    bench.index.add("new", "5")
    machine = furnish(
        container("python", network_mode="host", environment={"PIP_INDEX_URL": bench.index.url}), pip_wheel
    )
    way = Way(how, bench, machine)
    shown = changed(machine)
    bench.lock(bench.first(), pip("wants==1.0"), more=())
    refused = way("apply")
    assert refused.code == 8
    assert "it would move packages that it does not name: kern 1.0 -> 2.0, new (not there) -> 5" in refused.err
    assert "`may_move: [kern, new]`" in refused.err
    net = run("net", {"argv": ["touch", "made"], "creates": "made", "revert": ["rm", "made"], "needs": ["network"]})
    bench.lock(bench.first(), pip("wants==1.0", may_move=["kern", "new"]), net, number=2, more=())
    applied = way("apply", "--json").json
    assert applied["steps"][1]["detail"] == (
        "installed kern 1.0 -> 2.0, new (not there) -> 5, wants (not there) -> 1.0"
    ), applied
    assert [version(machine, name) for name in ("wants", "kern", "new")] == ["1.0", "2.0", "5"]
    assert way("apply", "--json").json["outcome"] == "unchanged"
    assert way("verify").code == 0
    assert not traces(shown, changed(machine))
    bench.lock(bench.first(), pip("kern==2.0"), number=3, more=())
    bench.index.close()
    assert way("revert").code == 0
    assert [version(machine, name) for name in ("wants", "kern", "new")] == ["-", "1.0", "-"]
    down = way("apply")
    assert down.code == 6, down.err
    assert "step kern (pip): pip install failed" in down.err
    assert version(machine, "kern") == "1.0"
    assert not traces(shown, changed(machine))


@WAYS
def test_what_the_container_lacks(how: str, bench: Bench, machine: Container) -> None:
    """No GPU, no network: nothing is touched, and the way to do it is said; with the GPU it is done."""
    late = {
        "argv": ["touch", "late"],
        "creates": "late",
        "revert": ["rm", "late"],
        "stage": "runtime",
        "needs": ["gpu"],
    }
    bench.lock(bench.first(), run("late", late), bench.patch("last", "demo/b.py", "b_3 = 3", "b_3 = 'three'"))
    way, before = Way(how, bench, machine), state(machine)
    refused = way("apply")
    assert (refused.code, refused.out, refused.err) == (
        8,
        "",
        (
            "error: step late (run): cannot run here: needs gpu (there is no /dev/kfd); run it later: apply --stage runtime\n"
            "hint: apply the rest now: apply --stage build\n"
        ),
    )
    assert state(machine) == before
    assert way("apply", "--stage", "runtime").code == 8
    assert state(machine) == before
    rest = way("apply", "--stage", "build", "--json").json
    assert [s["verdict"] for s in rest["steps"]] == ["applies", "deferred", "applies"]
    assert way("verify", "--json").json["outcome"] == "clean"
    sh(machine, "touch /dev/kfd")
    assert way("apply", "--stage", "runtime", "--json").json["outcome"] in ("applied", "upgraded")
    sh(machine, f"test -e /{SITE}/late")
    assert way("apply", "--json").json["outcome"] == "unchanged"
    assert way("revert").code == 0
    assert state(machine) == before
    net = run("net", {"argv": ["true"], "needs": ["network", "nosuchcc"]})
    bench.lock(bench.first(), net, number=2)
    refused = way("apply")
    assert (refused.code, refused.err) == (
        8,
        (
            "error: step net (run): cannot run here: needs network (no route leaves this machine),"
            " nosuchcc (it is not on PATH)\n"
            "hint: run it where there is: network, nosuchcc\n"
        ),
    )
    assert state(machine) == before


@WAYS
def test_a_command_that_fails(how: str, bench: Bench, machine: Container) -> None:
    """Files and packages of the run go back; what cannot be undone is said."""
    fails = {"argv": ["/bin/sh", "-c", "echo half > half; echo no such kernel; exit 7"]}
    bench.lock(bench.first(), pip("kern==2.0"), run("make", MAKE), run("fails", fails))
    way, before = Way(how, bench, machine), contents(machine)
    result = way("apply")
    log = sh(machine, "ls /tmp/patchkit-*.log").strip()
    assert (result.code, result.out, result.err) == (
        8,
        "",
        (
            "error: step fails (run): `/bin/sh -c 'echo half > half; echo no such kernel; exit 7'` failed: exit status 7\n"
            "    no such kernel\n"
            "error: rolled back: every file of the stack is as it was before this run\n"
            "error: step fails (run): what its command did is not undone: the step names no `revert`\n"
            "error: rolled back: step make (run)\n"
            "error: rolled back: step kern (pip)\n"
            f"error: what the commands printed is kept in {log}\n"
            "hint: see its output above; correct the step or the machine, then run the same command again\n"
        ),
    )
    assert version(machine, "kern") == "1.0"
    sh(machine, f"rm /{SITE}/half {log}")
    assert contents(machine) == before
    bench.lock(bench.first(), run("slow", {"argv": ["sleep", "77"], "timeout": 1, "revert": ["true"]}), number=2)
    result = way("apply")
    assert result.code == 8
    assert "step slow (run): `sleep 77` failed: it was killed after its timeout of 1 s" in result.err
    assert "sleep 77" not in sh(machine, "cat /proc/[0-9]*/cmdline | tr '\\0' ' '")
    assert contents(machine) == before


WAITS = {
    "argv": ["/bin/sh", "-c", "test -e ../here || { touch ../here; sleep 5; }; touch made"],
    "creates": "made",
    "revert": ["rm", "-f", "made"],
}


@pytest.mark.parametrize("who", ["client", "container", "^C"])
def test_cut_off_in_the_middle_of_a_step(who: str, bench: Bench, machine: Container) -> None:
    """What is killed leaves a state that says so; the next run goes on with it, and a revert takes it all off."""
    bench.lock(
        bench.first(), pip("kern==2.0"), run("waits", WAITS), bench.patch("last", "demo/b.py", "b_3 = 3", "b_3 = 0")
    )
    way, before = Way("client", bench, machine), contents(machine)
    words = bench.project.words("apply", "--container", machine.id)
    with subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as client:
        sh(machine, f"for n in $(seq 600); do test -e /{SITE}/../here && exit 0; sleep 0.1; done; exit 1")
        if who == "client":
            client.send_signal(signal.SIGKILL)
            client.wait()
            assert way("apply").code == 7, "its command still runs"
            sh(machine, f"python3 -c 'import fcntl, os; fcntl.flock(os.open(\"/{SITE}\", 0), fcntl.LOCK_EX)'")
        elif who == "^C":
            client.send_signal(signal.SIGINT)
            _, said = client.communicate(timeout=4)  # its command would take longer
            assert client.returncode == 130
            assert said == "interrupted; run the same command again: it finishes or undoes what was begun\n"
            assert "sleep 5" not in sh(machine, "cat /proc/[0-9]*/cmdline | tr '\\0' ' '")
        else:
            machine.kill()
            _, said = client.communicate(timeout=60)
            assert client.returncode == 8
            assert "the run inside it was cut off" in said
            machine.start()
            seen = way("verify")
            assert seen.code == 4
            assert "an earlier run ended before its last step" in seen.err
            assert version(machine, "kern") == "2.0"
    assert way("apply").code == 0
    assert way("verify", "--json").json["outcome"] == "clean"
    sh(machine, f"test -e /{SITE}/made; grep -q '^b_3 = 0' /{SITE}/demo/b.py")
    assert way("revert").code == 0
    assert version(machine, "kern") == "1.0"
    assert contents(machine) == before


def test_a_container_that_cannot_run_steps(bench: Bench, container: ContainerOf) -> None:
    """Stopped, or without python3: steps that run something are refused, with the way to do it; files are not."""
    bench.lock(*bench.all_kinds())
    stopped, bare = container("python", start=False), container("busybox")
    demo = {path: text.encode() for path, text in FILES.items()}
    for target in (stopped, bare):
        put(target, demo)
        before = state(target)
        refused = bench.project.run("apply", "--container", target.id)
        assert (refused.code, refused.out) == (8, "")
        who = f"container {target.name} ({target.id[:12]})"
        why = "it is created" if target is stopped else "it has no python3 (3.10 or newer)"
        cure = f"docker start {stopped.name}, then run it again" if target is stopped else "put python3 into it"
        assert refused.err == (
            f"error: step kern (pip): cannot run here: {who}: {why}; nothing was done\n"
            f"error: step make (run): cannot run here: {who}: {why}; nothing was done\n"
            f"hint: {cure}; or apply the other steps: --only first,kernel,last\n"
        )
        assert state(target) == before
        if os.geteuid() == 0:
            some = bench.project.run("apply", "--container", target.id, "--only", "first,kernel,last", "--json")
            assert (some.code, some.json["outcome"]) == (0, "applied")
            assert bench.project.run("revert", "--container", target.id).code == 0
            assert state(target) == before


@pytest.mark.skipif(os.geteuid() != 0, reason="only root keeps owners through archives")
def test_stopped_after_it_was_applied(bench: Bench, machine: Container) -> None:
    """What was done while it ran is not undone, nor judged, while it does not."""
    bench.lock(*bench.all_kinds())
    way = Way("client", bench, machine)
    assert way("apply").code == 0
    machine.stop(timeout=0)
    before = state(machine)
    seen = way("verify")
    assert seen.code == 0
    assert "not looked at, since only the running machine tells: kern, make" in seen.out
    refused = way("revert")
    assert refused.code == 8
    assert "step kern (pip): only on the running machine can it be undone" in refused.err
    assert "hint: revert inside the container while it runs; or put the files back" in refused.err
    assert state(machine) == before
    machine.start()
    assert way("revert").code == 0
    assert version(machine, "kern") == "1.0"


def test_without_pip(bench: Bench, machine: Container) -> None:
    bench.lock(bench.first(), pip("kern==2.0"))
    sh(machine, f"rm -r /{SITE}/pip*")
    before = state(machine)
    refused = Way("client", bench, machine)("apply")
    assert (refused.code, refused.err) == (
        8,
        (
            "error: step kern (pip): /usr/bin/python3 has no pip\n"
            "hint: apply it where that Python has pip, or install it there\n"
        ),
    )
    assert state(machine) == before
