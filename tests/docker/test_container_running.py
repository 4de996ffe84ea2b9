"""`--container` on running containers: the bundle's work inside, without a trace of its own."""

from __future__ import annotations

import io
import json
import os
import pwd
import re
import shlex
import signal
import subprocess
import sys
import tarfile
import time
from typing import TYPE_CHECKING

import pytest

from .stacks import NAME, ROOT, SITE, STALE, TOUCHED, Project, make_project, tree, without_ledger, write_stack

if TYPE_CHECKING:
    from pathlib import Path

    from docker.models.containers import Container

    from .conftest import ContainerOf

COMMANDS = ("apply", "verify", "revert", "diff", "status")


@pytest.fixture
def running(container: ContainerOf) -> Container:
    return container("vllmlike")


@pytest.fixture
def project(tmp_path: Path, running: Container, monkeypatch: pytest.MonkeyPatch) -> Project:
    monkeypatch.setenv("PATCHKIT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    (tmp_path / "project").mkdir()
    return make_project(tmp_path / "project", running)


def changed(container: Container) -> set[str]:
    """What `docker diff` shows below the site, directories aside that hold other changes."""
    paths = {entry["Path"] for entry in container.diff() or []}
    inner = {path for path in paths if not any(other.startswith(f"{path}/") for other in paths)}
    outside = {path for path in inner if not path.startswith(f"/{SITE}/")}
    assert not outside
    return {path.removeprefix(f"/{SITE}/") for path in inner}


def test_a_fresh_container_from_apply_to_revert(project: Project, running: Container) -> None:
    before = tree(running)
    there = ("--container", running.name)
    applied = project.run("apply", *there)
    assert applied.code == 0, applied.err
    assert f"tree: container:{running.id[:12]}:/{SITE}" in applied.out
    patched = tree(running)
    assert b"tokens >= limit + 1" in patched["vllm/scheduler.py"][-1]
    assert patched["vllm/scheduler.py"][:4] == before["vllm/scheduler.py"][:4]
    assert patched["vllm/entrypoints/probe.py"][4] is not None
    shown = changed(running)
    byproducts = {p for p in shown if not p.startswith(".patchkit/")} - set(TOUCHED)
    assert byproducts <= set(STALE)
    again = project.run("apply", *there, "--json")
    assert (again.code, again.json["outcome"]) == (0, "unchanged")
    assert tree(running) == patched
    assert project.run("verify", *there, "--json").json["outcome"] == "clean"
    running.exec_run(["sh", "-c", f"echo '# mine' >> /{SITE}/vllm/worker.py"])
    for command in ("verify", "apply", "revert"):
        assert project.run(command, *there).code == 4
    assert project.run("revert", *there, "--force").code == 0
    after = tree(running)
    assert after == {path: state for path, state in before.items() if path not in STALE}


def test_the_json_is_the_bundles(project: Project, running: Container, container: ContainerOf) -> None:
    other = container("vllmlike")
    bundle = project.bundle()
    for command in ("status", "diff", "verify", "apply", "apply", "verify", "status", "diff", "revert", "revert"):
        only = ["--on-disk"] if command == "status" else []  # what is upstream, a bundle does not know
        mine = project.run(command, *only, "--container", running.id, "--json")
        run = ["docker", "exec", "-i", other.id, "sh", "-c",
               f"cat > /tmp/b.pyz && python3 -I /tmp/b.pyz {command} --json"]  # fmt: skip
        theirs = subprocess.run(run, input=bundle, capture_output=True, check=False)
        expected = json.loads(theirs.stdout)
        if expected["target"] is not None:
            expected["target"] = f"container:{running.id[:12]}:{expected['target']}"
        for error in expected["errors"]:
            error["message"] = error["message"].replace(f"/{SITE}: the", f"container:{running.id[:12]}:/{SITE}: the")
            typed = f"patchkit apply --image {NAME} --container {running.id} -C {project.folder}"
            error["hint"] = error["hint"].replace("python3 /tmp/b.pyz apply", typed)
        assert (mine.code, mine.json) == (theirs.returncode, expected)
        assert mine.err == ""


def test_options_are_handed_on(project: Project, running: Container) -> None:
    there = ("--container", running.id, "--json")
    before = tree(running)
    planned = project.run("apply", *there, "--dry-run")
    assert (planned.code, planned.json["outcome"]) == (0, "planned")
    assert tree(running) == before
    some = project.run("apply", *there, "--only", "scheduler,extra", "--stage", "build", "--site", SITE)
    assert [step["id"] for step in some.json["steps"]] == ["scheduler", "extra"]
    assert project.run("apply", *there, "--only", "zzz").code == 2
    assert project.run("apply", *there, "--site", "no/such").code == 2
    assert project.run("apply", *there).json["outcome"] == "upgraded"
    write_stack(project, 2)
    assert project.run("verify", *there).code == 4
    assert project.run("apply", *there).json["outcome"] == "upgraded"
    assert "vllm/entrypoints/windows.py" not in tree(running)
    (project.folder / f"patches/{NAME}/scheduler.patch").write_text("stale")
    assert project.run("apply", *there).code == 2
    assert project.run("revert", *there).json["outcome"] == "reverted"


def test_another_image_is_refused(project: Project, container: ContainerOf) -> None:
    strange = container("vllmlike")
    strange.exec_run(["sh", "-c", f"echo \"commit_id = 'gdeadbeef0'\" > /{SITE}/vllm/_version.py"])
    before = tree(strange)
    refused = project.run("apply", "--container", strange.id, "--json")
    assert (refused.code, refused.json["errors"][0]["code"]) == (4, "identity")
    assert project.run("apply", "--container", container("python").id).code == 2
    assert tree(strange) == before
    assert project.run("apply", "--container", strange.id, "--stand-in", "--json").json["stand_in"] is True


def test_which_container(project: Project, running: Container, container: ContainerOf) -> None:
    twin = container("vllmlike", start=False)
    twin.rename(f"patchkit-{running.id[:8]}-a")
    container("busybox", start=False).rename(f"patchkit-{running.id[:8]}-b")
    listed = project.run("status", "--container", "--json").json["containers"]
    assert {running.id, twin.id} <= {row["id"] for row in listed}
    assert {row["image"] for row in listed} == {"patchkit-test/vllmlike:1"}
    missing = project.run("apply", "--container", "no-such-thing")
    assert missing.code == 2
    assert running.name in missing.err
    several = project.run("apply", "--container", f"patchkit-{running.id[:8]}")
    assert several.code == 2
    assert "it names 2 containers" in several.err
    assert project.run("apply", "--container", running.id, "--root", "/").code == 2


@pytest.mark.parametrize("kind", ["running", "stopped"])
def test_hints_lead_into_the_container(kind: str, project: Project, container: ContainerOf) -> None:
    """What a hint tells to type works on the container, whether the bundle or the client made it."""
    made = container("vllmlike", start=kind == "running")

    def typed(hint: str, command: str) -> int:
        line = re.search(rf"patchkit {command}.*?(?=, then|; |$)", hint)
        assert line is not None, hint
        run = shlex.split(line.group())
        assert run[run.index("--container") + 1] == made.id
        return subprocess.run([sys.executable, "-m", *run], capture_output=True, check=False).returncode

    refused = project.run("verify", "--container", made.id, "--json")
    assert refused.code == 4
    assert typed(refused.json["errors"][0]["hint"], "apply") == 0
    assert project.run("verify", "--container", made.id).code == 0
    mine = tarfile.TarInfo("worker.py")
    made.put_archive(f"/{SITE}/vllm", tar_of(mine))
    drifted = project.run("verify", "--container", made.id, "--json").json["errors"][0]["hint"]
    assert typed(drifted, "diff") == 0
    assert typed(drifted, "revert --force") == 0
    assert project.run("verify", "--container", made.id).code == 4


def tar_of(entry: tarfile.TarInfo) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        archive.addfile(entry)
    return buffer.getvalue()


@pytest.mark.parametrize("command", COMMANDS)
def test_a_list_is_no_success_where_something_was_to_be_done(
    command: str, project: Project, running: Container
) -> None:
    """Without a value the containers are listed; `apply` and `revert` have done nothing then, and say so."""
    writes = command in ("apply", "revert")
    listed = project.run(command, "--container")
    assert running.name in listed.out
    assert listed.code == (2 if writes else 0)
    assert ("error: --container: no container is named; nothing was" in listed.err) == writes
    told = project.run(command, "--container", "--json")
    assert told.code == listed.code
    assert running.id in {row["id"] for row in told.json["containers"]}
    assert [error["code"] for error in told.json["errors"]] == (["config"] if writes else [])
    assert told.json["outcome"] == ("refused" if writes else "reported")
    if command == "apply":  # a plan changes nothing, but there is none either
        assert project.run(command, "--container", "--dry-run").code == 2
    assert not running.diff()


@pytest.mark.parametrize("command", COMMANDS)
def test_paused(command: str, project: Project, running: Container) -> None:
    running.pause()
    refused = project.run(command, "--container", running.id)
    assert refused.code == 8
    assert f"hint: docker unpause {running.name}" in refused.err
    running.unpause()
    assert not (running.diff() or [])


def test_a_read_only_root(project: Project, container: ContainerOf) -> None:
    locked = container("vllmlike", read_only=True)
    for command in ("apply", "revert"):
        refused = project.run(command, "--container", locked.id)
        assert refused.code == 8
        assert "its root is read-only" in refused.err
    assert project.run("status", "--container", locked.id).code == 0
    assert project.run("apply", "--container", locked.id, "--dry-run").code == 0


def test_no_engine_and_no_permission(project: Project, running: Container, tmp_path: Path) -> None:
    gone = {**os.environ, "DOCKER_HOST": f"unix://{tmp_path}/none.sock"}
    refused = project.run("apply", "--container", running.id, "--json", env=gone)
    assert (refused.code, refused.json["errors"][0]["code"]) == (6, "unreachable")
    closed = {**os.environ, "DOCKER_HOST": "tcp://127.0.0.1:9"}
    assert project.run("apply", "--container", running.id, env=closed).code == 6
    if os.geteuid() != 0:
        pytest.skip("needs root to become somebody else")
    code = (
        "import os, sys; from patchkit.io import engine; from patchkit.core.errors import PatchkitError\n"
        f"os.setgroups([]); os.setuid({pwd.getpwnam('nobody').pw_uid})\n"
        "try:\n    engine.connect().__enter__()\nexcept PatchkitError as e:\n    print(e); sys.exit(e.exit_code)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (8, "")
    assert "no permission" in done.stdout


def test_two_clients(project: Project, running: Container) -> None:
    first = subprocess.Popen(project.words("apply", "--container", running.id), stdout=subprocess.DEVNULL)
    codes = [project.run("apply", "--container", running.id).code for _ in range(3)]
    assert first.wait() in {0, 7}
    assert set(codes) <= {0, 7}
    assert project.run("verify", "--container", running.id).code == 0


@pytest.mark.parametrize(
    ("who", "count"),
    [
        ("client", 20),
        ("container", 5),
        ("^C", 12),
        pytest.param("client", 200, marks=pytest.mark.kills),
        pytest.param("container", 60, marks=pytest.mark.kills),
    ],
)
def test_killed_at_any_time(who: str, count: int, project: Project, running: Container) -> None:
    there = ("--container", running.id)
    before = without_ledger(tree(running))
    begun = time.monotonic()
    assert project.run("apply", *there).code == 0
    whole = time.monotonic() - begun
    after = without_ledger(tree(running))
    assert project.run("revert", *there).code == 0
    for number in range(count):
        command = ("apply", "revert")[number % 2]
        client = subprocess.Popen(project.words(command, *there), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(whole * (0.4 + 0.6 * (number // 2) / max(count // 2 - 1, 1)))
        if who == "client":
            client.send_signal(signal.SIGKILL)
        elif who == "^C":
            client.send_signal(signal.SIGINT)
            assert client.wait(60) in {0, 130, -2}
            assert project.run("verify", *there).code != 7, "nothing of it goes on inside"
        else:
            running.kill()
            running.start()
        assert client.wait(60) in {0, 6, 8, 130, -2, -9}
        seen = project.in_turn("verify", *there, "--json").json
        now = without_ledger(tree(running))
        if seen["outcome"] == "clean":
            assert now == after
        assert project.run(command, *there).code == 0
        expected = after if command == "apply" else before
        found = without_ledger(tree(running))
        assert {p: s for p, s in found.items() if "__pycache__" not in p} == {
            p: s for p, s in expected.items() if "__pycache__" not in p
        }
