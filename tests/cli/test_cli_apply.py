"""apply, verify, revert and upgrade through the command line, on real file trees."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from .conftest import COMMIT, SCHEMA, SITE, Workbench, contents, patchkit_process, snapshot, unified

if TYPE_CHECKING:
    from pathlib import Path


def test_apply_says_what_it_did_and_where(five: Workbench) -> None:
    result = five.run("apply", "--image", "demo", "--root", str(five.root))
    assert (result.code, result.err) == (0, "")
    head, tree, *steps = result.out.splitlines()
    assert head.startswith("apply demo: applied, stack version 1, lock sha256:")
    assert tree == f"  tree: {five.site}"
    assert steps == [f"  {n}  applies     demo/{n}.py (modified)" for n in "abcde"]
    assert (five.site / "demo/a.py").read_text().count("a_15 = 'patched'\n") == 1


def test_again_changes_no_byte_and_no_mtime(five: Workbench) -> None:
    five.run("apply", "--image", "demo", "--root", str(five.root))
    before = five.snapshot()
    result = five.run("apply", "--image", "demo", "--root", str(five.root))
    assert result.code == 0
    assert "already applied, nothing to do" in result.out
    assert five.snapshot() == before


def test_verify_apply_and_revert_on_drift(five: Workbench) -> None:
    pristine = contents(five.root)
    where = ("--image", "demo", "--root", str(five.root))
    five.run("apply", *where)
    assert five.run("verify", *where).code == 0
    with (five.site / "demo/c.py").open("a") as stream:
        stream.write("# mine\n")
    before = five.snapshot()
    for command in ("verify", "apply", "revert"):
        result = five.run(command, *where)
        assert result.code == 4, command
        assert "demo/c.py (step c): its content was changed: expected sha256 " in result.err
    assert five.snapshot() == before
    assert "patchkit revert --force --image demo" in result.err
    assert five.run("revert", *where, "--force").code == 0
    assert contents(five.root) == pristine


def test_revert_without_anything_applied(five: Workbench) -> None:
    before = five.snapshot()
    result = five.run("revert", "--image", "demo", "--root", str(five.root))
    assert (result.code, five.snapshot()) == (0, before)
    assert "nothing was applied here" in result.out


def test_conflict_shows_the_hunk_and_every_verdict(bench: Workbench) -> None:
    steps = [bench.edit(f"{n}.patch", f"demo/{n}.py", f"{n}_15 = 15\n", f"{n}_15 = 'patched'\n") for n in "abce"]
    after = bench.edit("c-again.patch", "demo/c.py", "c_16 = 16\n", "c_16 = 'patched'\n")
    steps.insert(3, {**after, "id": "c-again"})
    bench.stack(steps)
    bench.image(components={"demo": {"repo": "example/demo"}})
    stand_in = bench.root.parent / "stand-in"
    subprocess.run(["cp", "-r", str(bench.root), str(stand_in)], check=True)
    (stand_in / SITE / "demo/_version.py").write_text("commit_id = None\n")
    patched = bench.pristine("demo/c.py").replace("c_15 = 15\n", "c_15 = 'patched'\n")
    bench.patch("c-again.patch", unified("demo/c.py", patched, patched.replace("c_16 = 16\n", "c_16 = 'patched'\n")))
    locked = bench.run("lock", "--image", "demo", "--from", str(stand_in))
    assert locked.code == 0, locked.err
    (bench.site / "demo/c.py").write_text(bench.pristine("demo/c.py").replace("c_14 = 14", "c_14 = 'theirs'"))
    before = bench.snapshot()
    result = bench.run("apply", "--image", "demo", "--root", str(bench.root), "--json")
    assert result.code == 3
    assert bench.snapshot() == before
    verdicts = [(step["id"], step["verdict"]) for step in result.json["steps"]]
    assert verdicts == [
        ("a", "applies"),
        ("b", "applies"),
        ("c", "conflict"),
        ("c-again", "blocked"),
        ("e", "applies"),
    ]
    assert result.json["outcome"] == "refused"
    assert [error["code"] for error in result.json["errors"]] == ["conflict", "conflict"]
    detail = result.json["steps"][2]["detail"]
    assert "demo/c.py: hunk at line 12 (line 3 of the patch): the lines that it expects are not in the file" in detail
    assert "      14 expected  c_14 = 14" in detail
    assert "      14 found     c_14 = 'theirs'" in detail


def test_upgrade_in_place(five: Workbench) -> None:
    where = ("--image", "demo", "--root", str(five.root))
    pristine = five.root.parent / "pristine"
    subprocess.run(["cp", "-a", str(five.root), str(pristine)], check=True)
    assert five.run("apply", *where).code == 0
    other = Workbench(five.project, pristine, five.capsys)
    steps = [
        other.edit("a.patch", "demo/a.py", "a_15 = 15\n", "a_15 = 'patched again'\n"),
        other.edit("b.patch", "demo/b.py", "b_15 = 15\n", "b_15 = 'patched'\n"),
        other.edit("d.patch", "demo/d.py", "d_15 = 15\n", "d_15 = 'patched'\n"),
        other.edit("e.patch", "demo/e.py", "e_15 = 15\n", "e_15 = 'patched'\n"),
        {
            "id": "fresh",
            "replace": {"path": "demo/b.py", "find": "b_20 = 20\n", "with": "b_20 = 0\n"},
            "reason": "a test",
        },
    ]
    five.stack(steps, version=2)
    other.lock()
    result = five.run("apply", *where, "--json")
    assert result.code == 0, result.err
    assert result.json["outcome"] == "upgraded"
    assert result.json["stack"]["version"] == 2
    verdicts = {step["id"]: step["verdict"] for step in result.json["steps"]}
    assert verdicts == {"a": "applies", "b": "applied", "d": "applied", "e": "applied", "fresh": "applies"}
    assert "no longer among the steps, its files are put back: c" in result.json["notes"]
    assert five.pristine("demo/c.py") == other.pristine("demo/c.py")
    upgraded = {path: state for path, state in contents(five.root).items() if ".patchkit" not in path}
    assert other.run("apply", "--image", "demo", "--root", str(pristine)).code == 0
    assert upgraded == {path: state for path, state in contents(pristine).items() if ".patchkit" not in path}


def test_dry_run_prints_the_plan_and_changes_nothing(five: Workbench) -> None:
    before = five.snapshot()
    plan = five.run("apply", "--image", "demo", "--root", str(five.root), "--dry-run")
    assert plan.code == 0
    assert "would be applied (dry run, nothing was changed)" in plan.out
    assert five.snapshot() == before
    done = five.run("apply", "--image", "demo", "--root", str(five.root))
    assert plan.out.splitlines()[1:] == done.out.splitlines()[1:]


def test_only_a_closed_selection(bench: Workbench) -> None:
    first = bench.edit("first.patch", "demo/a.py", "a_5 = 5\n", "a_5 = 0\n")
    second = bench.edit("second.patch", "demo/a.py", "a_25 = 25\n", "a_25 = 0\n")
    third = bench.edit("third.patch", "demo/b.py", "b_5 = 5\n", "b_5 = 0\n")
    bench.stack([first, second, third])
    bench.lock()
    where = ("--image", "demo", "--root", str(bench.root))
    result = bench.run("apply", *where, "--only", "second")
    assert result.code == 2
    assert "step second builds on the files of step first, which is not selected" in result.err
    assert bench.run("apply", *where, "--only", "nonsense").code == 2
    assert bench.run("apply", *where, "--only", "third,first").code == 0
    assert "a_25 = 25" in bench.pristine("demo/a.py")
    verified = bench.run("verify", *where)
    assert verified.code == 0
    assert "not applied here: second" in verified.out
    assert bench.run("apply", *where).code == 0
    assert "a_25 = 0" in bench.pristine("demo/a.py")


@pytest.mark.parametrize(
    ("content", "found"),
    [
        ("commit_id = 'g4ba787ec9'\n", "records commit 4ba787ec9"),
        ("__commit_id__ = commit_id = None\n", "records no commit"),
        (None, "records no commit"),
    ],
)
def test_another_image_is_refused(five: Workbench, content: str | None, found: str) -> None:
    version = five.site / "demo/_version.py"
    if content is None:
        version.unlink()
    else:
        version.write_text(content)
    before = five.snapshot()
    where = ("--image", "demo", "--root", str(five.root))
    for command in ("apply", "verify", "status", "diff"):
        result = five.run(command, *where)
        assert result.code == 4, command
        assert f"demo/_version.py {found}, image demo is commit {COMMIT[:9]}" in result.err
        assert "--stand-in" in result.err
    assert five.snapshot() == before
    result = five.run("apply", *where, "--stand-in")
    assert result.code == 0, result.err
    for command in ("apply", "verify", "status", "revert"):
        told = five.run(command, *where, "--json")
        assert told.code == 0, command
        assert told.json["stand_in"] is True, command
    assert "STAND-IN" in result.out


def test_an_image_that_the_lock_was_not_made_from_is_not_pinned(five: Workbench) -> None:
    stand_in = five.root.parent / "near-release"
    subprocess.run(["cp", "-r", str(five.root), str(stand_in)], check=True)
    (stand_in / SITE / "demo/_version.py").write_text("commit_id = 'g4ba787ec9'\n")
    assert five.run("lock", "--image", "demo", "--from", str(stand_in)).code == 0
    shifted = "# one line more\n" + five.pristine("demo/a.py")
    (five.site / "demo/a.py").write_text(shifted)
    result = five.run("apply", "--image", "demo", "--root", str(five.root), "--json")
    assert result.code == 0, result.err
    assert result.json["stand_in"] is False
    assert {step["id"]: step["verdict"] for step in result.json["steps"]}["a"] == "offset"
    notes = " ".join(result.json["notes"])
    assert "not pinned by hash" in notes
    assert "patchkit lock --image demo --from" in notes
    assert five.pristine("demo/a.py") == shifted.replace("a_15 = 15", "a_15 = 'patched'")


def test_a_pinned_file_that_differs_is_drift(five: Workbench) -> None:
    (five.site / "demo/a.py").write_text("# one line more\n" + five.pristine("demo/a.py"))
    before = five.snapshot()
    result = five.run("apply", "--image", "demo", "--root", str(five.root))
    assert result.code == 4
    assert "demo/a.py: not the file that the lock was made from: expected sha256 " in result.err
    assert five.snapshot() == before


def test_no_site(five: Workbench, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    result = five.run("apply", "--image", "demo", "--root", str(tmp_path / "empty"))
    assert result.code == 2
    assert f"it holds no site directory {SITE}" in result.err
    assert "--site PATH" in result.err
    assert five.run("apply", "--image", "demo", "--root", str(tmp_path / "none")).code == 2


def test_site_option(five: Workbench, tmp_path: Path) -> None:
    moved = tmp_path / "moved"
    (moved / "opt").mkdir(parents=True)
    subprocess.run(["cp", "-r", str(five.site), str(moved / "opt/site")], check=True)
    result = five.run("apply", "--image", "demo", "--root", str(moved), "--site", "opt/site")
    assert result.code == 0, result.err
    assert five.run("apply", "--image", "demo", "--root", str(moved), "--site", "../root").code == 2


def test_patched_python_must_compile(bench: Workbench) -> None:
    bench.stack([bench.edit("broken.patch", "demo/a.py", "a_15 = 15\n", "a_15 = (\n")])
    bench.lock()
    before = bench.snapshot()
    result = bench.run("apply", "--image", "demo", "--root", str(bench.root))
    assert result.code == 3
    assert "step broken: demo/a.py does not compile after the patch: line 15" in result.err
    assert bench.snapshot() == before


@pytest.mark.parametrize("kind", ["pip", "run"])
def test_steps_that_a_directory_cannot_run(bench: Workbench, kind: str) -> None:
    bodies = {
        "pip": {"requirements": ["demo==1.0"], "hashes": "first-use"},
        "run": {"argv": ["true"]},
    }
    steps = [bench.edit("a.patch", "demo/a.py", "a_15 = 15\n", "a_15 = 0\n")]
    bench.stack([*steps, {"id": "other", kind: bodies[kind], "reason": "a test"}])
    bench.lock()
    before = bench.snapshot()
    result = bench.run("apply", "--image", "demo", "--root", str(bench.root))
    assert result.code == 8
    assert f"step other ({kind}): a plain directory cannot run it" in result.err
    assert "--only a" in result.err
    assert bench.snapshot() == before
    assert bench.run("apply", "--image", "demo", "--root", str(bench.root), "--only", "a").code == 0


def test_diff_is_the_stack(five: Workbench) -> None:
    where = ("--image", "demo", "--root", str(five.root))
    before = patchkit_process("diff", *where, "-C", str(five.project)).stdout
    five.run("apply", *where)
    after = patchkit_process("diff", *where, "-C", str(five.project)).stdout
    assert before == after
    five.run("revert", *where)
    applied = subprocess.run(
        ["git", "apply", "-"], input=after, cwd=five.site, env={"GIT_DIR": "/nonexistent"}, check=False
    )
    assert applied.returncode == 0
    assert five.pristine("demo/e.py").count("e_15 = 'patched'") == 1


def test_status_before_and_after(five: Workbench) -> None:
    where = ("--image", "demo", "--root", str(five.root), "--json")
    before = five.snapshot()
    first = five.run("status", *where)
    assert {step["on_disk"] for step in first.json["steps"]} == {"applies"}
    assert five.snapshot() == before
    five.run("apply", *where)
    second = five.run("status", *where)
    assert {step["on_disk"] for step in second.json["steps"]} == {"applied"}
    assert second.json["steps"][0].keys() >= {"id", "on_disk", "in_image", "action", "why", "files", "upstream"}
    (five.site / "demo/b.py").unlink()
    third = five.run("status", *where)
    assert third.code == 0
    assert [step["on_disk"] for step in third.json["steps"]] == ["applied", "drifted", "applied", "applied", "applied"]


def test_json_is_one_object_for_success_and_failure(five: Workbench, tmp_path: Path) -> None:
    where = ("-C", str(five.project), "--image", "demo", "--root", str(five.root), "--json")
    for words, code in (
        (("apply", *where), 0),
        (("apply", *where), 0),
        (("apply", *where, "--only", "zzz"), 2),
        (("apply", "--image", "nothing", "--json", "-C", str(five.project)), 2),
        (("apply", "--no-such-option", "--json"), 2),
        (("apply", *where, "--root", str(tmp_path / "gone")), 2),
        (("nonsense", "--json"), 2),
    ):
        done = patchkit_process(*words)
        assert done.returncode == code, (words, done.stderr)
        document = json.loads(done.stdout)
        SCHEMA.validate(document)
        assert bool(document["errors"]) == (code != 0)
        assert b"Traceback" not in done.stderr


def test_the_no_op_loads_only_what_it_needs(five: Workbench) -> None:
    where = ("-C", str(five.project), "--image", "demo", "--root", str(five.root))
    assert patchkit_process("apply", *where).returncode == 0
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "patchkit", "apply", *where],
        capture_output=True,
        text=True,
        check=True,
    )
    loaded = {line.rsplit("|", 1)[1].strip() for line in done.stderr.splitlines() if "|" in line}
    tops = {name.split(".")[0] for name in loaded}
    assert not tops & {"yaml", "requests", "docker", "jinja2", "rich", "git", "pydantic", "unidiff", "subprocess"}
    assert not loaded & {"patchkit.core.diffs", "patchkit.core.judge", "patchkit.core.change"}


def test_busy(five: Workbench) -> None:
    import fcntl
    import os

    handle = os.open(five.site, os.O_RDONLY)
    fcntl.flock(handle, fcntl.LOCK_EX)
    try:
        result = five.run("apply", "--image", "demo", "--root", str(five.root), "--json")
        assert (result.code, result.json["errors"][0]["code"]) == (7, "busy")
    finally:
        os.close(handle)
    assert snapshot(five.root)
