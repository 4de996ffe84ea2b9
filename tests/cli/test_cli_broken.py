"""Stacks that break: what is put back, what is said of it, in words and in JSON."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any

import pytest

from .conftest import contents, lines
from .machines import pip_step

if TYPE_CHECKING:
    from pathlib import Path

    from .conftest import Workbench
    from .machines import Index, Machine

AS_BEFORE = "error: rolled back: every file of the stack is as it was before this run\n"
BAD = {"id": "bad", "run": {"argv": ["false"]}, "reason": "a test"}


def patched(path: str, find: str, put: str, name: str = "early") -> dict[str, Any]:
    return {"id": name, "replace": {"path": path, "find": find, "with": put}, "reason": "a test"}


def tree(machine: Machine) -> dict[str, tuple[int, bytes]]:
    """What matters of the site: pip says who installed a package."""
    of_pip = ("/RECORD", "/INSTALLER", "/REQUESTED", "/direct_url.json", ".pyc", "/WHEEL")
    return {path: file for path, file in contents(machine.site).items() if not path.endswith(of_pip)}


def outside(files: dict[str, tuple[int, bytes]]) -> dict[str, tuple[int, bytes]]:
    """Without patchkit's own."""
    return {path: file for path, file in files.items() if not path.startswith(".patchkit/")}


def copy_of(bench: Workbench) -> Path:
    """A copy of the root, to make later locks from."""
    copy = bench.root.with_name("pristine")
    shutil.copytree(bench.root, copy, symlinks=True)
    return copy


def restack(bench: Workbench, pristine: Path, steps: list[dict[str, Any]], version: int = 2) -> None:
    bench.stack(steps, version)
    result = bench.run("lock", "--image", "demo", "--from", str(pristine))
    assert result.code == 0, result.err


@pytest.fixture
def alpha(machine: Machine, index: Index) -> Machine:
    """alpha 1.0 is there: alpha.py and old.py; 2.0 has no old.py, in 3.0 both are as the patch would make them."""
    index.add("alpha", "1.0", more={"old.py": "x=1\n", "alphadata/deep.py": "y=1\n"})
    index.add("alpha", "2.0", more={"alphadata/deep.py": "y=1\n"})
    index.add("alpha", "3.0", more={"old.py": "x=2\n", "alphadata/deep.py": "y=1\n"})
    machine.pip("alpha==1.0")
    return machine


@pytest.mark.parametrize("version", ["2.0", "3.0"])
def test_a_roll_back_puts_the_pristine_bytes_back(alpha: Machine, version: str) -> None:
    """A package takes a patched file along when it is replaced: with its roll-back the pristine one comes back."""
    before = tree(alpha)
    alpha.stack(patched("old.py", "x=1", "x=2"), pip_step(f"alpha=={version}"), BAD)
    result = alpha.run("apply")
    assert result.code == (4 if version == "2.0" else 8)
    if version == "2.0":
        assert "error: step kern (pip): it changed old.py, which step early had patched: it is gone\n" in result.err
    assert AS_BEFORE in result.err
    assert "error: rolled back: step kern (pip)\n" in result.err
    assert tree(alpha) == before


def test_a_revert_puts_the_pristine_bytes_back(alpha: Machine) -> None:
    before = tree(alpha)
    late = patched("alpha.py", "VERSION = '3.0'", "VERSION = '3.0 patched'", "late")
    alpha.stack(patched("old.py", "x=1", "x=2"), pip_step("alpha==3.0"), late)
    assert alpha.run("apply").code == 0
    assert alpha.version("alpha") == "3.0 patched"
    assert alpha.run("verify").code == 0
    assert alpha.run("revert").code == 0
    assert tree(alpha) == before


def test_an_upgrade_that_fails_comes_back_to_the_patched_bytes(alpha: Machine) -> None:
    """Of both sides of the package: patched before it came, and patched in what came."""
    alpha.bench.root = alpha.root
    pristine, copy = tree(alpha), copy_of(alpha.bench)
    early, late = patched("old.py", "x=1", "x=2"), patched("alpha.py", "'3.0'", "'3.0 patched'", "late")
    alpha.stack(early, pip_step("alpha==3.0"), late)
    assert alpha.run("apply").code == 0
    before = outside(tree(alpha))
    other = patched("alpha.py", "'2.0'", "'2.0 patched'", "late")
    for version, steps, code in (
        (2, [early, pip_step("alpha==2.0"), other], 4),
        (3, [pip_step("alpha==2.0"), other, BAD], 8),
    ):
        restack(alpha.bench, copy, steps, version)
        result = alpha.run("apply")
        assert result.code == code, result.err
        assert AS_BEFORE in result.err
        assert outside(tree(alpha)) == before
    restack(alpha.bench, copy, [early, pip_step("alpha==3.0"), late], 4)
    assert alpha.run("apply").code == 0
    assert alpha.run("verify").code == 0
    assert alpha.run("revert").code == 0
    assert tree(alpha) == pristine


OLDER = {
    "argv": ["/bin/sh", "-c", "mkdir saved; cp demo/a.py demo/b.py saved"],
    "revert": ["/bin/sh", "-c", "cp saved/a.py saved/b.py demo; rm -r saved"],
}


@pytest.mark.parametrize("then", ["fails", "revert", "dropped", "fails in an upgrade"])
def test_a_command_that_puts_older_bytes_back(bench: Workbench, then: str) -> None:
    """Its `revert` brings the patched bytes of the file patched before it, and the pristine ones of that after it."""
    first = bench.edit("a.patch", "demo/a.py", "a_15 = 15\n", "a_15 = 0\n")
    last = bench.edit("b.patch", "demo/b.py", "b_15 = 15\n", "b_15 = 0\n")
    save = {"id": "save", "run": OLDER, "reason": "a test"}
    where = ("--image", "demo", "--root", "/", "--site", str(bench.site))
    before, pristine = contents(bench.site), copy_of(bench)
    if then == "fails":
        bench.stack([first, save, last, BAD])
        bench.lock()
        result = bench.run("apply", *where)
        assert result.code == 8
        assert AS_BEFORE in result.err
        assert contents(bench.site) == before
        return
    bench.stack([first, *([] if then == "fails in an upgrade" else [save]), last])
    bench.lock()
    assert bench.run("apply", *where).code == 0
    applied = contents(bench.site)
    if then == "dropped":
        restack(bench, pristine, [first, last])
        assert bench.run("apply", *where).code == 0
        assert bench.run("verify", *where).code == 0
        assert not (bench.site / "saved").exists()
    if then == "fails in an upgrade":
        restack(bench, pristine, [first, save, last, BAD])
        result = bench.run("apply", *where)
        assert result.code == 8, result.err
        assert AS_BEFORE in result.err
        assert outside(contents(bench.site)) == outside(applied)
    assert bench.run("revert", *where).code == 0
    assert contents(bench.site) == before


def test_a_file_that_a_step_changed_and_left_is_not_as_before(bench: Workbench) -> None:
    step = {"id": "cut", "run": {"argv": ["/bin/sh", "-c", "echo > demo/b.py"], "revert": ["true"]}, "reason": "a test"}
    bench.stack([step, bench.edit("b.patch", "demo/b.py", "b_15 = 15\n", "b_15 = 0\n")])
    bench.lock()
    result = bench.run("apply", "--image", "demo", "--root", "/", "--site", str(bench.site))
    assert result.code == 3
    assert AS_BEFORE not in result.err
    assert (
        "error: rolled back: the files of the stack; what a step changed and did not put back: demo/b.py\n"
        in result.err
    )


def test_a_directory_of_an_early_part_goes_with_the_stack(bench: Workbench) -> None:
    text = lines("n", 3)
    bench.patch("new.patch", "--- /dev/null\n+++ b/fresh/deep/new.py\n@@ -0,0 +1,3 @@\n+n_1 = 1\n+n_2 = 2\n+n_3 = 3\n")
    new = {"id": "new", "patch": "new.patch", "reason": "a test"}
    made = {
        "id": "made",
        "run": {"argv": ["touch", "made"], "creates": "made", "revert": ["rm", "made"]},
        "reason": "a",
    }
    bench.stack([new, made, bench.edit("b.patch", "demo/b.py", "b_15 = 15\n", "b_15 = 0\n")])
    bench.lock()
    before = bench.snapshot().keys()
    where = ("--image", "demo", "--root", "/", "--site", str(bench.site))
    assert bench.run("apply", *where).code == 0
    assert (bench.site / "fresh/deep/new.py").read_text() == text
    assert bench.run("revert", *where).code == 0
    assert bench.snapshot().keys() == before
