"""The bundle: reproducible, nothing but core, lock and inputs, and the very results of the full tool."""

from __future__ import annotations

import compileall
import glob
import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
from importlib.util import MAGIC_NUMBER
from typing import TYPE_CHECKING

import pytest

import patchkit.core.bundle
from patchkit.app import project as projects
from patchkit.app.bundle import make_bundle

from .conftest import SCHEMA, Workbench, contents

if TYPE_CHECKING:
    from pathlib import Path

#: All of core that a bundle loads to find that everything is applied already. It is compiled anew at each start:
#: whoever lets this grow makes every start slower (`make bench` tells by how much).
LIGHT = {
    *("bundle", "canonical", "errors", "holding", "identity", "ledger", "lockfile", "operate", "options", "paths"),
    *("program", "report", "roots", "selection", "site", "tree", "values", "verdicts"),
}
#: What takes as long to load as all of that.
HEAVY = {"dataclasses", "inspect", "typing", "tempfile", "subprocess", "shutil", "zipfile", "pathlib", "logging"}
WHERE_FROM = """
import sys
from importlib.util import MAGIC_NUMBER
sys.path.insert(0, sys.argv[1])
from patchkit.core import operate
print(MAGIC_NUMBER.hex(), operate.apply.__code__.co_filename)
"""
RUN_AND_TELL = """
import sys
sys.path.insert(0, sys.argv[1])
from patchkit.core.bundle import main, reader
code = main(sys.argv[2:], reader())
print(code, *sorted(sys.modules), file=sys.stderr)
"""

#: Every Python from 3.10 on that is at hand: this one, the system's, and those beside it.
PYTHONS = sorted(
    {os.path.realpath(path) for path in (sys.executable, *(f"/usr/bin/python3.{n}" for n in range(10, 15)))}
    | {
        os.path.realpath(path)
        for n in range(10, 14)
        for path in glob.glob(f"/root/.pyenv/versions/3.{n}.*/bin/python3")
    }
)
PYTHONS = [path for path in PYTHONS if os.path.exists(path)]


def bundle(bench: Workbench, name: str = "k3.pyz") -> Path:
    path = bench.project.parent / name
    result = bench.run("bundle", "--image", "demo", "-o", str(path))
    assert result.code == 0, result.err
    return path


def run(path: Path, *words: str, python: str = sys.executable) -> subprocess.CompletedProcess[bytes]:
    # isolated: no installed patchkit, no site-packages, an empty environment
    return subprocess.run([python, "-I", "-S", str(path), *words], capture_output=True, check=False, env={}, cwd="/")


def test_the_same_input_gives_the_same_bytes(five: Workbench) -> None:
    first = bundle(five).read_bytes()
    os.utime(five.project / "patches/demo/a.patch")
    assert bundle(five, "again.pyz").read_bytes() == first
    with zipfile.ZipFile(five.project.parent / "k3.pyz") as archive:
        names = archive.namelist()
    assert names == sorted(names)
    others = [n for n in names if not n.startswith(("patchkit/core/", "inputs/"))]
    assert others == ["__main__.py", "patchkit/__init__.py", "stack.lock.json"]
    assert len([n for n in names if n.startswith("inputs/")]) == 5


@pytest.mark.parametrize("python", PYTHONS)
def test_it_does_what_the_full_tool_does(five: Workbench, tmp_path: Path, python: str) -> None:
    path = bundle(five)
    other = tmp_path / "other"
    shutil.copytree(five.root, other, symlinks=True)
    for command in ("status", "diff", "verify", "apply", "apply", "verify", "status", "diff", "revert", "revert"):
        mine = run(path, command, "--root", str(other), "--json", python=python)
        only = ["--on-disk"] if command == "status" else []  # what is upstream, a bundle does not know
        full = five.run(command, *only, "--image", "demo", "--root", str(five.root), "--json")
        document = json.loads(mine.stdout)
        SCHEMA.validate(document)
        told = re.sub(r"patchkit (\w+)((?: --force)?) --image demo", rf"python3 {path} \1\2", full.out)
        told = told.replace(f" -C {five.project}", "").replace(str(five.root), str(other))
        expected = json.loads(told)
        assert (mine.returncode, document) == (full.code, expected), command
        assert mine.stderr == b""
        assert {p: c for p, c in contents(other).items() if "/log" not in p} == {
            p: c for p, c in contents(five.root).items() if "/log" not in p
        }


def test_refusals_are_the_same(five: Workbench) -> None:
    path = bundle(five)
    (five.site / "demo/_version.py").write_text("commit_id = None\n")
    for words in (("apply",), ("apply", "--only", "zzz"), ("frobnicate",), ("apply", "--nonsense"), ("diff",)):
        mine = run(path, *words, "--root", str(five.root))
        full = five.run(*words, "--image", "demo", "--root", str(five.root))
        assert mine.returncode == full.code, words
        assert b"Traceback" not in mine.stderr
        assert b"error: " in mine.stderr
    default = run(path, "verify")
    assert default.returncode in {2, 4}, "the machine's own / has no such site, or is another image"
    assert default.stderr.startswith(
        (b"error: /: it holds no site directory", b"error: /usr/lib/python3/dist-packages: ")
    )


@pytest.mark.parametrize("command", ["apply", "verify", "revert", "diff", "status"])
def test_an_empty_root_is_none(five: Workbench, command: str) -> None:
    """`--root "$ROOT"` with an empty variable must not work on `/`."""
    refused = run(bundle(five), command, "--root", "")
    assert refused.returncode == 2
    assert refused.stderr.startswith(b"error: --root : no such directory\n")


def test_a_damaged_bundle_says_so(five: Workbench) -> None:
    path = bundle(five)
    five.run("apply", "--image", "demo", "--root", str(five.root))
    broken = path.with_name("broken.pyz")
    with zipfile.ZipFile(path) as source, zipfile.ZipFile(broken, "w") as target:
        for name in source.namelist():
            data = source.read(name)
            target.writestr(name, data.replace(b'"version": 1', b'"version": 9') if name == "stack.lock.json" else data)
    result = run(broken, "apply", "--root", str(five.root))
    assert result.returncode == 2
    assert b"stack.lock.json in the bundle: it was changed by hand" in result.stderr


def test_help_names_the_stack(five: Workbench) -> None:
    path = bundle(five)
    shown = run(path, "--help").stdout.decode()
    assert shown.startswith("A patchkit bundle: the stack of demo, version 1, lock sha256:")
    assert run(path, "apply", "--help").returncode == 0


def test_a_stale_lock_makes_no_bundle(five: Workbench) -> None:
    five.patch("a.patch", "changed")
    result = five.run("bundle", "--image", "demo", "-o", str(five.project.parent / "x.pyz"))
    assert result.code == 2
    assert not (five.project.parent / "x.pyz").exists()


@pytest.mark.parametrize("python", PYTHONS)
def test_what_finds_everything_applied_is_light(five: Workbench, python: str) -> None:
    path = bundle(five)
    words = ["apply", "--root", str(five.root)]
    assert run(path, *words, python=python).returncode == 0
    told = subprocess.run(
        [python, "-I", "-S", "-c", RUN_AND_TELL, str(path), *words], capture_output=True, check=True, text=True
    )
    assert "already applied, nothing to do" in told.stdout
    code, *loaded = told.stderr.split()
    assert code == "0"
    assert {name.rpartition(".")[2] for name in loaded if name.startswith("patchkit.core.")} == LIGHT
    assert not HEAVY.intersection(loaded)


@pytest.mark.parametrize("python", PYTHONS)
def test_byte_code_that_goes_along_is_for_one_version(five: Workbench, tmp_path: Path, python: str) -> None:
    core = os.path.dirname(patchkit.core.bundle.__file__)
    assert compileall.compile_dir(core, quiet=1)
    project = projects.find(str(five.project))
    path = tmp_path / "once.pyz"
    path.write_bytes(make_bundle(project, project.lock("demo"), compiled=True))
    with zipfile.ZipFile(path) as archive:
        names = [name for name in archive.namelist() if name.startswith("patchkit/core/")]
    assert {name for name in names if name.endswith(".pyc")} == {f"{name}c" for name in names if name.endswith(".py")}
    for words in (("apply",), ("apply",), ("verify",), ("revert",)):
        done = run(path, *words, "--root", str(five.root), python=python)
        assert (done.returncode, done.stderr) == (0, b""), words
    told = subprocess.run([python, "-I", "-S", "-c", WHERE_FROM, str(path)], capture_output=True, check=True, text=True)
    magic, file = told.stdout.split(maxsplit=1)
    assert file.startswith(str(path)) == (magic != MAGIC_NUMBER.hex())


def test_byte_code_that_does_not_fit_its_source_stays_behind(five: Workbench, monkeypatch: pytest.MonkeyPatch) -> None:
    project = projects.find(str(five.project))
    monkeypatch.setattr("sys.pycache_prefix", str(five.project / "nowhere"))
    lock = project.lock("demo")
    assert make_bundle(project, lock, compiled=True) == make_bundle(project, lock)


def test_what_was_written(five: Workbench) -> None:
    path = five.project.parent / "k3.pyz"
    done = five.run("bundle", "--image", "demo", "-o", str(path))
    assert done.out.startswith("bundle demo: written, stack version 1, lock sha256:")
    assert f"\n  file: {path}\n" in done.out
    assert f"note: {path.stat().st_size} bytes, sha256 " in done.out
    assert path.stat().st_mode & 0o777 == 0o755


@pytest.mark.parametrize(
    ("where", "reason", "hint"),
    [
        ("no/such/k3.pyz", "No such file or directory", "make the directory first"),
        ("file/k3.pyz", "Not a directory", "name another file"),
        ("folder", "Is a directory", "name another file"),
        ("full/k3.pyz", "No space left on device", "free some space"),
        ("closed/k3.pyz", "Permission denied", "name a file in a directory that you may write to"),
        ("sealed/k3.pyz", "Read-only file system", "name another file"),
    ],
)
def test_where_it_cannot_be_written(five: Workbench, tmp_path: Path, where: str, reason: str, hint: str) -> None:
    """Exit 8 with the path, the reason and what to do; what was there stays, and nothing else comes."""
    place = tmp_path / "place"
    (place / "folder").mkdir(parents=True)
    (place / "file").write_text("")
    (place / "closed").mkdir(mode=0o555)
    become, mounted = [], None
    if where.startswith(("full", "sealed", "closed")) and os.geteuid() != 0:
        pytest.skip("needs root")
    if where.startswith(("full", "sealed")):
        mounted = place / where.partition("/")[0]
        mounted.mkdir()
        size = "64k" if where.startswith("full") else "64k,ro"
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", mounted], check=True)
    if where.startswith("closed"):
        become = ["setpriv", "--bounding-set=-all", "--inh-caps=-all"]  # root without root's powers
    try:
        run = [*become, sys.executable, "-m", "patchkit", "bundle", "--image", "demo", "-o", str(place / where)]
        environment = {**os.environ, "PATCHKIT_CACHE": str(tmp_path / "cache")}
        refused = subprocess.run([*run, "-C", str(five.project)], capture_output=True, text=True, check=False,
                                 env=environment)  # fmt: skip
        assert (refused.returncode, refused.stdout) == (8, "")
        problem, told = refused.stderr.splitlines()
        assert problem == f"error: -o {place / where}: the bundle cannot be written there: {reason}"
        assert told.startswith(f"hint: {hint}")
        assert not list(place.rglob("*.tmp"))
        assert not list(place.rglob("k3.pyz*"))
    finally:
        if mounted is not None:
            subprocess.run(["umount", mounted], check=True)
