"""apply, apply again, dry run, --only, conflicts: what the report says and what is on disk."""

from __future__ import annotations

import json
import os
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest

from patchkit.core import operate
from patchkit.core.errors import ConfigError, ConflictError, DriftError
from patchkit.core.lockfile import FileChange
from patchkit.core.report import StepReport, to_json
from patchkit.core.verdicts import Change, Outcome, Verdict
from tests.core.stacks import (
    Content,
    apply,
    build,
    diff,
    leftovers,
    lines,
    link,
    listing,
    numbered,
    revert,
    snapshot,
    state,
    verdicts,
    verify,
    write_tree,
)

if TYPE_CHECKING:
    from pathlib import Path

A, B, C = "pkg/a.txt", "pkg/b.txt", "c.txt"
PRISTINE: dict[str, Content] = {A: numbered(), B: numbered(), C: numbered()}


def change(path: str, **changed: str) -> str:
    return diff({path: numbered()}, {path: numbered(20, **changed)})


def three(pristine: dict[str, Content] = PRISTINE, **options: object):
    steps = {"one": change(A, _5="one"), "two": change(B, _5="two"), "three": change(A, _15="three")}
    return build(pristine, steps, **options)  # type: ignore[arg-type]


def test_the_report_of_a_first_apply(tmp_path: Path) -> None:
    site, stack = write_tree(tmp_path / "site", PRISTINE), three()
    report = apply(stack, site)
    assert report.outcome is Outcome.APPLIED
    assert report.error is None
    assert report.exit_code == 0
    assert (report.command, report.image, report.version) == ("apply", "test-image", 1)
    assert report.lock == stack.lock.digest
    assert report.target == str(site)
    assert report.stand_in is False
    assert report.notes == ()
    modified = tuple(FileChange(path=path, change=Change.MODIFIED) for path in (A, B, A))
    assert report.steps == tuple(
        StepReport(id=step, verdict=Verdict.APPLIES, changes=(modified[i],))
        for i, step in enumerate(("one", "two", "three"))
    )
    assert (site / A).read_text() == numbered(20, _5="one", _15="three")
    assert (site / B).read_text() == numbered(20, _5="two")
    assert (site / C).read_text() == numbered()
    assert leftovers(site) == []
    assert to_json(report)["steps"][0] == {
        "id": "one",
        "verdict": "applies",
        "files": [{"path": A, "change": "modified"}],
        "detail": "",
    }


def test_the_second_apply_touches_nothing(tmp_path: Path) -> None:
    site, stack = write_tree(tmp_path / "site", PRISTINE), three()
    apply(stack, site)
    before = listing(tmp_path)
    report = apply(stack, site)
    assert listing(tmp_path) == before
    assert report.outcome is Outcome.UNCHANGED
    assert report.exit_code == 0
    assert set(verdicts(report).values()) == {"applied"}
    assert verify(stack, site).outcome is Outcome.CLEAN
    assert listing(tmp_path) == before


def test_a_dry_run_tells_the_plan_and_touches_nothing(tmp_path: Path) -> None:
    site, stack = write_tree(tmp_path / "site", PRISTINE), three()
    before = listing(tmp_path)
    planned = apply(stack, site, dry_run=True)
    assert listing(tmp_path) == before
    assert planned.outcome is Outcome.PLANNED
    done = apply(stack, site)
    assert planned.steps == done.steps
    again = apply(stack, site, dry_run=True)
    assert again.outcome is Outcome.UNCHANGED


def test_apply_and_revert_is_the_identity(tmp_path: Path) -> None:
    site, stack = write_tree(tmp_path / "site", PRISTINE), three()
    (site / "pkg").chmod(0o750)
    before = snapshot(site)
    apply(stack, site)
    report = revert(site)
    assert snapshot(site) == before
    assert report.outcome is Outcome.REVERTED
    assert (report.version, report.lock) == (1, stack.lock.digest)
    assert verdicts(report) == {"one": "applies", "two": "applies", "three": "applies"}
    again = revert(site)
    assert again.outcome is Outcome.UNCHANGED
    assert again.notes == ("nothing was applied here",)


def test_a_conflict_in_the_third_of_five_changes_nothing(tmp_path: Path) -> None:
    pristine: dict[str, Content] = {f"{name}.txt": numbered() for name in "abcde"}
    steps = {f"s-{name}": change(f"{name}.txt", _10=f"new {name}") for name in "abd"}
    steps["s-c"] = diff({"c.txt": numbered()}, {"c.txt": numbered(20, _10="new c")})
    order = ["s-a", "s-b", "s-c", "s-d"]
    steps = {name: steps[name] for name in order}
    steps["s-e"] = diff({"c.txt": numbered(20, _10="new c")}, {"c.txt": numbered(20, _10="new c", _18="more")})
    stack = build(pristine, steps, exact=False)
    site = write_tree(tmp_path / "site", {**pristine, "c.txt": numbered(20, _9="mine")})
    before, tree = listing(tmp_path), snapshot(site)
    report = apply(stack, site)
    assert (listing(tmp_path), snapshot(site)) == (before, tree)
    assert report.outcome is Outcome.REFUSED
    assert report.exit_code == 3
    assert isinstance(report.error, ConflictError)
    assert verdicts(report) == {
        "s-a": "applies",
        "s-b": "applies",
        "s-c": "conflict",
        "s-d": "applies",
        "s-e": "blocked",
    }
    text = "\n".join(report.steps[2].detail)
    assert "c.txt: hunk at line 7 (line 5 of the patch):" in text
    assert "9 expected  line 9" in text
    assert "9 found     mine" in text
    assert report.steps[4].detail == ("shares files with s-c, which cannot be applied",)
    assert "step s-c: conflict" in report.error.problems[0]
    assert "9 expected  line 9" in report.error.problems[0]
    assert report.error.problems[1].startswith("step s-e: blocked")


def test_only_a_closed_selection(tmp_path: Path) -> None:
    site, stack = write_tree(tmp_path / "site", PRISTINE), three()
    with pytest.raises(ConfigError, match="step three builds on the files of step one"):
        apply(stack, site, only=("three",))
    with pytest.raises(ConfigError, match="--only four: the stack of test-image has no such step"):
        apply(stack, site, only=("four",))
    assert not (site / ".patchkit").exists()
    report = apply(stack, site, only=("two",))
    assert verdicts(report) == {"two": "applies"}
    assert (site / A).read_text() == numbered()
    assert apply(stack, site, only=("two",)).outcome is Outcome.UNCHANGED
    checked = verify(stack, site)
    assert checked.outcome is Outcome.CLEAN
    assert checked.notes == ("not applied here: one, three",)
    grown = apply(stack, site)
    assert grown.outcome is Outcome.UPGRADED
    assert verdicts(grown) == {"one": "applies", "two": "applied", "three": "applies"}
    shrunk = apply(stack, site, only=("one", "three"))
    assert shrunk.notes == ("no longer among the steps, its files are put back: two",)
    assert (site / B).read_text() == numbered()


def test_upgrade_ends_in_what_version_two_gives_from_pristine(tmp_path: Path) -> None:
    pristine: dict[str, Content] = {
        "m.txt": numbered(),
        "drop.txt": numbered(),
        "old/name.txt": numbered(),
        "gone/deep/x.txt": numbered(),
        "run.sh": numbered(),
        "l": link("m.txt"),
    }
    rename = (
        "diff --git a/old/name.txt b/fresh/dir/name.txt\nsimilarity index 100%\nrename from old/name.txt\n"
        "rename to fresh/dir/name.txt\n"
    )
    mode = "diff --git a/run.sh b/run.sh\nold mode 100644\nnew mode 100755\n"
    delete = diff({"gone/deep/x.txt": numbered()}, {})
    v1 = build(pristine, {"m": change("m.txt", _5="v1"), "drop": change("drop.txt", _5="v1"), "ren": rename})
    v2 = build(
        pristine,
        {
            "m": change("m.txt", _5="v2"),
            "del": delete,
            "mode": mode,
            "relink": diff({"l": link("m.txt")}, {"l": link("run.sh")}),
            "add": diff({}, {"n/e/w.txt": "new\n"}),
        },
        version=2,
    )
    upgraded, fresh = (write_tree(tmp_path / name, pristine) for name in ("upgraded", "fresh"))
    for site in (upgraded, fresh):
        (site / "old").chmod(0o700)
        (site / "gone").chmod(0o750)
        (site / "drop.txt").chmod(0o640)
    before = snapshot(upgraded)
    apply(v1, upgraded)
    assert not (upgraded / "old").exists()
    report = apply(v2, upgraded)
    assert report.outcome is Outcome.UPGRADED
    assert report.notes == ("no longer among the steps, its files are put back: drop, ren",)
    assert verdicts(report) == dict.fromkeys(("m", "del", "mode", "relink", "add"), "applies")
    apply(v2, fresh)
    assert without_log(snapshot(upgraded)) == without_log(snapshot(fresh))
    assert snapshot(upgraded)["drop.txt"] == before["drop.txt"]
    assert snapshot(upgraded)["old"] == before["old"]
    assert not (upgraded / "gone").exists()
    assert verify(v2, upgraded).outcome is Outcome.CLEAN
    stale = verify(v1, upgraded)
    assert stale.exit_code == 4
    assert "applied is stack version 2" in str(stale.error)
    revert(upgraded)
    assert snapshot(upgraded) == before


def without_log(tree: dict[str, tuple[object, ...]]) -> dict[str, tuple[object, ...]]:
    return {path: what for path, what in tree.items() if path != ".patchkit/log"}


def test_a_file_gives_way_to_a_directory_and_back(tmp_path: Path) -> None:
    pristine: dict[str, Content] = {"tool": "old\n", "keep": "k\n"}
    stack = build(pristine, {"split": diff({"tool": "old\n"}, {"tool/main": "m\n", "tool/sub/more": "n\n"})})
    site = write_tree(tmp_path / "site", pristine)
    before = snapshot(site)
    apply(stack, site)
    assert (site / "tool/sub/more").read_text() == "n\n"
    listed = listing(site)
    assert apply(stack, site).outcome is Outcome.UNCHANGED
    assert listing(site) == listed
    assert verify(stack, site).outcome is Outcome.CLEAN
    (site / "tool/mine").write_text("mine")
    with pytest.raises(DriftError, match="tool: a file is to stand here"):
        revert(site)
    assert (site / "tool/mine").read_text() == "mine"
    (site / "tool/mine").unlink()
    revert(site)
    assert snapshot(site) == before


def test_directories_that_were_empty_before_stay(tmp_path: Path) -> None:
    stack = build({}, {"add": diff({}, {"empty/x": "x\n", "new/y": "y\n"})})
    site = write_tree(tmp_path / "site", {})
    (site / "empty").mkdir(0o711)
    before = snapshot(site)
    apply(stack, site)
    revert(site)
    assert snapshot(site) == before
    apply(stack, site)
    apply(build({}, {"other": diff({}, {"z": "z\n"})}, version=2), site)
    assert (site / "empty").is_dir()
    assert not (site / "new").exists()


def test_a_directory_in_which_somebody_put_a_file_stays(tmp_path: Path) -> None:
    stack = build({}, {"add": diff({}, {"new/y": "y\n"})})
    site = write_tree(tmp_path / "site", {})
    apply(stack, site)
    (site / "new/mine").write_text("mine")
    revert(site)
    assert sorted(p.name for p in site.rglob("*")) == ["mine", "new"]


def test_an_upstream_step_changes_nothing_and_stays_upstream(tmp_path: Path) -> None:
    stack = three(exact=False)
    site = write_tree(tmp_path / "site", {**PRISTINE, B: numbered(20, _5="two")})
    report = apply(stack, site)
    assert verdicts(report) == {"one": "applies", "two": "upstream", "three": "applies"}
    assert "not pinned by hash: the lock of test-image was made from a stand-in" in report.notes[0]
    again = apply(stack, site)
    assert again.outcome is Outcome.UNCHANGED
    assert verdicts(again) == {"one": "applied", "two": "upstream", "three": "applied"}
    assert again.notes == report.notes
    revert(site)
    assert (site / B).read_text() == numbered(20, _5="two")


def test_an_exact_lock_binds(tmp_path: Path) -> None:
    stack = three()
    site = write_tree(tmp_path / "site", {**PRISTINE, A: "line 0\n" + numbered()})
    before = listing(tmp_path)
    report = apply(stack, site)
    assert report.exit_code == 4
    assert listing(tmp_path) == before
    assert report.error is not None
    assert report.error.problems[0].startswith("pkg/a.txt: not the file that the lock was made from: expected sha256")
    assert verdicts(report) == {"one": "drifted", "two": None, "three": "drifted"}


def test_an_offset_is_told_and_verified(tmp_path: Path) -> None:
    stack = three(exact=False)
    site = write_tree(tmp_path / "site", {**PRISTINE, A: "line 0\n" + numbered()})
    report = apply(stack, site)
    assert verdicts(report) == {"one": "offset", "two": "applies", "three": "offset"}
    assert report.steps[0].detail == ("pkg/a.txt: hunk of line 2 fits at line 3 (offset +1)",)
    assert (site / A).read_text() == "line 0\n" + numbered(20, _5="one", _15="three")
    assert apply(stack, site).outcome is Outcome.UNCHANGED


def test_stages_add_up(tmp_path: Path) -> None:
    stack = three(stages={"two": "runtime"})
    site = write_tree(tmp_path / "site", PRISTINE)
    first = apply(stack, site, stage="build")
    assert verdicts(first) == {"one": "applies", "two": "deferred", "three": "applies"}
    assert (site / B).read_text() == numbered()
    assert apply(stack, site, stage="build").outcome is Outcome.UNCHANGED
    second = apply(stack, site, stage="runtime")
    assert verdicts(second) == {"one": "applied", "two": "applies", "three": "applied"}
    assert (site / A).read_text() == numbered(20, _5="one", _15="three")
    for stage in ("runtime", "build", None):
        assert apply(stack, site, stage=stage).outcome is Outcome.UNCHANGED


def test_a_replacement_step(tmp_path: Path) -> None:
    stack = build(PRISTINE, {"swap": {"path": A, "find": "line 7\n", "with": "seven\n"}})
    site = write_tree(tmp_path / "site", PRISTINE)
    apply(stack, site)
    assert (site / A).read_text() == numbered(20, _7="seven")
    assert apply(stack, site).outcome is Outcome.UNCHANGED


def test_a_ledger_of_another_image(tmp_path: Path) -> None:
    site = write_tree(tmp_path / "site", PRISTINE)
    apply(three(image="other"), site)
    before = listing(tmp_path)
    for act in (lambda: apply(three(), site), lambda: verify(three(), site), lambda: revert(site)):
        with pytest.raises(operate.IdentityError, match=r"carries the stack of image other, not of test-image"):
            act()
    assert listing(tmp_path) == before


def test_verify_where_nothing_is_applied(tmp_path: Path) -> None:
    site = write_tree(tmp_path / "site", PRISTINE)
    report = verify(three(), site)
    assert (report.outcome, report.exit_code) == (Outcome.DRIFTED, 4)
    assert "the stack is not applied here" in str(report.error)


def test_a_file_that_is_already_there(tmp_path: Path) -> None:
    stack = build({}, {"add": diff({}, {"x": lines("x")})}, exact=False)
    site = write_tree(tmp_path / "site", {"x": "mine\n"})
    before = snapshot(site)
    report = apply(stack, site)
    assert report.exit_code == 3
    assert snapshot(site) == before


def test_lines_between_versions_of_one_file(tmp_path: Path) -> None:
    """Three steps on one file; the middle one is dropped, and the last one moves up."""
    one, two, three_ = numbered(20, _3="1"), numbered(20, _3="1", _4="2\n2b"), numbered(20, _3="1", _4="2\n2b", _15="3")
    v1 = build(
        {A: numbered()},
        {"1": diff({A: numbered()}, {A: one}), "2": diff({A: one}, {A: two}), "3": diff({A: two}, {A: three_})},
    )
    v2 = build({A: numbered()}, {"1": diff({A: numbered()}, {A: one}), "3": diff({A: two}, {A: three_})}, version=2)
    site = write_tree(tmp_path / "site", {A: numbered()})
    apply(v1, site)
    assert state((site / A).read_bytes()).data == three_.encode()
    apply(v2, site)
    assert (site / A).read_text() == numbered(20, _3="1", _15="3")
    revert(site)
    assert (site / A).read_text() == numbered()


def renames(*names: str) -> dict[str, str]:
    """One step a rename, along a chain of names."""
    return {
        f"to-{new}": f"diff --git a/{old} b/{new}\nsimilarity index 100%\nrename from {old}\nrename to {new}\n"
        for old, new in pairwise(names)
    }


def test_a_renamed_file_keeps_its_owner_and_attributes(tmp_path: Path) -> None:
    """Through a chain of renames, and the same from pristine as from an earlier version."""
    pristine: dict[str, Content] = {"a": numbered()}
    v1, v2 = build(pristine, renames("a", "b")), build(pristine, renames("a", "b", "c"), version=2)
    copy = "diff --git a/a b/d\nsimilarity index 100%\ncopy from a\ncopy to d\n"
    v3 = build(pristine, {"copy": copy}, version=3)
    trees = []
    for stacks in ((v1, v2), (v2,), (v3, v1, v3, v2)):
        site = write_tree(tmp_path / f"site{len(trees)}", pristine)
        (site / "a").chmod(0o640)
        os.setxattr(site / "a", "user.note", b"kept")
        if os.geteuid() == 0:
            os.chown(site / "a", 1000, 1000)
        before = snapshot(site)
        for stack in stacks:
            assert apply(stack, site).error is None
        trees.append(without_log(snapshot(site)))
        kind, mode, uid, gid, data, xattrs, _ = trees[-1]["c"]
        assert (mode, data, xattrs) == (0o640, numbered().encode(), (("user.note", b"kept"),))
        assert (uid, gid) == before["a"][2:4]
        assert kind == before["a"][0]
        revert(site)
        assert snapshot(site) == before
    assert trees[0] == trees[1] == trees[2]


def test_a_directory_whose_files_are_exchanged_is_not_recorded(tmp_path: Path) -> None:
    pristine: dict[str, Content] = {"d/a": "a\n", "e/f/a": "a\n"}
    step = diff({"d/a": "a\n", "e/f/a": "a\n"}, {"d/b": "b\n"})
    site = write_tree(tmp_path / "site", pristine)
    apply(build(pristine, {"s": step}), site)
    ledger = json.loads((site / ".patchkit/ledger.json").read_text())
    assert ledger["dirs_created"] == []
    assert [d["path"] for d in ledger["dirs_removed"]] == ["e/f", "e"]
    assert not (site / "e").exists()
