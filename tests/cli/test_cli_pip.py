"""`pip` steps by the real command line: a virtual environment made here is the machine, with wheels and an index made here."""

from __future__ import annotations

import base64
import fcntl
import hashlib
import io
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
import zipfile
from dataclasses import replace
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

import pytest

from patchkit.core import pips
from patchkit.core.holding import read_ledger
from patchkit.core.site import Site
from patchkit.core.transaction import Transaction

from .conftest import COMMIT, Workbench, lines, unified

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SITE = f"lib/python{sys.version_info[0]}.{sys.version_info[1]}/site-packages"


def make_wheel(name: str, version: str, *needs: str, code: str = "") -> tuple[str, bytes]:
    """A wheel with one module that holds its version."""
    info = f"{name}-{version}.dist-info"
    files = {
        f"{name}.py": f"VERSION = {version!r}\n{code}",
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
        + "".join(f"Requires-Dist: {need}\n" for need in needs),
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: a test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    rows = []
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for path, text in files.items():
            archive.writestr(zipfile.ZipInfo(path), text)
            digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()
            rows.append(f"{path},sha256={digest},{len(text)}\n")
        archive.writestr(zipfile.ZipInfo(f"{info}/RECORD"), "".join([*rows, f"{info}/RECORD,,\n"]))
    return f"{name}-{version}-py3-none-any.whl", buffer.getvalue()


class Index:
    """A package index on loopback."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        handler = partial(_Quiet, directory=str(folder))
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/simple"
        threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()

    def add(self, name: str, version: str, *needs: str, sha256: str = "", code: str = "") -> str:
        file, data = make_wheel(name, version, *needs, code=code)
        digest = sha256 or hashlib.sha256(data).hexdigest()
        (self.folder / "files").mkdir(exist_ok=True)
        (self.folder / "files" / file).write_bytes(data)
        page = self.folder / "simple" / name / "index.html"
        page.parent.mkdir(parents=True, exist_ok=True)
        old = page.read_text() if page.exists() else "<!DOCTYPE html>"
        page.write_text(f'{old}<a href="/files/{file}#sha256={digest}">{file}</a>\n')
        return digest

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture(scope="module")
def venv(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("machine") / "venv"
    subprocess.run([sys.executable, "-m", "venv", str(path)], check=True, capture_output=True)
    return path


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Index]:
    running = Index(tmp_path)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    for name in ("PIP_EXTRA_INDEX_URL", "PIP_NO_INDEX", "PIP_FIND_LINKS", "PIP_CERT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PIP_INDEX_URL", running.url)
    for version in ("1.0", "2.0"):
        running.add("kern", version)
    yield running
    running.close()


class Machine:
    """The bench with a virtual environment as its root; `run` works on this very machine, `/`."""

    def __init__(self, bench: Workbench, venv: Path) -> None:
        self.bench = bench
        self.root = bench.project.parent / "venv"
        shutil.copytree(venv, self.root, symlinks=True)
        self.site = self.root / SITE
        (self.site / "demo").mkdir()
        (self.site / "demo/_version.py").write_text(f"__commit_id__ = commit_id = 'g{COMMIT[:9]}'\n")
        (self.site / "demo/a.py").write_text(lines("a", 30))
        bench.image(site=SITE)

    def pip(self, *words: str) -> None:
        python = self.root / "bin" / "python"
        subprocess.run([python, "-m", "pip", "-q", "install", *words], check=True, capture_output=True)

    def patch(self, step: str, path: str, before: str, old: str, new: str) -> dict[str, Any]:
        self.bench.patch(f"{step}.patch", unified(path, before, before.replace(old, new)))
        return {"id": step, "patch": f"{step}.patch", "reason": "a test"}

    def stack(self, *steps: dict[str, Any], version: int = 1, more: tuple[str, ...] = ()) -> str:
        self.bench.stack(list(steps), version)
        result = self.bench.run("lock", "--image", "demo", "--from", str(self.root), *more)
        assert result.code == 0, result.err
        return result.out

    def where(self) -> tuple[str, ...]:
        return ("--image", "demo", "--root", "/", "--site", str(self.site))

    def run(self, command: str, *more: str) -> Any:
        return self.bench.run(command, *self.where(), *more)

    def version(self, name: str) -> str | None:
        python = str(self.root / "bin" / f"python{SITE[10:].partition('/')[0]}")
        ended = subprocess.run(
            [python, "-c", f"import {name}; print({name}.VERSION)"], capture_output=True, check=False
        )
        return ended.stdout.decode().strip() or None

    def first(self) -> dict[str, Any]:
        return self.patch("first", "demo/a.py", (self.site / "demo/a.py").read_text(), "a_15 = 15\n", "a_15 = 0\n")


@pytest.fixture
def machine(bench: Workbench, venv: Path, index: Index) -> Machine:
    return Machine(bench, venv)


def pip_step(*requirements: str, **more: Any) -> dict[str, Any]:
    return {"id": "kern", "pip": {"requirements": list(requirements), **more}, "reason": "a test"}


def test_it_replaces_a_version_and_takes_it_back(machine: Machine) -> None:
    machine.pip("kern==1.0")
    last = machine.patch("last", "kern.py", "VERSION = '2.0'\n", "'2.0'", "'2.0 patched'")
    assert "note: step last: not tried" in machine.stack(machine.first(), pip_step("kern==2.0"), last)
    planned = machine.run("apply", "--dry-run", "--json").json
    assert [step["verdict"] for step in planned["steps"]] == ["applies", "applies", "deferred"]
    assert planned["steps"][1]["detail"] == "would install kern 1.0 -> 2.0 from the index that pip is set to"
    assert machine.version("kern") == "1.0"
    result = machine.run("apply", "--json").json
    assert [step["verdict"] for step in result["steps"]] == ["applies", "applies", "applies"], result["errors"]
    assert result["steps"][1]["detail"] == "installed kern 1.0 -> 2.0"
    assert machine.version("kern") == "2.0 patched"
    assert machine.run("apply", "--json").json["outcome"] == "unchanged"
    assert machine.run("verify").code == 0
    assert machine.run("revert").code == 0
    assert machine.version("kern") == "1.0"
    assert not (machine.site / ".patchkit").exists()


def test_what_is_installed_decides(machine: Machine) -> None:
    machine.pip("kern==2.0")
    machine.stack(pip_step("kern==2.0"))
    assert machine.run("apply", "--json").json["steps"][0]["verdict"] == "upstream"
    machine.pip("kern==1.0")
    result = machine.run("verify")
    assert (result.code, result.err) == (
        4,
        "error: step kern (pip): kern is 1.0, not 2.0\nhint: carry it out again: patchkit apply --image demo\n",
    )
    assert machine.run("apply").code == 0
    assert machine.version("kern") == "2.0"
    assert machine.run("revert").code == 0
    assert machine.version("kern") == "1.0"


def test_a_replaced_package_comes_back_without_its_index(machine: Machine, index: Index) -> None:
    """Its very bytes, edits by hand included: it is kept, packed, beside the ledger until it is back."""
    machine.pip("kern==1.0")
    (machine.site / "kern.py").write_text("VERSION = '1.0 by hand'\n")
    machine.stack(pip_step("kern==2.0", hashes="first-use"))
    assert machine.run("apply").code == 0
    assert [p.name for p in (machine.site / ".patchkit/packages").iterdir()] == ["kern-1.0-py3-none-any.whl"]
    index.add("kern", "3.0")
    bad = {"id": "bad", "run": {"argv": ["false"]}, "reason": "a test"}
    machine.stack(pip_step("kern==3.0", hashes="first-use"), bad, version=2)
    assert "error: rolled back: step kern (pip)\n" in machine.run("apply").err
    assert machine.version("kern") == "2.0"
    index.close()
    assert [p.name for p in (machine.site / ".patchkit/packages").iterdir()] == ["kern-1.0-py3-none-any.whl"]
    assert machine.run("revert").code == 0
    assert machine.version("kern") == "1.0 by hand"
    assert not (machine.site / ".patchkit").exists()


def test_an_absent_package_is_uninstalled_again(machine: Machine) -> None:
    step = pip_step(hashes="first-use")
    step["pip"]["requirements"] = [{"name": "kern", "version": "2.0"}]
    machine.stack(step)
    assert machine.run("apply").code == 0
    assert machine.version("kern") == "2.0"
    assert (
        f'"{hashlib.sha256(make_wheel("kern", "2.0")[1]).hexdigest()}"'
        in (machine.site / ".patchkit/ledger.json").read_text()
    )
    assert machine.run("revert").code == 0
    assert machine.version("kern") is None


def test_other_packages_must_not_move(machine: Machine, index: Index) -> None:
    index.add("dep", "1.0")
    index.add("dep", "2.0")
    index.add("wants", "1.0", "dep>=2", "new")
    index.add("new", "5")
    machine.pip("dep==1.0")
    machine.stack(machine.first(), pip_step("wants==1.0"))
    result = machine.run("apply")
    assert result.code == 8
    assert result.err == (
        "error: step kern (pip): it would move packages that it does not name: dep 1.0 -> 2.0, new (not there) -> 5\n"
        "hint: name them in `requirements`, pinned; or take a version that goes with what is installed\n"
    )
    assert not (machine.site / ".patchkit").exists()
    machine.stack(machine.first(), pip_step("wants==1.0", "dep==2.0", "new==5"), version=2)
    assert machine.run("apply").code == 0
    assert (machine.version("dep"), machine.version("wants"), machine.version("new")) == ("2.0", "1.0", "5")
    assert machine.run("revert").code == 0
    assert (machine.version("dep"), machine.version("wants"), machine.version("new")) == ("1.0", None, None)


def test_a_wheel_with_a_wrong_hash(machine: Machine, index: Index) -> None:
    digest = index.add("liar", "1.0", sha256="0" * 64)
    machine.stack(machine.first(), pip_step("liar==1.0"))
    result = machine.run("apply")
    assert result.code == 8
    assert "step kern (pip): pip install failed: exit status 1\n" in result.err
    assert f"Expected sha256 {digest}" in result.err
    assert machine.version("liar") is None
    assert not (machine.site / ".patchkit").exists()


def test_an_index_that_was_changed_since(machine: Machine, index: Index) -> None:
    machine.stack(machine.first(), pip_step("kern==2.0"))
    locked = hashlib.sha256(make_wheel("kern", "2.0")[1]).hexdigest()
    (index.folder / "simple/kern/index.html").unlink()
    other = index.add("kern", "2.0", code="EVIL = 1\n")
    result = machine.run("apply")
    assert result.code == 8
    assert f"step kern (pip): kern 2.0: expected sha256 {locked}, the index has {other}" in result.err
    assert not (machine.site / ".patchkit").exists()


def test_an_index_that_is_down(machine: Machine, index: Index) -> None:
    machine.stack(machine.first(), pip_step("kern==2.0"))
    index.close()
    result = machine.run("apply")
    assert result.code == 6
    assert "step kern (pip): pip install failed: exit status 1" in result.err
    assert not (machine.site / ".patchkit").exists()


def test_without_an_index_lock_says_what_is_missing(machine: Machine, index: Index) -> None:
    machine.bench.stack([pip_step("kern==3.0")])
    result = machine.bench.run("lock", "--image", "demo", "--from", str(machine.root))
    assert "step kern stays unresolved: the hashes of kern==3.0 is not known" in result.out


def test_vendored_wheels_are_all_that_is_needed(machine: Machine, index: Index, tmp_path: Path) -> None:
    machine.stack(machine.first(), pip_step("kern==2.0"), more=("--vendor",))
    assert (machine.bench.project / "patches/demo/vendor/kern-2.0-py3-none-any.whl").exists()
    assert machine.bench.run("bundle", "--image", "demo", "-o", str(tmp_path / "b.pyz")).code == 0
    index.close()
    python = str(machine.root / "bin/python")
    words = [python, "-I", "-S", str(tmp_path / "b.pyz")]
    for command, code in (("apply", 0), ("apply", 0), ("verify", 0), ("revert", 0)):
        done = subprocess.run(
            [*words, command, "--root", "/", "--site", str(machine.site)], capture_output=True, check=False, env={}
        )
        assert (done.returncode, done.stderr) == (code, b"")
        assert machine.version("kern") == (None if command == "revert" else "2.0")


def test_without_pip(machine: Machine) -> None:
    machine.stack(machine.first(), pip_step("kern==2.0"))
    shutil.rmtree(machine.site / "pip")
    result = machine.run("apply")
    assert result.code == 8
    python = machine.root / "bin" / f"python{sys.version_info[0]}.{sys.version_info[1]}"
    assert result.err == (
        f"error: step kern (pip): {python} has no pip\nhint: apply it where that Python has pip, or install it there\n"
    )


def test_a_failure_after_it_takes_it_back(machine: Machine) -> None:
    machine.pip("kern==1.0")
    bad = {"id": "bad", "run": {"argv": ["false"]}, "reason": "a test"}
    machine.stack(machine.first(), pip_step("kern==2.0"), bad)
    result = machine.run("apply")
    assert result.code == 8
    assert result.err == (
        "error: step bad (run): `false` failed: exit status 1\n"
        "error: rolled back: every file of the stack is as it was before this run\n"
        "error: step bad (run): what its command did is not undone: the step names no `revert`\n"
        "error: rolled back: step kern (pip)\n"
        "hint: see its output above; correct the step or the machine, then run the same command again\n"
    )
    assert machine.version("kern") == "1.0"
    assert not (machine.site / ".patchkit").exists()


def test_killed_between_its_parts_the_next_run_goes_on(machine: Machine) -> None:
    wait = {"argv": ["/bin/sh", "-c", "touch here; sleep 1; touch made"], "creates": "made", "revert": ["rm", "made"]}
    machine.pip("kern==1.0")
    machine.stack(machine.first(), pip_step("kern==2.0"), {"id": "wait", "run": wait, "reason": "a test"})
    words = [sys.executable, "-m", "patchkit", "apply", *machine.where(), "-C", str(machine.bench.project)]
    with subprocess.Popen(words, stdout=subprocess.DEVNULL) as process:
        while not (machine.site / "here").exists():
            assert process.poll() is None
            time.sleep(0.02)
        process.send_signal(signal.SIGKILL)
    assert machine.version("kern") == "2.0"
    assert machine.run("apply").code == 7, "its command still runs"
    handle = os.open(machine.site, os.O_RDONLY)
    fcntl.flock(handle, fcntl.LOCK_EX)  # the command holds the target until it ends
    os.close(handle)
    assert machine.run("verify").code == 4
    assert machine.run("apply").code == 0
    assert machine.run("verify").code == 0
    assert machine.run("revert").code == 0
    assert machine.version("kern") == "1.0"


def test_an_upgrade_remembers_what_was_first(machine: Machine, index: Index) -> None:
    index.add("kern", "3.0")
    machine.pip("kern==1.0")
    machine.stack(pip_step("kern==2.0"))
    assert machine.run("apply").code == 0
    machine.stack(pip_step("kern==3.0"), version=2)
    assert machine.run("apply", "--json").json["outcome"] == "upgraded"
    assert machine.version("kern") == "3.0"
    assert machine.run("revert").code == 0
    assert machine.version("kern") == "1.0"


@pytest.mark.parametrize(
    ("wanted", "found", "same"),
    [
        ("3.7.0", "3.7.0", True),
        ("3.7", "3.7.0", True),
        ("3.7.0", "3.7.0+rocm7.2", True),
        ("3.7.0+rocm7.2", "3.7.0", False),
        ("0.5.5rc3+rocm7.2", "0.5.5rc3+rocm7.2", True),
        ("0.5.5-rc.3", "0.5.5rc3", True),
        ("1.0", "1.1", False),
        ("1.0", None, False),
    ],
)
def test_versions(wanted: str, found: str | None, same: bool) -> None:
    assert pips.same_version(wanted, found) is same


@pytest.mark.parametrize("then", ["apply", "revert"])
def test_an_installation_that_was_torn_is_made_anew(machine: Machine, then: str) -> None:
    """As after a kill inside pip: the old version is gone, the new one is not whole, the ledger says `begun`."""
    machine.pip("kern==1.0")
    machine.stack(machine.first(), pip_step("kern==2.0"))
    assert machine.run("apply").code == 0
    with Site(str(machine.site)) as site:
        ledger = read_ledger(site)
        assert ledger is not None
        first, step = ledger.steps
        begun = replace(step, effect={**(step.effect or {}), "state": "begun"})
        Transaction(site).commit([], ledger, replace(ledger, steps=(first, begun), complete=False), "as if killed")
    (machine.site / "kern-2.0.dist-info/RECORD").unlink()
    (machine.site / "kern.py").unlink()
    result = machine.run("verify")
    assert (result.code, result.err) == (
        4,
        (
            f"error: {machine.site}: an earlier run ended before its last step\n"
            "hint: patchkit apply --image demo goes on with it, revert takes it off\n"
        ),
    )
    if then == "apply":
        assert machine.run("apply").code == 0
        assert machine.version("kern") == "2.0"
        assert machine.run("verify").code == 0
    assert machine.run("revert").code == 0
    assert machine.version("kern") == "1.0"
