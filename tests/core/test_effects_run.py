"""`run` steps on a machine: order, evidence, failure and roll-back, kills, upgrades, revert; with real commands."""

from __future__ import annotations

import fcntl
import os
import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from patchkit.core import inspect, operate, runs
from patchkit.core.errors import BusyError, DriftError, PatchkitError, RefusedByMachineError
from patchkit.core.holding import read_ledger
from patchkit.core.site import Site

from .stacks import Stack, build, diff, leftovers, listing, numbered, opened, snapshot, verdicts, write_tree

if TYPE_CHECKING:
    from patchkit.core.report import Report

TREE: dict[str, Any] = {"a.txt": numbered(), "b.txt": numbered(), "pkg/c.py": "x = 1\n"}
A = diff({"a.txt": numbered()}, {"a.txt": numbered(_7="first")})
A2 = diff({"a.txt": numbered()}, {"a.txt": numbered(_9="second")})
B = diff({"b.txt": numbered()}, {"b.txt": numbered(_3="third")})


def sh(script: str, **more: Any) -> dict[str, Any]:
    return {"argv": ["/bin/sh", "-c", script], **more}


def apply(stack: Stack, path: Path, **options: Any) -> Report:
    with opened(path, is_machine=True) as target:
        return operate.apply(stack.request(**options), target)


def revert(path: Path, **options: Any) -> Report:
    with opened(path, is_machine=True) as target:
        return operate.revert("test-image", target, **options)


def verify(stack: Stack, path: Path) -> Report:
    with opened(path, is_machine=True) as target:
        return operate.verify(stack.lock, target)


def ledger(path: Path) -> Any:
    with Site(str(path)) as site:
        return read_ledger(site)


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return write_tree(tmp_path / "site", TREE)


def test_it_runs_between_the_files_before_and_after_it(root: Path) -> None:
    """The command sees the files before it, the patch after it fits what the command made."""
    made = numbered(_7="first", _20="made")
    after = diff({"made.txt": made}, {"made.txt": made.replace("line 2\n", "patched\n")})
    script = "sed s/'line 20'/made/ a.txt > made.txt; echo said; echo $GREETING >&2"
    steps = {"a": A, "make": sh(script, creates="made.txt", env=[["GREETING", "hello"]], revert=["rm", "made.txt"])}
    stack = build({**TREE, "made.txt": made}, {**steps, "after": after})
    before = snapshot(root)
    with opened(root, is_machine=True) as target:
        planned = operate.apply(stack.request(dry_run=True), target)
    assert verdicts(planned) == {"a": "applies", "make": "applies", "after": "deferred"}
    assert planned.steps[1].detail == (
        f"would run: /bin/sh -c {chr(39)}{script.replace(chr(39), chr(39) + chr(34) + chr(39) + chr(34) + chr(39))}{chr(39)}",
    )
    assert planned.steps[2].detail[0] == "judged again after step make; on the tree as it is now: missing"
    assert snapshot(root) == before
    report = apply(stack, root)
    assert (report.outcome.value, verdicts(report)) == (
        "applied",
        {"a": "applies", "make": "applies", "after": "applies"},
    )
    assert report.steps[1].detail[0].startswith("ran /bin/sh -c ")
    assert (root / "made.txt").read_text().splitlines()[1] == "patched"
    held = ledger(root)
    assert held.complete
    assert [step.id for step in held.steps] == ["a", "make", "after"]
    assert (held.steps[1].effect["state"], held.steps[1].effect["status"]) == ("done", 0)
    log = (root / ".patchkit/log").read_text()
    assert "\n    said\n    hello\n" in log
    state = listing(root)
    again = apply(stack, root)
    assert (again.outcome.value, verdicts(again)) == ("unchanged", dict.fromkeys(("a", "make", "after"), "applied"))
    assert listing(root) == state
    assert verify(stack, root).outcome.value == "clean"
    assert revert(root).outcome.value == "reverted"
    assert snapshot(root) == before


def test_what_is_there_already_is_not_run(root: Path) -> None:
    stack = build(TREE, {"a": A, "never": sh("exit 9", unless={"path": "pkg/c.py", "sha256": None, "argv": None})})
    report = apply(stack, root)
    assert verdicts(report) == {"a": "applies", "never": "upstream"}
    assert verdicts(apply(stack, root)) == {"a": "applied", "never": "upstream"}
    assert revert(root).outcome.value == "reverted"


def test_a_question_may_be_a_command(root: Path) -> None:
    unless = {"path": None, "sha256": None, "argv": ["grep", "-q", "first", "a.txt"]}
    stack = build(TREE, {"a": A, "never": sh("exit 9", unless=unless)})
    assert verdicts(apply(stack, root)) == {"a": "applies", "never": "upstream"}, "step a brings it about"


def test_a_failing_step_rolls_back_the_files_of_the_run(root: Path) -> None:
    steps = {
        "a": A,
        "one": sh("touch one", creates="one", revert=["rm", "one"]),
        "b": B,
        "two": sh("echo partly > two; echo reason; exit 3"),
    }
    stack = build(TREE, steps)
    before = snapshot(root)
    with pytest.raises(RefusedByMachineError) as caught:
        apply(stack, root)
    (log,) = root.parent.glob("patchkit-*.log")
    assert caught.value.problems == (
        "step two (run): `/bin/sh -c 'echo partly > two; echo reason; exit 3'` failed: exit status 3\n    reason",
        "rolled back: every file of the stack is as it was before this run",
        "step two (run): what its command did is not undone: the step names no `revert`",
        "rolled back: step one (run)",
        f"what the commands printed is kept in {log}",
    )
    assert log.read_text().endswith("failed: exit status 3\nreason\n")
    (root / "two").unlink()
    assert snapshot(root) == before
    assert not leftovers(root)


def test_a_failing_upgrade_comes_back_to_the_old_version(root: Path) -> None:
    first = build(TREE, {"a": A, "b": B})
    assert apply(first, root).outcome.value == "applied"
    before = {p: s for p, s in snapshot(root).items() if "/log" not in p}
    second = build(TREE, {"a": A2, "bad": sh("exit 1")}, version=2)
    with pytest.raises(RefusedByMachineError, match="rolled back: every file of the stack"):
        apply(second, root)
    assert {p: s for p, s in snapshot(root).items() if "/log" not in p} == before
    assert verify(first, root).outcome.value == "clean"


def test_a_promise_that_does_not_hold(root: Path) -> None:
    stack = build(TREE, {"a": A, "lie": sh("true", creates="nothing")})
    before = snapshot(root)
    with pytest.raises(RefusedByMachineError) as caught:
        apply(stack, root)
    assert caught.value.problems[0] == (
        "step lie (run): `/bin/sh -c true` ended with 0, but it does not hold that nothing is there"
    )
    assert snapshot(root) == before


def test_a_conflict_after_a_step_rolls_back_too(root: Path) -> None:
    stack = build(TREE, {"a": A, "breaks": sh("echo other > b.txt", revert=["true"]), "b": B})
    with pytest.raises(PatchkitError) as caught:
        apply(stack, root)
    assert caught.value.exit_code == 3
    assert caught.value.problems[0].startswith("step b: conflict")
    assert caught.value.problems[-2:] == (
        "rolled back: the files of the stack; what a step changed and did not put back: b.txt",
        "rolled back: step breaks (run)",
    )
    assert (root / "a.txt").read_text() == numbered()
    assert ledger(root) is None


def test_a_step_must_leave_patched_files_alone(root: Path) -> None:
    stack = build(TREE, {"a": A, "meddles": sh("echo >> a.txt")})
    with pytest.raises(DriftError, match=r"step meddles \(run\): it changed a\.txt, which step a had patched"):
        apply(stack, root)
    assert (root / "a.txt").read_text() == numbered()


def is_running(pid: int) -> bool:
    """Whether the process is there and not merely waiting to be buried."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().split()[2] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_a_timeout_kills_the_whole_group(root: Path) -> None:
    stack = build(TREE, {"slow": sh("sleep 77 & echo $! > child; wait", timeout=1)})
    with pytest.raises(RefusedByMachineError, match="failed: it was killed after its timeout of 1 s"):
        apply(stack, root)
    child = int((root / "child").read_text())
    deadline = time.monotonic() + 30
    while is_running(child):
        assert time.monotonic() < deadline, "the whole group was to be killed"
        time.sleep(0.01)
    with pytest.raises(
        RefusedByMachineError, match=r"step x \(run\): /no/such: cannot be started: No such file or directory"
    ):
        apply(build(TREE, {"x": {"argv": ["/no/such"]}}), root)


def test_what_the_machine_lacks_is_said_before_anything_is_touched(root: Path) -> None:
    stack = build(TREE, {"a": A, "rebuild": sh("true", needs=["nosuchcc", "network"])}, stages={"rebuild": "runtime"})
    before = snapshot(root)
    with pytest.raises(RefusedByMachineError) as caught:
        apply(stack, root)
    assert str(caught.value) == (
        "step rebuild (run): cannot run here: needs nosuchcc (it is not on PATH); run it later: apply --stage runtime"
    )
    assert caught.value.hint == "apply the rest now: apply --stage build"
    assert snapshot(root) == before
    assert verdicts(apply(stack, root, stage="build")) == {"a": "applies", "rebuild": "deferred"}
    assert verify(stack, root).notes == ("not applied here: rebuild",)
    assert apply(stack, root, stage="build").outcome.value == "unchanged"


def test_a_question_that_cannot_be_asked_is_no_yes(root: Path) -> None:
    """What the step needs is missing before its own `unless` is: that is what is said."""
    unless = {"path": None, "sha256": None, "argv": ["nosuchcc", "--version"]}
    stack = build(TREE, {"a": A, "rebuild": sh("true", needs=["nosuchcc"], unless=unless)})
    with pytest.raises(RefusedByMachineError, match=r"step rebuild \(run\): cannot run here: needs nosuchcc"):
        apply(stack, root)
    assert not leftovers(root)


HEAD = "Iface Destination Gateway Flags RefCnt Use Metric Mask MTU Window IRTT\n"
LO = f"{'0' * 31}1 80 {'0' * 32} 00 {'0' * 32} 00000000 00000002 00000000 80200001 lo\n"
NOWHERE = f"{'0' * 32} 00 {'0' * 32} 00 {'0' * 32} ffffffff 00000001 00000000 00200200 lo\n"
LINK = f"fe80{'0' * 28} 40 {'0' * 32} 00 {'0' * 32} 00000100 00000002 00000000 00000001 eth0\n"
MANY = f"ff{'0' * 30} 08 {'0' * 32} 00 {'0' * 32} 00000100 00000002 00000000 00000001 eth0\n"
GLOBAL = f"{'0' * 32} 00 {'0' * 32} 00 fd{'0' * 29}1 00000400 00000003 00000000 00000003 eth0\n"


@pytest.mark.parametrize(
    ("four", "six", "there"),
    [
        (HEAD + "eth0 00000000 010200C0 0003 0 0 0 00000000 0 0 0\n", None, True),
        (HEAD + "eth0 000200C0 00000000 0001 0 0 0 00FFFFFF 0 0 0\n", "", True),
        (HEAD + "eth0 00000000 010200C0 0000 0 0 0 00000000 0 0 0\n", "", False),
        (HEAD + "* 00000000 00000000 0201 0 0 0 00000000 0 0 0\n", "", False),
        (HEAD + "lo 0000007F 00000000 0001 0 0 0 000000FF 0 0 0\n", LO + NOWHERE, False),
        (HEAD, LO + LINK + MANY + NOWHERE, False),
        (HEAD, LO + LINK + GLOBAL, True),
        ("", None, False),
        (None, None, True),
    ],
)
def test_is_there_a_network(tmp_path: Path, four: str | None, six: str | None, there: bool) -> None:
    """By the kernel's tables of routes."""
    for name, text in (("route", four), ("ipv6_route", six)):
        if text is not None:
            (tmp_path / name).write_text(text)
    assert runs.has_network(str(tmp_path)) is there


def test_the_runtime_stage_comes_on_top(root: Path) -> None:
    stack = build(TREE, {"a": A, "late": sh("touch late", creates="late")}, stages={"late": "runtime"})
    apply(stack, root, stage="build")
    assert verdicts(apply(stack, root, stage="runtime")) == {"a": "applied", "late": "applies"}
    assert apply(stack, root, stage="runtime").outcome.value == "unchanged"
    assert apply(stack, root).outcome.value == "unchanged"


def test_a_step_that_names_no_revert(root: Path) -> None:
    stack = build(TREE, {"a": A, "make": sh("touch made", creates="made")})
    apply(stack, root)
    before = snapshot(root)
    with pytest.raises(RefusedByMachineError) as caught:
        revert(root)
    assert caught.value.problems == ("step make (run) cannot be reverted: it names no `revert`",)
    assert snapshot(root) == before
    report = revert(root, force=True)
    assert report.notes == ("step make (run): what its command did is not undone: the step names no `revert`",)
    assert (root / "made").exists()
    assert ledger(root) is None


def test_evidence_that_goes_away(root: Path) -> None:
    stack = build(TREE, {"make": sh("touch made", creates="made")})
    apply(stack, root)
    (root / "made").unlink()
    report = verify(stack, root)
    assert report.error is not None
    assert report.error.problems == ("step make (run): it does not hold any more that made is there",)
    with opened(root, is_machine=True) as target:
        assert verdicts(inspect.status(stack.request(), target)) == {"make": "applies"}
    assert apply(stack, root).outcome.value == "upgraded"
    assert (root / "made").exists()


def test_a_step_that_leaves_the_stack_is_undone(root: Path) -> None:
    apply(build(TREE, {"a": A, "make": sh("touch made", creates="made", revert=["rm", "made"])}), root)
    report = apply(build(TREE, {"a": A2}, version=2), root)
    assert report.notes == ("no longer among the steps, undone: make", *report.notes[1:])
    assert not (root / "made").exists()
    assert (root / "a.txt").read_text() == numbered(_9="second")


def test_killed_in_a_step_the_next_run_goes_on(root: Path) -> None:
    """The command goes on after patchkit is killed: the target is busy until it ends, then the run is gone on with."""
    steps = {
        "a": A,
        "slow": sh("touch begun; sleep 1.5; touch made", creates="made", revert=["rm", "-f", "made"]),
        "b": B,
    }
    stack = build(TREE, steps)
    before = snapshot(root)
    pid = os.fork()
    if not pid:
        try:
            apply(stack, root)
        finally:
            os._exit(0)
    while not (root / "begun").exists():
        time.sleep(0.01)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    with pytest.raises(BusyError):
        apply(stack, root)
    handle = os.open(root, os.O_RDONLY)
    fcntl.flock(handle, fcntl.LOCK_EX)  # the command holds the target until it ends
    os.close(handle)
    held = ledger(root)
    assert not held.complete
    assert [(s.id, s.effect and s.effect["state"]) for s in held.steps] == [("a", None), ("slow", "begun")]
    error = verify(stack, root).error
    assert error is not None
    assert str(error) == f"{root}: an earlier run ended before its last step"
    assert apply(stack, root).outcome.value == "applied"
    assert ledger(root).complete
    assert revert(root).outcome.value == "reverted"
    (root / "begun").unlink()
    assert snapshot(root) == before
