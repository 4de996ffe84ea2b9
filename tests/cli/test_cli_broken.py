"""Stacks that break: what is put back, what is said of it, in words and in JSON."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any

import pytest

from patchkit.core.errors import RefusedByMachineError
from patchkit.core.holding import read_ledger
from patchkit.core.operate import Target, revert
from patchkit.core.site import Site
from patchkit.core.transaction import Transaction
from patchkit.core.values import replace
from tests.core.users import AS_ROOT, as_user

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


def machine_of(bench: Workbench) -> tuple[str, ...]:
    return ("--image", "demo", "--root", "/", "--site", str(bench.site))


def of_root(bench: Workbench) -> tuple[str, ...]:
    """A tree that no step can be looked at on."""
    return ("--image", "demo", "--root", str(bench.root))


def by_id(document: dict[str, Any], key: str = "verdict") -> dict[str, Any]:
    return {step["id"]: step[key] for step in document["steps"]}


def run_step(name: str, script: str, **more: Any) -> dict[str, Any]:
    return {"id": name, "run": {"argv": ["/bin/sh", "-c", script], **more}, "reason": "a test"}


def test_what_was_begun_and_not_finished_is_partial(bench: Workbench) -> None:
    """As after a kill in the middle of the command: on the machine, and where nothing can be looked at."""
    bench.stack(
        [
            bench.edit("a.patch", "demo/a.py", "a_15 = 15\n", "a_15 = 0\n"),
            run_step("make", "touch made", creates="made", revert=["rm", "-f", "made"]),
        ]
    )
    bench.lock()
    assert bench.run("apply", *machine_of(bench)).code == 0
    status = bench.run("status", "--on-disk", *of_root(bench), "--json").json
    assert by_id(status, "on_disk") == {"a": "applied", "make": "applied"}
    assert status["notes"][-1] == "not looked at, since only the running machine tells: make"
    with Site(str(bench.site)) as site:
        ledger = read_ledger(site)
        assert ledger is not None
        first, step = ledger.steps
        begun = replace(step, effect={**(step.effect or {}), "state": "begun"})
        Transaction(site).commit([], ledger, replace(ledger, steps=(first, begun), complete=False), "as if killed")
    (bench.site / "made").unlink()
    for where in (machine_of(bench), of_root(bench)):
        status = bench.run("status", "--on-disk", *where, "--json").json
        assert by_id(status, "on_disk") == {"a": "applied", "make": "partial"}
        assert status["steps"][1]["detail"].startswith("an earlier run has begun it and not finished it")
        verified = bench.run("verify", *where, "--json")
        assert (verified.code, by_id(verified.json)) == (4, {"a": "applied", "make": "partial"})
    assert "\n  make  partial\n" in bench.run("verify", *of_root(bench)).out
    (bench.site / "demo/a.py").write_text("")
    drifted = bench.run("verify", *of_root(bench), "--json").json
    assert by_id(drifted) == {"a": "drifted", "make": "partial"}
    assert by_id(bench.run("apply", *machine_of(bench), "--json").json) == {"a": "drifted", "make": "partial"}


def test_a_begun_step_of_another_stage_stays_begun(bench: Workbench) -> None:
    late = run_step("late", "touch late", creates="late", revert=["rm", "-f", "late"], stage="runtime")
    bench.stack([bench.edit("a.patch", "demo/a.py", "a_15 = 15\n", "a_15 = 0\n"), late])
    bench.lock()
    assert bench.run("apply", *machine_of(bench)).code == 0
    with Site(str(bench.site)) as site:
        ledger = read_ledger(site)
        assert ledger is not None
        first, step = ledger.steps
        begun = replace(step, effect={**(step.effect or {}), "state": "begun"})
        Transaction(site).commit([], ledger, replace(ledger, steps=(first, begun), complete=False), "as if killed")
    (bench.site / "late").unlink()
    done = bench.run("apply", *machine_of(bench), "--stage", "build", "--json")
    assert (done.code, by_id(done.json)) == (0, {"a": "applied", "late": "deferred"})
    verified = bench.run("verify", *machine_of(bench), "--json")
    assert (verified.code, by_id(verified.json)) == (4, {"a": "applied", "late": "partial"})
    assert bench.run("apply", *machine_of(bench)).code == 0
    assert bench.run("verify", *machine_of(bench)).code == 0


def test_an_effect_that_is_gone_is_drift_of_its_step(bench: Workbench) -> None:
    bench.stack(
        [
            bench.edit("a.patch", "demo/a.py", "a_15 = 15\n", "a_15 = 0\n"),
            run_step("make", "touch made", creates="made", revert=["rm", "-f", "made"]),
        ]
    )
    bench.lock()
    assert bench.run("apply", *machine_of(bench)).code == 0
    (bench.site / "made").unlink()
    gone = "step make (run): it does not hold any more that made is there"
    verified = bench.run("verify", *machine_of(bench), "--json")
    assert (verified.code, by_id(verified.json)) == (4, {"a": "applied", "make": "drifted"})
    assert by_id(verified.json, "detail")["make"] == gone
    assert f"\n  make  drifted\n      {gone}\n" in bench.run("verify", *machine_of(bench)).out
    (bench.site / "demo/a.py").write_text("")
    both = bench.run("verify", *machine_of(bench), "--json").json
    assert by_id(both) == {"a": "drifted", "make": "drifted"}
    assert [error["message"] for error in both["errors"]][1:] == [gone]


def test_a_package_that_moved_is_drift_of_its_step(machine: Machine) -> None:
    machine.stack(pip_step("kern==2.0"))
    assert machine.run("apply").code == 0
    machine.pip("kern==1.0")
    assert by_id(machine.run("verify", "--json").json) == {"kern": "drifted"}


def kept(bench: Workbench) -> list[str]:
    return [path.read_text() for path in bench.project.parent.glob("patchkit-*.log")]


@pytest.mark.parametrize("script", ["exit 7", "sleep 9", "echo why; exit 7", "seq 1 5000; exit 7", "echo why; sleep 9"])
def test_the_output_of_a_run_that_failed_is_kept(bench: Workbench, script: str) -> None:
    """All of it, that of the steps before as well; and nobody is sent to an output that there is not."""
    before = bench.snapshot().keys()
    bench.stack([run_step("one", "echo first", revert=["true"]), run_step("bad", script, revert=["true"], timeout=1)])
    bench.lock()
    result = bench.run("apply", *machine_of(bench))
    assert result.code == 8
    (log,) = kept(bench)
    assert log.startswith("one: ran /bin/sh -c 'echo first': exit status 0, ")
    assert "\nfirst\n" in log
    told = "why\n" if "why" in script else "".join(f"{n}\n" for n in range(1, 5001)) if "seq" in script else ""
    assert log.endswith(told)
    assert f"error: what the commands printed is kept in {bench.project.parent}/patchkit-" in result.err
    assert ("see its output above" in result.err) == bool(told)
    assert bench.snapshot().keys() == before


def test_without_output_nothing_is_kept(bench: Workbench) -> None:
    bench.stack([run_step("bad", "exit 7", revert=["true"])])
    bench.lock()
    assert "hint: correct the step or the machine, then" in bench.run("apply", *machine_of(bench)).err
    assert kept(bench) == []


def test_the_json_of_a_run_that_failed(bench: Workbench) -> None:
    """Which image, stack and tree; how each step stands; and hints only where they are about something."""
    bench.stack(
        [
            bench.edit("a.patch", "demo/a.py", "a_15 = 15\n", "a_15 = 0\n"),
            run_step("one", "true", revert=["true"]),
            run_step("two", "echo said; exit 3"),
            bench.edit("b.patch", "demo/b.py", "b_15 = 15\n", "b_15 = 0\n"),
        ]
    )
    bench.lock()
    result = bench.run("apply", *machine_of(bench), "--json")
    assert result.code == 8
    found = result.json
    assert (found["image"], found["stack"]["version"], found["target"]) == ("demo", 1, str(bench.site))
    assert by_id(found) == {"a": "applies", "one": "applies", "two": "partial", "b": None}
    assert by_id(found, "detail")["one"] == "rolled back"
    errors = [(error["message"].partition(":")[0], bool(error["hint"])) for error in found["errors"]]
    assert errors == [
        ("step two (run)", True),
        ("rolled back", False),
        ("step two (run)", False),
        ("rolled back", False),
        (f"what the commands printed is kept in {next(bench.project.parent.glob('patchkit-*.log'))}", False),
    ]


def test_the_json_of_a_revert_that_failed(bench: Workbench) -> None:
    bench.stack([run_step("one", "true", revert=["true"]), run_step("two", "true", revert=["false"])])
    bench.lock()
    assert bench.run("apply", *machine_of(bench)).code == 0
    outside_of_it = bench.run("revert", *of_root(bench), "--json")
    assert (outside_of_it.code, by_id(outside_of_it.json)) == (8, {"one": "applied", "two": "applied"})
    result = bench.run("revert", *machine_of(bench), "--json")
    assert (result.code, by_id(result.json)) == (8, {"one": "applies", "two": "partial"})
    assert result.json["target"] == str(bench.site)


def test_what_the_machine_lacks(bench: Workbench) -> None:
    """`status` says it, and the hint is one that can be followed."""
    tune = run_step("tune", "true", needs=["nosuchcc", "sh"], stage="runtime")
    bench.stack([bench.edit("a.patch", "demo/a.py", "a_15 = 15\n", "a_15 = 0\n"), tune])
    bench.lock()
    status = bench.run("status", "--on-disk", *machine_of(bench), "--json").json
    assert by_id(status, "on_disk")["tune"] == "applies"
    assert by_id(status, "detail")["tune"] == (
        "would run: /bin/sh -c true\ncannot run here: needs nosuchcc (it is not on PATH)"
    )
    refused = bench.run("apply", *machine_of(bench))
    assert refused.code == 8
    assert refused.err == (
        "error: step tune (run): cannot run here: needs nosuchcc (it is not on PATH); run it later: apply --stage"
        " runtime\nhint: apply the rest now: apply --stage build\n"
    )
    late = bench.run("apply", *machine_of(bench), "--stage", "runtime")
    assert late.code == 8
    assert late.err == (
        "error: step tune (run): cannot run here: needs nosuchcc (it is not on PATH)\n"
        "hint: run it where there is: nosuchcc\n"
    )
    asked = bench.run("apply", *machine_of(bench), "--stage", "runtime", "--json").json
    assert (asked["image"], by_id(asked)) == ("demo", {"a": None, "tune": None})


@pytest.mark.skipif(not AS_ROOT, reason="only root can be somebody else")
def test_who_may_not_revert_is_told_so(machine: Machine) -> None:
    """With replaced packages beside the ledger as without: nothing was changed, nothing is left behind."""
    machine.pip("kern==1.0")
    machine.stack(machine.first(), pip_step("kern==2.0"))
    assert machine.run("apply").code == 0
    before = contents(machine.site)
    for above in list(machine.site.parents)[:-2]:
        above.chmod(above.stat().st_mode | 0o055)

    def refused() -> None:
        with Site(str(machine.site)) as site:
            try:
                revert("demo", Target(site=site, label="here", is_machine=True))
            except RefusedByMachineError as error:
                raise RefusedByMachineError(*error.problems, f"hint: {error.hint}") from None

    kind, text = as_user(refused)
    assert kind is RefusedByMachineError
    assert text == (
        f"cannot change {machine.site}; nothing was changed: {machine.site}/.patchkit/journal.json.tmp: Permission denied\nhint: run it as the owner of the files,"
        " or as root"
    )
    assert contents(machine.site) == before
