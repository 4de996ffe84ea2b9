"""Hints are commands to type as they stand: each leads to the very tree that its message is about."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from .conftest import SITE, Result, Workbench
from .test_cli_bundle import bundle

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

#: told(COMMAND): its result on the one target; typed(LINE): what a hint says, as a person types it
Told = tuple["Callable[..., Result]", "Callable[[str], Result]", "Path"]


@pytest.fixture(params=["root", "site and stand-in", "managed", "bundle"])
def told(request: pytest.FixtureRequest, five: Workbench, tmp_path: Path) -> Told:
    """The same stack on one target, named in each of the ways that there are; and where that is."""
    root = tmp_path / "some root's"
    shutil.copytree(five.root, root)
    words: tuple[str, ...] = ("--root", str(root))
    if request.param == "site and stand-in":
        shutil.move(root / SITE, root / "elsewhere")
        (root / "elsewhere/demo/_version.py").write_text("commit_id = None\n")
        words = (*words, "--site", "elsewhere", "--stand-in")
    path = bundle(five)
    if request.param == "managed":
        words = ()
        applied = five.run("apply", "--image", "demo", "--json")
        assert applied.code == 0, applied.out
        place = five.project / ".patchkit/roots/demo" / SITE
        assert five.run("revert", "--image", "demo").code == 0
    else:
        place = root / ("elsewhere" if "elsewhere" in words else SITE)

    def full(command: str, *more: str) -> Result:
        return five.run(command, "--image", "demo", *words, *more)

    def inside(command: str, *more: str) -> Result:
        return start([sys.executable, "-I", "-S", str(path), command, *words, *more])

    def start(run: list[str]) -> Result:
        done = subprocess.run(run, capture_output=True, text=True, check=False, env={}, cwd="/")
        return Result(done.returncode, done.stdout, done.stderr)

    def typed(line: str) -> Result:
        run = shlex.split(line)
        if run[0] == "patchkit":
            assert "-C" in run
            from patchkit.cli.main import main

            five.capsys.readouterr()
            code = main(run[1:])
            captured = five.capsys.readouterr()
            return Result(code, captured.out, captured.err)
        assert run[:2] == ["python3", str(path)]
        return start([sys.executable, "-I", "-S", *run[1:]])

    return (inside if request.param == "bundle" else full), typed, place


LINE = re.compile(r"(?:patchkit|python3 \S+) (?:(?!, then|; | goes on| \(or| brings| makes).)*")


def lines(text: str) -> list[str]:
    return LINE.findall(text)


def test_a_hint_leads_to_its_own_target(told: Told) -> None:
    run, typed, place = told
    refused = run("verify", "--json")
    assert refused.code == 4
    (again,) = lines(refused.json["errors"][0]["hint"])
    assert typed(again).code == 0
    assert b"'patched'" in (place / "demo/a.py").read_bytes()
    assert run("verify").code == 0
    with (place / "demo/a.py").open("a") as stream:
        stream.write("# mine\n")
    for command in ("verify", "apply"):
        look, give_up = lines(run(command, "--json").json["errors"][0]["hint"])
        shown = typed(f"{look} --json")
        assert "+# mine" in json.loads(shown.out)["diff"]
    (give_up_too,) = lines(run("revert", "--json").json["errors"][0]["hint"])
    assert give_up == give_up_too
    assert typed(give_up).code == 0
    assert (place / "demo/a.py").read_text().count("patched") == 0


def test_a_root_with_another_stack(five: Workbench, bench: Workbench) -> None:
    assert five.run("apply", "--image", "demo", "--root", str(five.root)).code == 0
    shutil.copytree(five.project / "patches/demo", five.project / "patches/other")
    five.image("other")
    stack = json.loads((five.project / "patches/other/stack.yaml").read_text())
    (five.project / "patches/other/stack.yaml").write_text(json.dumps({**stack, "image": "other"}))
    assert five.run("revert", "--image", "demo", "--root", str(five.root)).code == 0
    assert five.run("lock", "--image", "other", "--from", str(five.root)).code == 0
    assert five.run("apply", "--image", "demo", "--root", str(five.root)).code == 0
    path = five.project.parent / "other.pyz"
    assert five.run("bundle", "--image", "other", "-o", str(path)).code == 0
    where = f"--root {five.root} -C {five.project}"
    for command in ("apply", "revert", "verify", "status", "diff"):
        refused = five.run(command, "--image", "other", "--root", str(five.root), "--json")
        assert refused.code == 4
        assert lines(refused.json["errors"][0]["hint"]) == [f"patchkit revert --image demo {where}"]
        run = [sys.executable, "-I", str(path), command, "--root", str(five.root), "--json"]
        inside = json.loads(subprocess.run(run, capture_output=True, check=False).stdout)
        hint = inside["errors"][0]["hint"]
        assert lines(hint) == [f"python3 BUNDLE-OF-demo.pyz revert --root {five.root}"]


def test_a_bundle_says_how_it_was_called(five: Workbench) -> None:
    path = bundle(five)
    for words in (("--help",), ("apply", "--help"), ("revert", "-h")):
        run = subprocess.run([sys.executable, str(path), *words], capture_output=True, text=True, check=False)
        assert run.returncode == 0
        assert f"usage: python3 {path}" in run.stdout
        assert "managed root" not in run.stdout
        assert "patchkit " not in run.stdout.replace("A patchkit bundle", "")
    for bad in (("frobnicate",), ("apply", "--nonsense")):
        run = subprocess.run([sys.executable, str(path), *bad], capture_output=True, text=True, check=False)
        assert run.returncode == 2
        assert f"hint: python3 {path}" in run.stderr
