"""Targets that were changed since the diff was made: git apply's answer against ours.

Where both make a tree, it is the same one, but for the differences that `explained` lists. Where git
refuses, we may only make one if every hunk's text stands, byte for byte, where we put it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from patchkit.core.diffs import parse
from patchkit.core.fit import split_lines
from patchkit.core.judge import judge_patch
from patchkit.core.sections import apply_sections
from patchkit.core.verdicts import Verdict
from tests.core.edits import FEW, MANY, edited, texts
from tests.core.trees import MemoryTree, Repo, file, git_apply

if TYPE_CHECKING:
    from pathlib import Path

    from patchkit.core.sections import SectionResult


@pytest.fixture(scope="module")
def repo(tmp_path_factory) -> Repo:
    return Repo(tmp_path_factory.mktemp("damaged"))


def stands(report: SectionResult, target: bytes) -> bool:
    """Whether every hunk was put where its old text stands, in order, apart."""
    body, at = split_lines(target), 0
    for fit in report.fits:
        assert fit.index is not None
        old = fit.hunk.old
        if fit.index < at or body[fit.index : fit.index + len(old)] != old:
            return False
        at = fit.index + len(old)
    return True


def unique(report: SectionResult, target: bytes) -> bool:
    """Whether each hunk that sits elsewhere than stated had no other place to be."""
    body = split_lines(target)
    for fit in report.fits:
        old = fit.hunk.old
        places = [i for i in range(len(body) - len(old) + 1) if old and body[i : i + len(old)] == old]
        if fit.offset and len([i for i in places if i >= 0]) != 1:
            return False
    return True


def explained(report: SectionResult) -> bool:
    """Git, with --unidiff-zero, takes a last line without a line end for the beginning of any line."""
    return any(not text.endswith(b"\n") for fit in report.fits for text in fit.hunk.texts)


def compare(repo: Repo, data: st.DataObject, root: Path) -> None:
    before = data.draw(texts().filter(bool))
    after = data.draw(edited(before).filter(lambda made: made and made != before))
    target = data.draw(edited(before))
    context = data.draw(st.integers(0, 4))
    diff = repo.diff({"f": file(before)}, {"f": file(after)}, f"-U{context}", "--binary")
    if b"GIT binary patch" in diff:
        return
    if data.draw(st.booleans()):  # without git's blob names, as from GNU diff
        diff = b"".join(line for line in diff.splitlines(keepends=True) if not line.startswith(b"index "))
    options = ("--unidiff-zero",) if context == 0 else ()
    theirs = git_apply(root / "t", {"f": file(target)}, diff, *options)
    overlay, reports = apply_sections(parse(diff), MemoryTree({"f": file(target)}))
    if not reports[0].ok:
        event("both refuse" if theirs is None else "only we refuse")
        return
    ours = overlay.changes["f"]
    assert ours is not None
    assert stands(reports[0], target)
    if theirs is None:
        # Every hunk's text matched exactly, see `stands`. Git ties a hunk without context around it to
        # the file's end; where all hunks of a diff are such, it may be one of -U0, and is not tied here.
        event("only git refuses")
        assert not any(h.marks.startswith(b" ") or h.marks.endswith(b" ") for h in parse(diff)[0].hunks)
        assert unique(reports[0], target)
    elif theirs["f"].data != ours.data:
        event("both apply, differently")
        assert explained(reports[0]), (target, diff, theirs["f"].data, ours.data)
    else:
        event("the same")
    check_judge(diff, before, target)


def check_judge(diff: bytes, before: bytes, target: bytes) -> None:
    """What the judge lets pass is not let pass again (unless it made the very file that the diff names
    as the one before: then a blob name says so)."""
    first = judge_patch(parse(diff), MemoryTree({"f": file(target)}))
    made = first.writes.get("f")
    if made is None or made.data in (target, before):
        return
    again = judge_patch(parse(diff), MemoryTree({"f": made}))
    assert again.writes == {}
    assert again.verdict not in (Verdict.APPLIES, Verdict.OFFSET)


@FEW
@given(data=st.data())
def test_a_damaged_target(repo, data, tmp_path_factory):
    compare(repo, data, tmp_path_factory.getbasetemp())


@pytest.mark.slow
@MANY
@given(data=st.data())
def test_a_damaged_target_many(repo, data, tmp_path_factory):
    compare(repo, data, tmp_path_factory.getbasetemp())
