"""Whatever GNU diff writes of two trees of plain files, the applier does."""

from __future__ import annotations

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from patchkit.core.diffs import parse
from patchkit.core.judge import judge_patch
from patchkit.core.sections import reverse
from patchkit.core.verdicts import Verdict
from tests.core.edits import FEW, MANY, edits, trees
from tests.core.trees import Files, MemoryTree, file, gnu_diff, plain, result, run


def plain_files(files: Files) -> Files:
    """`files` as far as GNU diff can speak of them: no links, no modes."""
    return {path: file(state.data) for path, state in files.items()}


def check(data: st.DataObject, root) -> None:
    drawn = data.draw(trees())
    before, after = plain_files(drawn), plain_files(data.draw(edits(drawn)))
    assume(before != after)
    lost = [p for p in {*before, *after} if (p in before) != (p in after) and not {**before, **after}[p].data]
    assume(not lost)  # an empty file that comes or goes is not in GNU diff's output
    context = data.draw(st.integers(1, 6))
    diff = gnu_diff(root, before, after, "-ruNa", f"-U{context}")
    sections = parse(diff)
    assert plain(run(before, sections)) == plain(after)
    assert plain(run(after, reverse(sections))) == plain(before)
    first = judge_patch(sections, MemoryTree(before))
    if first.writes:
        assert plain(result(before, first.writes)) == plain(after)
    again = judge_patch(sections, MemoryTree(after))
    assert again.verdict in (Verdict.UPSTREAM, Verdict.CONFLICT)


@FEW
@given(data=st.data())
def test_two_trees(data, tmp_path_factory):
    check(data, tmp_path_factory.getbasetemp() / "gnu")


@pytest.mark.slow
@MANY
@given(data=st.data())
def test_two_trees_many(data, tmp_path_factory):
    check(data, tmp_path_factory.getbasetemp() / "gnu")
