"""Bad input: every problem at once, with file and path; exit 2; no traceback; nothing changed."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from patchkit.app import project as projects

from .conftest import Workbench, patchkit_process

if TYPE_CHECKING:
    from pathlib import Path

STEP: dict[str, Any] = {"id": "s", "replace": {"path": "demo/a.py", "find": "a_1 = 1", "with": "a_1 = 0"}}


def _stack(**changes: Any) -> str:
    return json.dumps({"image": "demo", "version": 1, "steps": [STEP], **changes})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (_stack(verson=2), "verson"),
        ('{"image": "demo", "version": 1, "version": 2, "steps": []}', "version"),
        (_stack(version="one"), "version"),
        (_stack(version=0), "version"),
        (_stack(image="other"), "image"),
        (_stack(steps=[{**STEP, "patch": "gone.patch"}]), "steps[0]"),
        (_stack(steps=[{"id": "s", "patch": "gone.patch"}]), "no such file"),
        (_stack(steps=[STEP, STEP]), "steps[1].id"),
        (_stack(steps=[{"id": "s", "replace": {"path": "../x", "find": "a", "with": "b"}}]), "steps[0].replace.path"),
        (_stack(steps=[{"id": "s", "replace": {"path": "/etc/x", "find": "a", "with": "b"}}]), "steps[0].replace.path"),
        ("a: &a [x, x]\nb: &b [*a, *a]\nc: [*b, *b]\n", "alias"),
        ("image: demo\n\tversion: 1\n", "stack.yaml:2"),
        ("- 1\n", "stack.yaml"),
        ("", "stack.yaml"),
        ("\x00", "stack.yaml"),
    ],
)
@pytest.mark.parametrize("command", ["lock", "apply"])
def test_bad_stack(five: Workbench, text: str, message: str, command: str) -> None:
    (five.project / "patches/demo/stack.yaml").write_text(text)
    before = five.snapshot()
    lock_before = (five.project / "patches/demo/stack.lock.json").read_bytes()
    words = ["--from", str(five.root)] if command == "lock" else ["--root", str(five.root)]
    result = five.run(command, "--image", "demo", *words)
    assert result.code == 2
    if command == "lock":
        assert message in result.err
    else:
        assert "patches/demo/stack.yaml: it was changed since the stack was locked" in result.err
    assert "hint: " in result.err
    assert "patchkit lock --image demo" in result.err
    assert five.snapshot() == before
    assert (five.project / "patches/demo/stack.lock.json").read_bytes() == lock_before


def test_every_problem_of_both_files_at_once(bench: Workbench) -> None:
    bench.image(sit="x", digest="sha256:12")
    bench.stack([{"id": "Bad Id", "patch": "gone.patch", "upstream": ["nonsense"]}])
    result = bench.run("lock", "--image", "demo", "--json")
    assert result.code == 2
    messages = [error["message"] for error in result.json["errors"]]
    assert {error["code"] for error in result.json["errors"]} == {"config"}
    for part in ("sit", "digest", "steps[0].id", "steps[0].patch", "steps[0].upstream[0]"):
        assert any(part in message for message in messages), part


def test_an_ambiguous_prefix_and_an_unknown_image(five: Workbench) -> None:
    five.image("demo-two")
    five.image("demolition")
    result = five.run("apply", "--image", "dem")
    assert result.code == 2
    assert "--image 'dem': it names 3 images: demo, demo-two, demolition" in result.err
    assert five.run("apply", "--image", "x").err.splitlines() == [
        f"error: --image 'x': {projects.find(str(five.project)).shown(f'{five.project}/images')} has no such image",
        "hint: its images are: demo, demo-two, demolition",
    ]
    assert five.run("image", "show", "demol").code in {0, 2}


def test_a_tampered_lock(five: Workbench) -> None:
    path = five.project / "patches/demo/stack.lock.json"
    text = path.read_text()
    before = five.snapshot()
    for damaged in (text.replace('"version": 1', '"version": 2', 1), text[:-40], "", "[]", '{"digest": 1}'):
        path.write_text(damaged)
        for command in ("apply", "verify", "status", "diff"):
            result = five.run(command, "--image", "demo", "--root", str(five.root))
            assert result.code == 2, (command, damaged[:30])
            assert "stack.lock.json: " in result.err
    assert five.snapshot() == before


def test_a_lock_that_promises_something_else(five: Workbench) -> None:
    from patchkit.core import lockfile
    from patchkit.core.canonical import sealed

    path = five.project / "patches/demo/stack.lock.json"
    document = json.loads(path.read_text())
    document["steps"][2]["after"]["demo/c.py"]["sha256"] = "0" * 64
    path.write_text(sealed(document))
    assert lockfile.parse(path.read_bytes(), "x").steps[2].after["demo/c.py"] is not None
    before = five.snapshot()
    result = five.run("apply", "--image", "demo", "--root", str(five.root))
    assert result.code == 2
    assert "step c: the lock promises 000000000000 for demo/c.py" in result.err
    assert five.snapshot() == before


def test_a_stale_lock_names_the_file(five: Workbench) -> None:
    for relative in ("images/demo.yaml", "patches/demo/stack.yaml", "patches/demo/b.patch"):
        path = five.project / relative
        text = path.read_text()
        path.write_text(text + "\n")
        result = five.run("apply", "--image", "demo", "--root", str(five.root))
        assert result.code == 2
        assert f"{relative}: it was changed since the stack was locked" in result.err
        path.unlink()
        gone = five.run("apply", "--image", "demo", "--root", str(five.root))
        if relative.startswith("images/"):
            assert "--image 'demo': " in gone.err
        else:
            assert f"{relative}: it is gone since the stack was locked" in gone.err
        path.write_text(text)
    assert five.run("lock", "--check", "--image", "demo").code == 0


def test_no_project(tmp_path: Path) -> None:
    done = patchkit_process("apply", "--image", "x", cwd=tmp_path)
    assert done.returncode == 2
    assert b"neither it nor any folder above holds images/ and patches/" in done.stderr
    done = patchkit_process("apply", "--image", "x", "-C", str(tmp_path))
    assert (done.returncode, b"expected a folder that holds images/ and patches/" in done.stderr) == (2, True)


@pytest.mark.parametrize(
    "words",
    [["aply"], ["apply", "--imag"], ["image"], ["image", "frob"], ["image", "show"], ["lock", "--from"], ["-C"]],
)
def test_wrong_words(words: list[str]) -> None:
    done = patchkit_process(*words)
    assert done.returncode == 2
    error, hint = done.stderr.decode().splitlines()
    assert error.startswith("error: patchkit")
    assert hint.startswith("hint: patchkit")


@pytest.mark.parametrize("command", ["apply", "revert", "verify", "diff", "status", "lock", "image"])
def test_help_has_an_example(command: str) -> None:
    done = patchkit_process(command, "--help")
    assert done.returncode == 0
    assert f"  patchkit {command} ".encode() in done.stdout
    assert b"--json" in done.stdout


def test_a_closed_pipe_is_no_error(five: Workbench) -> None:
    import subprocess
    import sys

    words = [
        sys.executable,
        "-m",
        "patchkit",
        "diff",
        "-C",
        str(five.project),
        "--image",
        "demo",
        "--root",
        str(five.root),
    ]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait() == 0
