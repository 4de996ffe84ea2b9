"""`pip` steps by the real command line: a virtual environment made here is the machine, with wheels and an index made here."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from patchkit.core import packages
from patchkit.core.holding import read_ledger
from patchkit.core.site import Site
from patchkit.core.transaction import Transaction

from .machines import Index, Machine, make_wheel, pip_step

if TYPE_CHECKING:
    from pathlib import Path


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
        f"error: step kern (pip): kern is 1.0, not 2.0\nhint: carry it out again: {machine.typed('apply')}\n",
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
        "hint: name them in `requirements`, pinned; or let them move with it: `may_move: [dep, new]`;"
        " or take a version that goes with what is installed\n"
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
    assert "step kern stays unresolved: the hashes of kern==3.0 are not known" in result.out


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
    (log,) = machine.bench.project.parent.glob("patchkit-*.log")
    assert result.err == (
        "error: step bad (run): `false` failed: exit status 1\n"
        "error: rolled back: every file of the stack is as it was before this run\n"
        "error: step bad (run): what its command did is not undone: the step names no `revert`\n"
        "error: rolled back: step kern (pip)\n"
        f"error: what the commands printed is kept in {log}\n"
        "hint: correct the step or the machine, then run the same command again\n"
    )
    assert "kern: installed kern 1.0 -> 2.0\n" in log.read_text()
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


@pytest.mark.parametrize("form", ["folder", "file"])
def test_what_says_so_in_an_egg_info(machine: Machine, form: str) -> None:
    """As setuptools and Debian did it: it counts as installed, and its version comes back."""
    info, text = machine.site / "kern-1.0.egg-info", "Metadata-Version: 1.0\nName: kern\nVersion: 1.0\n"
    (machine.site / "kern.py").write_text("VERSION = '1.0'\n")
    if form == "folder":
        info.mkdir()
        (info / "PKG-INFO").write_text(text)
        (info / "top_level.txt").write_text("kern\n")
        (info / "SOURCES.txt").write_text("")
        (info / "installed-files.txt").write_text("../kern.py\nPKG-INFO\ntop_level.txt\nSOURCES.txt\n")
    else:
        info.write_text(text)
    machine.stack(pip_step("kern==1.0"))
    assert machine.run("apply", "--json").json["steps"][0]["verdict"] == "upstream"
    assert machine.run("revert").code == 0
    assert info.exists()
    machine.stack(pip_step("kern==2.0"), version=2)
    result = machine.run("apply")
    if form == "file":  # pip cannot take such a one off
        assert result.code == 8
        assert "distutils installed project" in result.err
        assert (machine.version("kern"), info.exists()) == ("1.0", True)
        return
    assert (result.code, machine.version("kern")) == (0, "2.0"), result.err
    assert machine.run("revert").code == 0
    assert machine.version("kern") == "1.0"


def test_one_behind_another_comes_forth_again(machine: Machine, index: Index, tmp_path: Path) -> None:
    """What pip does not replace, since it is in a folder further down the path, needs no index to come back."""
    behind = tmp_path / "behind"
    (behind / "kern-1.0.egg-info").mkdir(parents=True)
    (behind / "kern-1.0.egg-info/PKG-INFO").write_text("Metadata-Version: 1.0\nName: kern\nVersion: 1.0\n")
    (behind / "kern.py").write_text("VERSION = '1.0'\n")
    (machine.site / "behind.pth").write_text(f"{behind}\n")
    machine.stack(pip_step("kern==2.0"))
    assert machine.version("kern") == "1.0"
    assert machine.run("apply").code == 0
    assert machine.version("kern") == "2.0"
    index.close()
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
    assert packages.same_version(wanted, found) is same


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
            f"hint: {machine.typed('apply')} goes on with it, revert takes it off\n"
        ),
    )
    if then == "apply":
        assert machine.run("apply").code == 0
        assert machine.version("kern") == "2.0"
        assert machine.run("verify").code == 0
    assert machine.run("revert").code == 0
    assert machine.version("kern") == "1.0"
