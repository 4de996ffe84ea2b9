"""`patchkit status` as a person runs it: a project, its trees, a forge on loopback, and a history that git made."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from patchkit.cli.main import main

from .forge_server import TOKEN, Repository, Server, sha

ROOT = Path(__file__).parents[2]
SCHEMA = jsonschema.Draft202012Validator(json.loads((ROOT / "docs/schemas/output.schema.json").read_text()))
REPO = "acme/engine"
OLD_HEAD, NEW_HEAD = "d" * 40, sha(REPO, 2, "head")


@dataclass
class Upstream:
    """A repository of the upstream; `land` commits and returns the SHA."""

    path: Path
    count: int = 0

    def git(self, *words: str) -> str:
        time = f"2026-09-{self.count + 1:02}T09:44:00Z"
        who = {
            "GIT_AUTHOR_NAME": "a",
            "GIT_AUTHOR_EMAIL": "a@a",
            "GIT_COMMITTER_NAME": "a",
            "GIT_COMMITTER_EMAIL": "a@a",
        }
        when = {"GIT_AUTHOR_DATE": time, "GIT_COMMITTER_DATE": time, "GIT_CONFIG_NOSYSTEM": "1"}
        done = subprocess.run(
            ["git", "-C", str(self.path), *words],
            check=True,
            capture_output=True,
            text=True,
            env={**os.environ, **who, **when},
        )
        return done.stdout.strip()

    def land(self, subject: str, body: str = "", **files: str) -> str:
        self.count += 1
        for name, text in files.items():
            (self.path / f"{name}.py").write_text(text)
        self.git("add", "-A")
        self.git("commit", "-q", "--allow-empty", "-m", subject, "-m", body or "x")
        return self.git("rev-parse", "HEAD")


@dataclass
class Bench:
    project: Path
    upstream: Upstream
    forge: Server
    capsys: pytest.CaptureFixture[str]
    shas: dict[str, str] = field(default_factory=dict)

    def run(self, *words: str) -> tuple[int, str, str]:
        self.capsys.readouterr()
        code = main(["status", "-C", str(self.project), *words])
        captured = self.capsys.readouterr()
        assert TOKEN not in captured.out + captured.err
        return code, captured.out, captured.err

    def rows(self, *words: str, code: int = 0) -> dict[str, dict[str, Any]]:
        found, out, err = self.run("--json", *words)
        assert found == code, out + err
        document = json.loads(out)
        SCHEMA.validate(document)
        return {step["id"]: step for step in document["steps"]}

    def actions(self, *words: str) -> dict[str, str]:
        return {name: row["action"] for name, row in self.rows(*words).items()}

    @property
    def clone(self) -> tuple[str, str]:
        return "--clone", f"{REPO}={self.upstream.path}"


def write_project(project: Path, root: Path, commit: str) -> None:
    site = root / "site/engine"
    site.mkdir(parents=True)
    steps = []
    refs: dict[str, tuple[str, ...]] = {
        "landed": ("1",), "moved": ("2",), "reverted": ("3",), "gone": ("5",), "abandoned": ("6",), "released": ("7",),
        "ours": (),
    }  # fmt: skip
    folder = project / "patches/demo"
    folder.mkdir(parents=True)
    (project / "images").mkdir()
    for name, numbers in refs.items():
        (site / f"{name}.py").write_text("x = 1\n")
        origin = f"Origin: upstream, https://github.com/{REPO}/commit/{OLD_HEAD}\n---\n"
        diff = f"--- a/engine/{name}.py\n+++ b/engine/{name}.py\n@@ -1 +1 @@\n-x = 1\n+x = 2\n"
        (folder / f"{name}.patch").write_text(origin + diff)
        upstream = [f"{REPO}#{number}" for number in numbers]
        removal: dict[str, Any] = {"when": "contained", "ref": upstream[0]} if upstream else {"when": "manual"}
        step = {"id": name, "patch": f"{name}.patch", "upstream": upstream, "reason": "-", "removal": removal}
        steps.append({**step, "type": "backport" if upstream else "local"})
        if name == "abandoned":  # its own diff, which a full clone can be searched for
            steps[-1]["type"] = "cherry-pick"
    (folder / "stack.yaml").write_text(json.dumps({"image": "demo", "version": 1, "steps": steps}))
    components = {"engine": {"repo": REPO, "commit": commit, "release": "1.0"}}
    image = {"name": "demo", "reference": "acme/engine:demo", "site": "site", "components": components}
    (project / "images/demo.yaml").write_text(json.dumps(image))


@pytest.fixture
def bench(tmp_path: Path, forge: Server, capsys: pytest.CaptureFixture[str]) -> Bench:
    """One that landed before the image's commit, one that landed and was reverted after it, one released later."""
    path = tmp_path / "upstream"
    path.mkdir()
    upstream = Upstream(path)
    upstream.git("init", "-q", "-b", "main")
    upstream.land("Begin", one="1\n")
    shas = {"landed": upstream.land("One (#1)", one="2\n")}
    upstream.git("tag", "v1.0")
    shas["image"] = shas["landed"]
    shas["reverted"] = upstream.land("Three (#3)", three="3\n")
    shas["revert"] = upstream.land('Revert "Three (#3)" (#4)', f"This reverts commit {shas['reverted']}.", three="")
    upstream.git("tag", "v2.0")
    shas["released"] = upstream.land("Seven (#7)", seven="7\n")
    upstream.git("tag", "v2.1")
    project = tmp_path / "project"
    root = tmp_path / "root"
    write_project(project, root, shas["image"])
    forge.repositories[REPO] = Repository(git=str(path))
    merged = "2026-08-12T09:44:00Z"
    forge.pull(REPO, 1, title="One", state="MERGED", merge_commit=shas["landed"], merged_at=merged)
    forge.pull(REPO, 2, title="Two")
    forge.pull(
        REPO,
        3,
        title="Three",
        state="MERGED",
        merge_commit=shas["reverted"],
        merged_at=merged,
        mentioned_by=((REPO, 4),),
    )
    forge.pull(REPO, 4, title='Revert "Three (#3)"', state="MERGED", merge_commit=shas["revert"], merged_at=merged)
    forge.pull(REPO, 6, title="Six", state="CLOSED")
    forge.pull(REPO, 7, title="Seven", state="MERGED", merge_commit=shas["released"], merged_at=merged)
    assert main(["lock", "-C", str(project), "--from", str(root)]) == 0
    return Bench(project, upstream, forge, capsys, shas)


ACTIONS = {
    "landed": "drop", "moved": "refresh", "reverted": "review", "gone": "review", "abandoned": "review",
    "released": "bump", "ours": "local",
}  # fmt: skip


def test_with_a_clone_every_step_has_its_word(bench: Bench) -> None:
    rows = bench.rows(*bench.clone)
    assert {name: row["action"] for name, row in rows.items()} == ACTIONS
    assert rows["landed"]["in_image"] is True
    assert rows["released"]["upstream"][0]["first_release"] == "v2.1"
    assert OLD_HEAD in rows["moved"]["why"]
    assert NEW_HEAD in rows["moved"]["why"]
    reverted = rows["reverted"]["upstream"][0]
    assert (reverted["state"], reverted["reverted_by"]) == ("reverted", f"{REPO}#4")
    assert reverted["reverted_as"] == bench.shas["revert"]
    assert rows["abandoned"]["removal"]["impossible"] == (
        f"the removal plan is impossible: it waits for {REPO}#6 to be contained"
    )
    assert {entry["question"] for entry in rows["abandoned"]["upstream"][0]["evidence"]} >= {
        "merge commit", "subject", "trailer", "patch-id", "content",
    }  # fmt: skip


def test_without_a_clone_the_forge_compares(bench: Bench) -> None:
    rows = bench.rows()
    assert rows["landed"]["action"] == "drop"
    assert rows["landed"]["upstream"][0]["how"] == "ancestry"
    assert rows["reverted"]["action"] == "review"
    assert rows["released"]["in_image"] is False
    assert rows["abandoned"]["upstream"][0]["state"] == "unknown", "closed is not abandoned: no history was read"
    assert bench.forge.graphql_calls == 1


def test_a_landing_that_names_nothing_is_found_by_the_diff_that_is_carried(bench: Bench) -> None:
    (bench.upstream.path / "engine").mkdir()
    (bench.upstream.path / "engine/abandoned.py").write_text("x = 1\n")
    bench.upstream.land("A file")
    (bench.upstream.path / "engine/abandoned.py").write_text("x = 2\n")
    landed = bench.upstream.land("Synchronised from elsewhere")
    stack = bench.project / "patches/demo/stack.yaml"
    document = json.loads(stack.read_text())
    [step] = [step for step in document["steps"] if step["id"] == "abandoned"]
    step["type"] = "cherry-pick"
    stack.write_text(json.dumps(document))
    root = bench.project.parent / "root"
    assert main(["lock", "--amend", "-C", str(bench.project), "--from", str(root)]) == 0
    pull = bench.rows(*bench.clone)["abandoned"]["upstream"][0]
    assert (pull["state"], pull["landed_as"]) == ("merged", landed)
    [rung] = [entry for entry in pull["evidence"] if entry["question"] == "patch-id"]
    assert (rung["found"], rung["commit"]) == ("yes", landed)


def test_offline_asks_nothing_and_knows_what_was_asked_before(bench: Bench) -> None:
    before = bench.actions()
    seen = len(bench.forge.seen)
    assert bench.actions("--offline") == before
    assert bench.actions("--as-of", "2099-01-01") == before
    assert bench.actions() == before, "within the time-to-live nothing is asked again"
    assert len(bench.forge.seen) == seen
    code, out, _ = bench.run("--as-of", "2020-01-01")
    assert code == 0
    assert "as it was known at the end of 2020-01-01; of 6 of 6 pull requests nothing is known" in " ".join(out.split())


def test_what_is_saved_is_what_offline_knows_elsewhere(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert bench.run("--save", *bench.clone)[0] == 0
    record = bench.project / "patches/upstream.json"
    first = record.read_bytes()
    assert bench.run("--save", *bench.clone)[0] == 0
    assert record.read_bytes() == first
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "another"))
    seen = len(bench.forge.seen)
    rows = bench.rows("--offline")
    assert {name: row["action"] for name, row in rows.items()} == {**ACTIONS, "landed": "keep"}, (
        "no ancestry is recorded"
    )
    assert bench.run("--save", "--offline")[0] == 0
    assert record.read_bytes() == first, "to save what was read changes nothing"
    assert len(bench.forge.seen) == seen


def test_a_forge_that_fails_leaves_what_is_known(bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bench.run("--save", *bench.clone)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "another"))
    bench.forge.close()
    code, out, err = bench.run()
    assert (code, err) == (0, "")
    assert "unknown since 2" in " ".join(out.split())
    rows = bench.rows()
    assert rows["reverted"]["action"] == "review"
    assert bench.run("--fail-on", "unknown")[0] == 5
    (bench.project / "patches/upstream.json").unlink()
    code, out, err = bench.run()
    assert code == 6
    assert "landed" in out, "what is on disk is told all the same"
    assert err.startswith("error: ")
    assert "hint: " in err


def test_a_patch_that_was_put_on_by_hand_is_not_upstreams(bench: Bench) -> None:
    root = bench.project.parent / "root"
    for path in (root / "site/engine").glob("*.py"):
        path.write_text("x = 2\n")
    rows = bench.rows("--image", "demo", "--root", str(root), "--save")
    assert {row["on_disk"] for row in rows.values()} == {"upstream"}
    assert rows["moved"]["action"] == "refresh"
    assert rows["ours"]["in_image"] is None
    assert rows["abandoned"]["upstream"][0]["state"] == "unknown"
    assert "is closed; whether it landed is not known" in rows["abandoned"]["why"]
    assert '"state": "merged"' not in json.dumps(
        json.loads((bench.project / "patches/upstream.json").read_text())["pulls"][f"{REPO}#6"]
    )


def test_what_is_closed_now_is_not_open_because_it_was(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.run("--save")
    bench.forge.pull(REPO, 2, title="Two", state="CLOSED")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "another"))
    row = bench.rows()["moved"]
    assert row["upstream"][0]["state"] == "unknown"
    assert "is closed; whether it landed is not known" in row["why"]


def test_as_of_a_time(bench: Bench) -> None:
    bench.run()
    code, out, _ = bench.run("--as-of", "2026-01-01T00:00:00Z")
    assert code == 0
    assert "of 6 of 6 pull requests nothing is known" in " ".join(out.split())


def test_a_cache_that_cannot_be_used_is_done_without(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.run("--save", *bench.clone)
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    for words in (("--offline",), bench.clone):
        code, out, _ = bench.run(*words)
        assert code == 0
        assert "reverted" in out


def test_a_record_that_cannot_be_written_costs_no_row(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr("patchkit.app.outlook.os.replace", refuse)
    code, out, err = bench.run("--save", *bench.clone)
    assert code == 8
    assert "reverted" in out
    assert "upstream.json: cannot be written: Read-only file system" in err


@pytest.mark.parametrize(("line", "action"), [("ENGINE_TAG: v2.1", "drop"), ("ENGINE_BRANCH: main", "bump")])
def test_a_branch_of_the_tree_moves_and_a_tag_does_not(bench: Bench, line: str, action: str) -> None:
    image = bench.project / "images/demo.yaml"
    document = json.loads(image.read_text())
    del document["components"]["engine"]["commit"]
    image.write_text(json.dumps(document))
    root = bench.project.parent / "root"
    (root / "app").mkdir()
    (root / "app/versions.txt").write_text(line + "\n")
    assert main(["lock", "--amend", "-C", str(bench.project), "--from", str(root)]) == 0
    for path in (root / "site/engine").glob("*.py"):
        path.write_text("x = 1  # of another time\n")  # the files themselves say nothing
    rows = bench.rows("--image", "demo", "--root", str(root), *bench.clone)
    assert rows["released"]["action"] == action
    assert rows["released"]["in_image"] is (True if action == "drop" else None)


def test_exit_6_only_where_nothing_can_be_said_of_any_stack(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.run("--save", *bench.clone)
    record = bench.project / "patches/upstream.json"
    document = json.loads(record.read_text())
    document["pulls"] = {f"{REPO}#1": document["pulls"][f"{REPO}#1"]}
    record.write_text(json.dumps(document))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "another"))
    bench.forge.close()
    assert bench.run()[0] == 0


def test_long_names_fit_as_well(bench: Bench) -> None:
    stack = bench.project / "patches/demo/stack.yaml"
    document = json.loads(stack.read_text())
    document["steps"][2]["id"] = "a-step-with-a-name-of-more-than-forty-characters"
    stack.write_text(json.dumps(document))
    assert main(["lock", "--amend", "-C", str(bench.project), "--from", str(bench.project.parent / "root")]) == 0
    _, out, _ = bench.run(*bench.clone)
    assert max(map(len, out.splitlines())) <= 100
    assert "a-step-with-a-name-of-more-than-forty-characters" in out


def test_a_stack_that_cannot_be_read_says_so_in_markdown(bench: Bench) -> None:
    other = bench.project / "images/other.yaml"
    other.write_text(json.dumps({"name": "other", "reference": "a/b:c", "site": "site"}))
    code, out, _ = bench.run("--markdown")
    assert code == 2
    assert "patches/other/stack" in out
    assert "None" not in out
    assert f"`{REPO}#3`" in out, "as code: a code host would tell the pull request that it was mentioned"


def test_fail_on(bench: Bench) -> None:
    code, _, err = bench.run(*bench.clone, "--fail-on", "drop,refresh")
    assert code == 5
    problems = [line for line in err.splitlines() if line.startswith("error: ")]
    assert [line.split(": ")[2] for line in problems] == ["step landed", "step moved"]
    assert bench.run(*bench.clone, "--fail-on", "keep")[0] == 0
    document = json.loads(bench.run(*bench.clone, "--fail-on", "drop", "--json")[1])
    SCHEMA.validate(document)
    assert [entry["code"] for entry in document["errors"]] == ["finding"]


def test_the_table_fits_and_says_everything_without_colour(bench: Bench) -> None:
    _, out, _ = bench.run(*bench.clone)
    assert max(map(len, out.splitlines())) <= 100
    assert "\x1b" not in out
    for name, action in ACTIONS.items():
        assert any(line.startswith(f"  {name} ") and line.endswith(action) for line in out.splitlines()), name


def test_markdown_is_one_table_a_stack(bench: Bench) -> None:
    code, out, _ = bench.run(*bench.clone, "--markdown")
    assert code == 0
    rows = [line for line in out.splitlines() if line.startswith("| `")]
    assert len(rows) == len(ACTIONS)
    assert all(row.count(" | ") == 7 for row in rows)


BAD: dict[str, tuple[tuple[str, ...], str]] = {
    "a word": (("--fail-on", "drop,later"), "found later"),
    "no word": (("--fail-on", ","), "found nothing"),
    "a date": (("--as-of", "yesterday"), "--as-of yesterday: expected a date"),
    "a day that is none": (("--as-of", "2026-02-31"), "--as-of 2026-02-31: expected a date"),
    "an hour that is none": (("--as-of", "2026-02-01T99:99:99Z"), "expected a date"),
    "disk and upstream": (("--on-disk", "--fail-on", "drop"), "--on-disk and --fail-on"),
    "a clone": (("--clone", "engine"), "--clone engine: expected owner/repo=directory"),
    "no clone there": (("--clone", f"{REPO}=/nowhere"), "git:/nowhere: expected a clone"),
    "fetch offline": (("--fetch", "--offline"), "--fetch and --offline"),
    "two forms": (("--json", "--markdown"), "--json and --markdown"),
    "save the past": (("--save", "--as-of", "2026-01-01"), "--save and --as-of"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input(bench: Bench, name: str) -> None:
    words, message = BAD[name]
    code, out, err = bench.run(*words)
    assert code == 2, err
    text = err or json.loads(out)["errors"][0]["message"]
    assert message in text


def test_a_record_that_is_damaged_is_named_and_left_alone(bench: Bench) -> None:
    record = bench.project / "patches/upstream.json"
    record.write_text('{"version": 1, "pulls": {"a/b#1": {"state": "landed"}}}')
    before = record.read_bytes()
    code, _, err = bench.run("--offline", "--save")
    assert code == 2
    assert "pulls['a/b#1'].state: expected one of open" in err
    assert record.read_bytes() == before


def shipped(*words: str) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-m", "patchkit", "status", "--json", "-C", str(ROOT), *words],
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    document: dict[str, Any] = json.loads(done.stdout)
    SCHEMA.validate(document)
    return document


def test_the_shipped_stack_of_the_kimi_k3_image_offline() -> None:
    rows = {step["id"]: step for step in shipped("--offline", "--image", "nightly-cb8104839c")["steps"]}
    split_k = rows["aiter-split-k-semaphore"]
    assert split_k["action"] == "review"
    pull = split_k["upstream"][0]
    assert (pull["ref"], pull["state"]) == ("ROCm/aiter#4494", "reverted")
    assert (pull["reverted_by"], pull["superseded_by"]) == ("ROCm/aiter#4709", "ROCm/aiter#4916")
    draft = rows["draft-layers-cudagraph-mode"]
    assert draft["action"] == "review"
    assert "vllm-project/vllm#50619 was closed without landing" in draft["why"]
    assert "impossible" in draft["removal"]["impossible"]
    for step, release in (("kda-state-indices", "0.28.0"), ("triton-mla-cudagraphs", "0.29.0")):
        assert rows[step]["action"] in ("drop", "bump")
        assert f"first in release {release}" in rows[step]["why"]
    for step in ("provenance", "dspark-verify-asm-1", "triton", "lm-eval"):
        assert rows[step]["action"] == "local"


def test_the_shipped_record_is_of_september() -> None:
    rows = shipped("--as-of", "2026-09-30", "--image", "nightly-cb8104839c")["steps"]
    assert {row["id"]: row["action"] for row in rows}["aiter-split-k-semaphore"] == "review"
    assert "0.28.0" not in json.dumps(shipped("--as-of", "2026-08-31", "--image", "nightly-cb8104839c")["steps"])


def test_all_shipped_stacks_answer_offline() -> None:
    document = shipped("--offline")
    assert [image["image"] for image in document["images"]] == [
        "nightly-7c5dc571", "nightly-c50aca", "nightly-cb8104839c", "v0.27.1",
    ]  # fmt: skip
    assert all(step["why"] for image in document["images"] for step in image["steps"])
