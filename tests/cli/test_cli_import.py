"""import: a legacy apply script becomes a stack that does the same; everything that cannot is named."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
from pathlib import Path
from typing import Any

import pytest

from .conftest import Workbench, contents

LEGACY = Path(__file__).parents[1] / "cases" / "legacy"
SCRIPT = LEGACY / "apply_patches.sh"
SITE = "usr/local/lib/python3.12/dist-packages"
DIFF = """\
--- a/demo/a.py
+++ b/demo/a.py
@@ -1,4 +1,4 @@
 a_1 = 1
-a_2 = 2
+a_2 = 'two'
 a_3 = 3
 a_4 = 4
"""


@pytest.fixture
def legacy(bench: Workbench) -> Workbench:
    """The image that the legacy script was written for, with its pristine tree."""
    bench.image(site=SITE, identity=None)
    shutil.copytree(LEGACY / "tree", bench.root / SITE, dirs_exist_ok=True)
    return bench


def script(bench: Workbench, text: str, name: str = "apply.sh") -> str:
    path = bench.project / name
    path.write_text(text)
    return str(path)


def good_path(tree: Path, tools: Path) -> str:
    """Run the legacy script for real on `tree`, without a network: what fetches, fails."""
    tools.mkdir()
    python = shutil.which("python3", path="/usr/bin:/bin") or shutil.which("python3")
    for name in ("pip", "curl", "wget"):
        (tools / name).write_text("#!/bin/sh\nexit 22\n")
    (tools / "python3").write_text(f'#!/bin/sh\n[ "$1" = -m ] && exit 22\nexec {python} "$@"\n')
    for tool in tools.iterdir():
        tool.chmod(0o755)
    environment = {**os.environ, "PATH": f"{tools}:{os.environ['PATH']}", "SITE": str(tree)}
    done = subprocess.run(["bash", str(SCRIPT)], env=environment, capture_output=True, text=True, check=False)
    return done.stdout


def file_steps(document: dict[str, Any]) -> list[str]:
    return [step["id"] for step in document["steps"] if step["kind"] in ("patch", "replace") and not step["unresolved"]]


def test_the_stack_does_what_the_script_does(legacy: Workbench, tmp_path: Path) -> None:
    assert len(SCRIPT.read_text("latin-1").splitlines()) >= 600
    by_script = tmp_path / "by-script"
    shutil.copytree(LEGACY / "tree", by_script)
    said = good_path(by_script, tmp_path / "tools")
    assert said.rstrip().endswith("DONE"), "the script ends in DONE whatever happens"
    assert "0001-mla-small-heads: OK" in said

    result = legacy.run("import", str(SCRIPT), "--image", "demo", "--json")
    assert result.code == 5, result.err
    document = result.json
    steps = file_steps(document)
    assert sum(step["kind"] == "patch" for step in document["steps"]) == 14  # 12, one beside it, one by address
    assert len(steps) == 13 + 5
    lock = legacy.run("lock", "--image", "demo", "--from", str(legacy.root))
    assert lock.code == 0, lock.err + lock.out
    applied = legacy.run("apply", "--image", "demo", "--root", str(legacy.root), "--only", ",".join(steps))
    assert applied.code == 0, applied.err + applied.out

    shutil.rmtree(legacy.root / SITE / ".patchkit")
    shutil.rmtree(by_script / "aiter_meta" / "hsa")  # an empty folder for what is fetched
    assert contents(legacy.root / SITE) == contents(by_script)
    assert (by_script / "vllm/launch.py").stat().st_mode & stat.S_IXUSR
    assert contents(by_script) != contents(LEGACY / "tree")


def test_what_is_left_to_a_person(legacy: Workbench) -> None:
    document = legacy.run("import", str(SCRIPT), "--image", "demo", "--json").json
    lines = SCRIPT.read_text("latin-1").splitlines()
    found = {finding["code"]: lines[finding["line"] - 1].strip() for finding in document["findings"]}
    assert found == {
        "condition": 'python3 -m aiter.jit.rebuild module_mla_asm || log "rebuild: FAILED"',
        "missing-file": 'git -C "$SITE" apply "$HERE/patches/0014-not-in-the-repository.patch" 2>/dev/null'
        ' || log "0014: FAILED"',
        "sed": "sed -i 's/heads: 12/heads: 16/' \"$WORK/recipe.yaml\"",
    }
    dropped = {entry["what"]: entry["why"] for entry in document["dropped"]}
    assert "patchkit never uses it" in dropped["--fuzz=3"]
    for what in ("-k", "--insecure", "--no-check-certificate"):
        assert dropped[what] == "TLS certificates are always checked"
    assert "moves" in dropped["the address https://github.com/ROCm/aiter/pull/4521.diff"]
    assert "anything" not in dropped
    assert "stops everything" in dropped["`|| true`"]
    assert "`patch -R -p1`" in dropped, "a function that nothing calls is named"
    assert document["errors"][0]["code"] == "finding"


def test_what_the_script_does_not_say_is_null(legacy: Workbench) -> None:
    legacy.run("import", str(SCRIPT), "--image", "demo")
    text = (legacy.project / "patches/demo/stack.yaml").read_text()
    assert "patch: {commit: null, paths: null}" in text
    assert 'upstream: ["ROCm/aiter#4521"]' in text
    assert "{name: tabulate, version: null}" in text
    assert "file: {path: aiter/tuned.csv, url: null, sha256: null}" in text
    assert text.count("sha256: null") == 3
    lock = legacy.run("lock", "--image", "demo", "--from", str(legacy.root))
    assert "`ROCm/aiter@` and its 40-digit merge commit" in lock.out


def test_embedded_bytes_survive(legacy: Workbench) -> None:
    legacy.run("import", str(SCRIPT), "--image", "demo")
    folder = legacy.project / "patches/demo"
    first = (folder / "0001-mla-small-heads.patch").read_bytes()
    assert first.startswith(b"Description: imported from apply_patches.sh, lines 103, 139\n")
    script_bytes = SCRIPT.read_bytes()
    assert first[first.index(b"diff --git") :] in script_bytes
    assert b"\n\n" in first[first.index(b"@@") :], "blank context lines stay as stripped as they were"
    assert b"Heads: 12, padded to 16\r\n" in (folder / "notes.diff").read_bytes()
    assert b'"J\xf6rg"' in (folder / "credits.patch").read_bytes()
    mail = (folder / "launch.patch").read_bytes()
    assert mail.startswith(b"From 0cbedbb1")
    assert mail in script_bytes


def test_dry_run_writes_nothing(legacy: Workbench) -> None:
    before = contents(legacy.project)
    dry = legacy.run("import", str(SCRIPT), "--image", "demo", "--dry-run")
    assert contents(legacy.project) == before
    assert dry.code == 5
    assert "would write: patches/demo/0001-mla-small-heads.patch" in dry.out
    as_json = legacy.run("import", str(SCRIPT), "--image", "demo", "--dry-run", "--json").json
    assert as_json["outcome"] == "planned"
    legacy.run("import", str(SCRIPT), "--image", "demo")
    planned = {entry["path"]: entry["content"] for entry in as_json["files"]}
    stack = (legacy.project / "patches/demo/stack.yaml").read_text()
    assert planned["patches/demo/stack.yaml"] == stack
    assert stack in dry.out + "\n"


def test_nothing_is_overwritten(legacy: Workbench) -> None:
    assert legacy.run("import", str(SCRIPT), "--image", "demo").code == 5
    before = contents(legacy.project)
    again = legacy.run("import", str(SCRIPT), "--image", "demo")
    assert again.code == 2
    assert "stack.yaml: it has a step triton already" in again.err
    assert "0001-mla-small-heads.patch: it is there already" in again.err
    assert contents(legacy.project) == before


def simple(bench: Workbench, more: str = "") -> str:
    return script(bench, f"cd /usr/lib/python3/dist-packages\ngit apply <<'EOF'\n{DIFF}EOF\n{more}")


def test_everything_translated_is_0(bench: Workbench) -> None:
    result = bench.run("import", simple(bench), "--image", "demo", "--json")
    assert result.code == 0, result.err
    assert result.json["outcome"] == "applied"
    assert result.json["written"] == ["patches/demo/a.patch", "patches/demo/stack.yaml"]
    bench.lock()
    assert bench.run("apply", "--image", "demo", "--root", str(bench.root)).code == 0
    assert "a_2 = 'two'" in bench.pristine("demo/a.py")


def test_appends_and_keeps_comments(bench: Workbench) -> None:
    bench.edit("b.patch", "demo/b.py", "b_15 = 15\n", "b_15 = 'new'\n")
    path = bench.project / "patches/demo/stack.yaml"
    path.write_text(
        "# first\nimage: demo\nversion: 3 # kept\nsteps:\n# before\n- id: b\n  patch: b.patch # why\n"
        "  type: local\n  # inside\n\n# about governed\ngoverned: true\n# last\n"
    )
    bench.lock()
    result = bench.run("import", simple(bench), "--image", "demo", "--json")
    assert result.code == 0, result.err
    assert path.read_text() == (
        "# first\nimage: demo\nversion: 3 # kept\nsteps:\n# before\n- id: b\n  patch: b.patch # why\n"
        "  type: local\n  # inside\n\n- id: a\n  patch: a.patch\n  type: local\n"
        '  reason: "Imported from apply.sh, lines 2, 3."\n\n# about governed\ngoverned: true\n# last\n'
    )
    assert result.json["version"] == {"now": 3, "proposed": 4}
    assert any("set `version: 4`" in note for note in result.json["notes"])
    refused = bench.run("lock", "--image", "demo", "--from", str(bench.root))
    assert refused.code == 2, "the version is proposed, not changed"


@pytest.mark.parametrize("steps", ["steps: []\n", "steps: [] # none yet\n"])
def test_an_empty_stack(bench: Workbench, steps: str) -> None:
    path = bench.project / "patches/demo/stack.yaml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"image: demo\nversion: 1\n{steps}")
    assert bench.run("import", simple(bench), "--image", "demo").code == 0
    bench.lock()
    assert ("# none yet" in path.read_text()) is ("none" in steps)


def test_a_stack_in_flow_form_is_refused(bench: Workbench) -> None:
    bench.stack([bench.edit("b.patch", "demo/b.py", "b_15 = 15\n", "b_15 = 0\n")])
    before = contents(bench.project)
    path = simple(bench)
    result = bench.run("import", path, "--image", "demo")
    assert result.code == 2
    assert "steps cannot be added to it as it is written" in result.err
    Path(path).unlink()
    assert contents(bench.project) == before


BAD = {
    "empty": (b"", "it is empty"),
    "blank": (b"\n \n", "it is empty"),
    "binary": (b"#!/bin/sh\n\x00\x01", ":2: it is binary"),
    "python": (b"#!/usr/bin/env python3\nprint(1)\n", ":1: it is a script for python3, not for a shell"),
    "crlf": (b"#!/bin/sh\r\necho\r\n", "CR LF"),
    "heredoc": (b"echo\ncat > x <<'EOF'\n--- a/x\n", ":2: a here-document that is never closed: no line is 'EOF' alone"),
    "quote": (b'echo\n\necho "x\n', ':3: a " that is never closed'),
    "if": (b"if true; then\n  echo\n", ":2: expected 'fi' here, or before"),
    "done": (b"echo\nfor x in a; do\n  echo $x\n", ":3: expected 'done' here, or before"),
    "stray": (b"echo\n}\n", ":2: not expected here: }"),
    "prose": (b"This is (no script: at all.\n", ":1: "),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_bad_scripts(bench: Workbench, name: str) -> None:
    data, message = BAD[name]
    path = bench.project / "bad.sh"
    path.write_bytes(data)
    result = bench.run("import", str(path), "--image", "demo")
    assert result.code == 2, result.out
    assert "bad.sh" in result.err
    assert message in result.err
    assert not (bench.project / "patches/demo").exists() or not any((bench.project / "patches/demo").iterdir())


def test_other_forms_have_a_clear_error(bench: Workbench, tmp_path: Path) -> None:
    for form, word in (
        ("vllm-project/vllm#51682", "a pull request"),
        ("https://github.com/vllm-project/vllm/pull/51682", "a pull request"),
        ("https://example.invalid/apply.sh", "an address"),
        ("fix.patch", "a patch file"),
        (str(tmp_path), "a directory"),
    ):
        result = bench.run("import", form, "--image", "demo")
        assert result.code == 2
        assert f"{word}: only scripts can be imported so far" in result.err
    missing = bench.run("import", str(tmp_path / "none.sh"), "--image", "demo")
    assert missing.code == 2
    assert "there is no such file" in missing.err
    assert bench.run("import", simple(bench), "--image", "demo", "--set", "nothing").code == 2


def test_what_overlays_the_site_is_named(bench: Workbench) -> None:
    lines = [
        "SITE=/usr/lib/python3/dist-packages",
        "cp /opt/overlay/fix.py $SITE/",
        "cp -r /opt/overlay/. $SITE",
        "cp /opt/y.py ./",
        "rsync -a /opt/overlay/ $SITE",
        "curl -o /opt/rocm/lib/a.so https://x.example/a.so",
        "cp x.so /opt/rocm/lib/",
        "curl https://x.example/a | sha256sum -c",
        "rm -rf /usr/lib/python3",
    ]
    result = bench.run("import", simple(bench, "\n".join(lines) + "\n"), "--image", "demo", "--dry-run")
    assert result.code == 5
    assert "1 step from" in result.out
    assert "lines 2, 3: demo/a.py" in result.out
    first = DIFF.count("\n") + 4
    for number, line in enumerate(lines[1:], start=first + 1):
        assert f"apply.sh:{number}: `{line.split(' |')[0]}`" in result.out, line
    assert f"{len(lines) - 1} places need a person; nothing was written" in result.err


def test_nothing_to_import(bench: Workbench) -> None:
    result = bench.run("import", script(bench, "echo hello\n"), "--image", "demo", "--json")
    assert result.code == 0
    assert result.json["outcome"] == "unchanged"
    assert result.json["written"] == []


def test_the_script_is_never_run(bench: Workbench, tmp_path: Path) -> None:
    trap = tmp_path / "ran"
    text = f"touch {trap}\nX=$(touch {trap})\neval 'touch {trap}'\nbash -c 'touch {trap}'\n"
    text += f'python3 -c \'open("{trap}", "w").write("x")\'\ncat <<EOF\n$(touch {trap})\nEOF\n'
    bench.run("import", script(bench, text), "--image", "demo")
    assert not trap.exists()


def test_a_variable_may_be_given(bench: Workbench) -> None:
    text = f'D=$(python3 -c "import demo; print(demo.__path__[0])")\ncd "$D"\npatch -p2 <<\'EOF\'\n{DIFF}EOF\n'
    path = script(bench, text)
    result = bench.run("import", path, "--image", "demo")
    assert result.code == 5
    assert "a directory that is not constant" in result.out
    assert "--set NAME=VALUE" in result.out
    given = "D=/usr/lib/python3/dist-packages/demo"
    result = bench.run("import", path, "--image", "demo", "--set", given, "--json")
    assert [step["id"] for step in result.json["steps"]] == ["a"]
    assert "strip: 2\n    prefix: demo" in (bench.project / "patches/demo/stack.yaml").read_text()
