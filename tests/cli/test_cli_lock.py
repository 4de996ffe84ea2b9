"""lock: versions, sources, what stays unresolved, and what is never lost."""

from __future__ import annotations

import json
import subprocess
from typing import Any

from .conftest import SITE, Workbench


def test_lock_twice_changes_nothing(five: Workbench) -> None:
    path = five.project / "patches/demo/stack.lock.json"
    before = path.read_bytes(), path.stat().st_mtime_ns
    assert "locked already, nothing to do" in five.lock().out
    assert (path.read_bytes(), path.stat().st_mtime_ns) == before


def test_changed_content_under_a_locked_version(five: Workbench) -> None:
    path = five.project / "patches/demo/stack.lock.json"
    before = path.read_bytes()
    five.edit("a.patch", "demo/a.py", "a_15 = 15\n", "a_15 = 'other'\n")
    words = ("lock", "--image", "demo", "--from", str(five.root))
    result = five.run(*words)
    assert result.code == 2
    assert "patches/demo/stack.yaml: version 1 was locked before with other content" in result.err
    assert "set `version: 2`" in result.err
    assert path.read_bytes() == before
    assert five.run(*words, "--amend").code == 0
    stack = json.loads((five.project / "patches/demo/stack.yaml").read_text())
    five.stack(stack["steps"][:4], version=2)
    assert five.run(*words).code == 0
    five.stack(stack["steps"][:3], version=1)
    assert five.run(*words).code == 2, "an older version was locked with other content, too"


def test_words_that_change_no_byte_keep_the_version(five: Workbench) -> None:
    stack = json.loads((five.project / "patches/demo/stack.yaml").read_text())
    stack["steps"][0]["reason"] = "said better"
    five.stack(stack["steps"])
    five.lock()


def test_a_step_that_does_not_fit_is_refused_and_the_old_lock_stays(five: Workbench) -> None:
    path = five.project / "patches/demo/stack.lock.json"
    before = path.read_bytes()
    (five.site / "demo/c.py").write_text("something else\n")
    result = five.run("lock", "--image", "demo", "--from", str(five.root))
    assert result.code == 3
    assert "step c: conflict" in result.err
    assert path.read_bytes() == before


def test_sources(five: Workbench) -> None:
    clone = five.root.parent / "clone"
    subprocess.run(["cp", "-r", str(five.site), str(clone)], check=True)
    git = ["git", "-C", str(clone), "-c", "user.name=x", "-c", "user.email=x@example.invalid"]
    for words in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "all"]):
        subprocess.run([*git, *words], check=True)
    lock_file = five.project / "patches/demo/stack.lock.json"
    steps = json.loads(lock_file.read_text())["steps"]
    for source in (f"git:{clone}@HEAD", str(clone), str(five.root)):
        assert five.run("lock", "--image", "demo", "--from", source).code == 0, source
        document = json.loads(lock_file.read_text())
        assert document["steps"] == steps, source
        assert document["exact"] is True
    result = five.run("lock", "--image", "demo", "--from", "nonsense")
    assert result.code == 2
    assert "vllm==0.33.0" in result.err


def test_a_managed_root_is_made_from_the_locks_source(five: Workbench) -> None:
    result = five.run("apply", "--image", "demo", "--json")
    assert result.code == 0, result.err
    managed = five.project / ".patchkit/roots/demo"
    assert result.json["target"] == str(managed / SITE)
    made = sorted(p.relative_to(managed / SITE).as_posix() for p in (managed / SITE / "demo").rglob("*"))
    assert made == ["demo/_version.py", *(f"demo/{n}.py" for n in "abcde")]
    assert five.run("verify").code == 0, "the only managed root needs no --image"
    assert five.run("apply", "--json").json["outcome"] == "unchanged"


def test_a_managed_root_grows_with_the_stack_and_is_renewed_with_its_sources(five: Workbench) -> None:
    stack = json.loads((five.project / "patches/demo/stack.yaml").read_text())
    five.stack(stack["steps"][:2])
    five.run("lock", "--image", "demo", "--from", str(five.root), "--amend")
    assert five.run("apply", "--image", "demo").code == 0
    five.stack(stack["steps"], version=2)
    five.lock()
    grown = five.run("apply", "--image", "demo", "--json")
    assert (grown.code, grown.json["outcome"]) == (0, "upgraded")
    (five.site / "demo/a.py").write_text("# newer release\n" + five.pristine("demo/a.py"))
    five.lock()
    renewed = five.run("apply", "--image", "demo", "--json")
    assert renewed.code == 0, renewed.err
    assert "the managed root was renewed: the lock's sources have changed" in renewed.json["notes"]
    patched = five.project / ".patchkit/roots/demo" / SITE / "demo/a.py"
    assert patched.read_text().startswith("# newer release\n")
    assert "a_15 = 'patched'" in patched.read_text()


def test_a_hand_edited_managed_root_is_never_renewed(five: Workbench) -> None:
    assert five.run("apply", "--image", "demo").code == 0
    edited = five.project / ".patchkit/roots/demo" / SITE / "demo/a.py"
    edited.write_text(edited.read_text() + "# mine\n")
    (five.site / "demo/a.py").write_text("# newer release\n" + five.pristine("demo/a.py"))
    five.lock()
    result = five.run("apply", "--image", "demo")
    assert result.code == 4
    assert "rm -r" in result.err
    assert edited.read_text().endswith("# mine\n")


UNRESOLVED: list[dict[str, Any]] = [
    {
        "id": "commit",
        "patch": {"commit": None, "paths": ["demo/a.py"]},
        "upstream": ["example/demo#1"],
        "type": "backport",
    },
    {"id": "pin", "pip": {"requirements": ["demo==1.0"], "index": None}},
]


def test_unresolved_steps(bench: Workbench) -> None:
    mine = bench.edit("b.patch", "demo/b.py", "b_15 = 15\n", "b_15 = 0\n")
    behind = bench.edit("a.patch", "demo/a.py", "a_15 = 15\n", "a_15 = 0\n")
    bench.stack([*UNRESOLVED, mine, behind])
    assert "step commit stays unresolved: the commit of example/demo#1 is not known" in bench.lock().out
    where = ("--image", "demo", "--root", str(bench.root))
    result = bench.run("apply", *where)
    assert result.code == 2
    assert "step commit is unresolved: the commit of example/demo#1 is not known" in result.err
    assert "step pin is unresolved: the package index of demo==1.0 is not known" in result.err
    assert "hint: apply the rest now: --only b" in result.err
    assert bench.run("apply", *where, "--only", "a").code == 2
    assert bench.run("apply", *where, "--only", "b").code == 0
    shown = bench.run("status", *where, "--json").json["steps"]
    assert [step["on_disk"] for step in shown] == ["unresolved", "unresolved", "applied", "blocked"]
