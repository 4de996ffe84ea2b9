"""The pre-commit hooks and the example for GitHub Actions, run: the hooks by pre-commit itself, the example's commands
by bash. Neither needs a network: the hooks' environment is this one."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from patchkit.model import yamlfile

from .conftest import ROOT, Bench

if TYPE_CHECKING:
    from pathlib import Path

EXAMPLE = ROOT / "docs/examples/github-waivers.yml"


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """An environment whose `patchkit` is the one under test, and which knows no person's settings of git."""
    folder = tmp_path / "bin"
    folder.mkdir()
    program = folder / "patchkit"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m patchkit "$@"\n')
    program.chmod(0o755)
    identity = {f"GIT_{who}_{what}": "x@example" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    return {
        **{key: value for key, value in os.environ.items() if not key.startswith("GIT_")},
        **identity,
        "PATH": f"{folder}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
        "PRE_COMMIT_HOME": str(tmp_path / "pre-commit"),
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_CONFIG_NOSYSTEM": "1",
        "HOME": str(tmp_path),
    }


def run(command: list[str], folder: Path, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


def git(folder: Path, environment: dict[str, str], *words: str) -> str:
    done = run(["git", *words], folder, environment)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def hooks() -> list[dict[str, Any]]:
    found: Any = yamlfile.read(ROOT / ".pre-commit-hooks.yaml", "hooks").data
    return list(found)


@pytest.fixture
def committed(demo: Bench, tmp_path: Path, environment: dict[str, str]) -> Bench:
    """A project under git whose configuration takes the hooks from a repository that holds the definition."""
    source = tmp_path / "patchkit"
    source.mkdir()
    shutil.copy(ROOT / ".pre-commit-hooks.yaml", source)
    git(source, environment, "init", "-q", "-b", "main")
    git(source, environment, "add", ".")
    git(source, environment, "commit", "-qm", "hooks")
    revision = git(source, environment, "rev-parse", "HEAD")
    used = [{"id": hook["id"], "language": "system"} for hook in hooks()]  # not installed anew: this environment's
    demo.write(".pre-commit-config.yaml", {"repos": [{"repo": str(source), "rev": revision, "hooks": used}]})
    git(demo.root, environment, "init", "-q", "-b", "main")
    git(demo.root, environment, "add", ".")
    git(demo.root, environment, "commit", "-qm", "all")
    return demo


def commit(bench: Bench, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """Stage everything and run pre-commit as its git hook would."""
    git(bench.root, environment, "add", "-A")
    return run([sys.executable, "-m", "pre_commit", "run", "--color", "never"], bench.root, environment)


def test_the_hooks_let_a_sound_change_through(committed: Bench, environment: dict[str, str]) -> None:
    committed.edit("waivers/12.yaml", lambda waiver: waiver.update(owner="somebody else"))
    committed.render()
    done = commit(committed, environment)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("Passed") == 2


def test_the_hooks_stop_a_change_that_parts_them(committed: Bench, environment: dict[str, str]) -> None:
    committed.edit("waivers/12.yaml", lambda waiver: waiver["covers"].remove("demo/worker"))
    done = commit(committed, environment)
    assert done.returncode == 1
    assert done.stdout.count("Failed") == 2
    assert "step-uncovered: step worker of demo is covered by no waiver" in done.stdout
    assert "exit code: 5" in done.stdout


def test_the_hooks_keep_out_of_other_changes(committed: Bench, environment: dict[str, str]) -> None:
    committed.write("src/x.py", "pass\n")
    done = commit(committed, environment)
    assert done.returncode == 0
    assert done.stdout.count("Skipped") == 2


def steps() -> list[dict[str, Any]]:
    document: Any = yamlfile.read(EXAMPLE, "example").data
    return list(document["jobs"]["waivers"]["steps"])


def commands(bench: Bench, environment: dict[str, str]) -> dict[str, subprocess.CompletedProcess[str]]:
    """Run the example's own commands as a runner does: `bash -e`, each step, also after one that failed."""
    found = {}
    for step in steps():
        if "run" in step and step["name"] != "install":
            found[step["name"]] = run(["bash", "-e", "-o", "pipefail", "-c", step["run"]], bench.root, environment)
    return found


def test_the_example_passes_on_a_sound_project(demo: Bench, environment: dict[str, str]) -> None:
    done = commands(demo, environment)
    assert {name: each.returncode for name, each in done.items()} == {"documents": 0, "findings": 0, "sarif": 0}
    assert (demo.root / "waivers.sarif").stat().st_size > 1000


def test_the_example_fails_and_annotates(demo: Bench, environment: dict[str, str]) -> None:
    demo.edit("waivers/12.yaml", lambda waiver: waiver["covers"].remove("demo/worker"))
    done = commands(demo, environment)
    assert {name: each.returncode for name, each in done.items()} == {"documents": 5, "findings": 5, "sarif": 0}
    assert "::error file=patches/demo/stack.yaml,line=" in done["findings"].stdout
    assert '"ruleId": "step-uncovered"' in (demo.root / "waivers.sarif").read_text()


def test_the_example_reports_a_broken_project_as_such(demo: Bench, environment: dict[str, str]) -> None:
    demo.write("waivers/12.yaml", "covers: 3")
    done = commands(demo, environment)
    assert [each.returncode for each in done.values()] == [2, 2, 1]
