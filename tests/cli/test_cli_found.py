"""Defects that were found by use, each with its whole kind."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from .conftest import Workbench, contents

ROOT = Path(__file__).parents[2]


def where(bench: Workbench) -> tuple[str, ...]:
    return ("-C", str(bench.project), "--image", "demo", "--root", str(bench.root))


@pytest.mark.parametrize("words", [(), ("--json",)])
@pytest.mark.parametrize(
    ("streams", "code"), [(">&-", 0), ("2>&-", 0), (">&- 2>&-", 0), (">/dev/full", 8), (">/dev/full 2>&-", 8)]
)
def test_streams_that_are_closed_or_full(five: Workbench, streams: str, code: int, words: tuple[str, ...]) -> None:
    command = " ".join([sys.executable, "-m", "patchkit", "apply", *where(five), *words, streams])
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
    assert done.returncode == code
    assert "Traceback" not in done.stderr + done.stdout
    assert five.run("verify", *where(five)[2:]).code == 0, "what was done is whole"


def test_messages_do_not_move_to_stdout(five: Workbench) -> None:
    command = " ".join(
        [sys.executable, "-m", "patchkit", "apply", "--image", "nothing", "-C", str(five.project), "2>&-"]
    )
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")


def test_a_lock_is_the_same_from_the_network_and_from_the_cache() -> None:
    for path in sorted((ROOT / "patches").glob("*/stack.lock.json")):
        for source in json.loads(path.read_text())["sources"]:
            assert source.keys() == {"spec", "commit"}, "nothing of how or when it was read"


@pytest.mark.parametrize("steps", [1, 2, 3])
def test_a_tree_that_holds_the_stack_without_its_ledger(bench: Workbench, steps: int) -> None:
    made = []
    text = bench.pristine("demo/a.py")
    for number in range(3):  # all in one file, each on the line of the one before
        new = text.replace("a_15 = 15\n", f"a_15 = 15\nb_{number} = 0\n")
        from .conftest import unified

        bench.patch(f"{number}.patch", unified("demo/a.py", text, new))
        made.append({"id": f"s{number}", "patch": f"{number}.patch", "reason": "a test"})
        text = new
    bench.stack(made[:steps])
    bench.lock()
    bench.stack(made, version=2)
    bench.run("lock", "--image", "demo", "--from", str(bench.root))
    pristine = contents(bench.root)
    bench.stack(made[:steps], version=1)
    bench.lock()
    assert bench.run("apply", *where(bench)[2:]).code == 0
    shutil.rmtree(bench.site / ".patchkit")
    shown = bench.run("status", *where(bench)[2:], "--json").json["steps"]
    assert [step["on_disk"] for step in shown] == ["upstream"] * steps
    before = contents(bench.root)
    result = bench.run("apply", *where(bench)[2:], "--json")
    assert result.code == 0, result.err
    assert [step["verdict"] for step in result.json["steps"]] == ["upstream"] * steps
    assert {p: c for p, c in contents(bench.root).items() if ".patchkit" not in p} == before
    assert before != pristine


def test_revert_tells_the_stand_in_and_the_stack_of_a_clean_managed_root(five: Workbench) -> None:
    near = five.root.parent / "near"
    shutil.copytree(five.root, near)
    version = next(near.rglob("_version.py"))
    version.write_text("commit_id = 'g4ba787ec9'\n")
    assert five.run("lock", "--image", "demo", "--from", str(near)).code == 0
    assert five.run("apply", "--image", "demo").code == 0
    for outcome in ("reverted", "unchanged"):
        document = five.run("revert", "--image", "demo", "--json").json
        assert (document["outcome"], document["stand_in"], document["stack"]["version"]) == (outcome, True, 1)
        assert all(step["verdict"] == "applies" for step in document["steps"])


def test_a_stage_without_a_step_applies_nothing_and_says_so(five: Workbench) -> None:
    before = five.snapshot()
    for _ in range(2):
        result = five.run("apply", *where(five)[2:], "--stage", "runtime", "--json")
        assert (result.code, result.json["outcome"]) == (0, "unchanged")
        assert {step["verdict"] for step in result.json["steps"]} == {"deferred"}
        assert "no step is of stage runtime" in result.json["notes"]
    assert five.snapshot() == before
    assert five.run("verify", *where(five)[2:]).code == 4
    assert five.run("apply", *where(five)[2:], "--stage", "build").code == 0
    again = five.run("apply", *where(five)[2:], "--stage", "runtime", "--json").json
    assert {step["verdict"] for step in again["steps"]} == {"applied"}
    assert five.run("verify", *where(five)[2:]).code == 0


def test_the_list_counts_what_apply_names(capsys: pytest.CaptureFixture[str]) -> None:
    bench = Workbench(ROOT, ROOT, capsys)
    listed = {row["name"]: row["unresolved"] for row in bench.run("image", "list", "--json").json["images"]}
    result = bench.run("apply", "--image", "nightly-cb8104839c", "--json")
    named = {error["message"].split()[1] for error in result.json["errors"]}
    assert listed["nightly-cb8104839c"] == len(named) == 14
    shown = bench.run("image", "show", "nightly-cb8104839c").out
    assert all(f"step {step} (" in shown for step in named)
    assert shown.count("unresolved: ") >= len(named)
