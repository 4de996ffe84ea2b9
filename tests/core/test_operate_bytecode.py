"""Stale byte-code: what a real interpreter runs, before, patched and reverted."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from patchkit.core import files
from patchkit.core.site import Site
from tests.core.stacks import apply, build, diff, revert, snapshot, write_tree

if TYPE_CHECKING:
    from pathlib import Path

OLD, NEW = "VALUE = 'old'\n", "VALUE = 'new'\n"
WHEN = 1_700_000_000


def run(site: Path, *options: str) -> str:
    """What the module says when it is really imported; leaves byte-code as any run does."""
    code = "import sys; sys.path.insert(0, sys.argv[1]); import pkg.mod; print(pkg.mod.VALUE)"
    env = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}
    done = subprocess.run(
        [sys.executable, *options, "-c", code, site], capture_output=True, text=True, check=True, env=env
    )
    return done.stdout.strip()


def freeze(site: Path) -> None:
    """The trap: the size is the same anyway, and now the mtime is, too."""
    os.utime(site / "pkg/mod.py", (WHEN, WHEN))


@pytest.mark.parametrize("options", [(), ("-O",), ("-OO",)], ids=["plain", "-O", "-OO"])
def test_the_new_code_runs_and_then_the_old_again(options: tuple[str, ...], tmp_path: Path) -> None:
    assert len(OLD) == len(NEW)
    site = write_tree(tmp_path / "site", {"pkg/mod.py": OLD, "pkg/__init__.py": "", "pkg/other.py": ""})
    freeze(site)
    assert run(site, *options) == "old"
    cache = site / "pkg/__pycache__"
    assert [p for p in cache.iterdir() if p.name.startswith("mod.")]
    foreign = [
        cache / f"mod.{tag}.pyc" for tag in ("cpython-39", "cpython-312.opt-2", "pypy310", "cpython-311-pytest-8.3")
    ]
    kept = [cache / "other.cpython-39.pyc", cache / "mod2.cpython-39.pyc", cache / "notes.txt"]
    for file in (*foreign, *kept):
        file.write_bytes(b"x")
    stack = build({"pkg/mod.py": OLD}, {"s": diff({"pkg/mod.py": OLD}, {"pkg/mod.py": NEW})})
    apply(stack, site)
    assert [p for p in cache.iterdir() if p.name.startswith("mod.")] == []
    assert all(p.exists() for p in kept)
    freeze(site)
    assert run(site, *options) == "new"
    for file in foreign:
        file.write_bytes(b"x")
    revert(site)
    assert [p for p in cache.iterdir() if p.name.startswith("mod.")] == []
    freeze(site)
    assert run(site, *options) == "old"


def test_without_the_removal_the_old_code_runs(tmp_path: Path) -> None:
    """The trap is real: the test above would fail if nothing were removed."""
    site = write_tree(tmp_path / "site", {"pkg/mod.py": OLD, "pkg/__init__.py": ""})
    freeze(site)
    assert run(site) == "old"
    (site / "pkg/mod.py").write_text(NEW)
    freeze(site)
    assert run(site) == "old"
    with Site(str(site)) as opened:
        files.remove_bytecode(opened, "pkg/mod.py")
    assert run(site) == "new"


def test_a_deleted_module_is_gone_for_the_interpreter(tmp_path: Path) -> None:
    tree = {"pkg/mod.py": OLD, "pkg/__init__.py": ""}
    site = write_tree(tmp_path / "site", tree)
    before = snapshot(site)
    assert run(site) == "old"
    apply(build(tree, {"s": diff(tree, {"pkg/__init__.py": ""})}), site)
    with pytest.raises(subprocess.CalledProcessError) as caught:
        run(site)
    assert "No module named 'pkg.mod'" in caught.value.stderr
    revert(site)
    assert run(site) == "old"
    with Site(str(site)) as opened:
        files.remove_bytecode(opened, "pkg/mod.py")
        files.remove_bytecode(opened, "pkg/__init__.py")
    assert snapshot(site) == before


def test_an_added_package_leaves_nothing(tmp_path: Path) -> None:
    """Byte-code that was made in a directory of the stack's own goes with it."""
    site = write_tree(tmp_path / "site", {"keep": "k"})
    before = snapshot(site)
    apply(build({}, {"s": diff({}, {"pkg/mod.py": NEW, "pkg/__init__.py": ""})}), site)
    assert run(site) == "new"
    assert (site / "pkg/__pycache__").exists()
    revert(site)
    assert snapshot(site) == before
