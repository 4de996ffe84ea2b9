"""The bundle: reproducible, nothing but core, lock and inputs, and the very results of the full tool."""

from __future__ import annotations

import glob
import json
import os
import shutil
import subprocess
import sys
import zipfile
from typing import TYPE_CHECKING

import pytest

from .conftest import SCHEMA, Workbench, contents

if TYPE_CHECKING:
    from pathlib import Path

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
        expected = json.loads(full.out.replace(str(five.root), str(other)))
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
