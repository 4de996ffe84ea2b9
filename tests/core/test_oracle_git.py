"""Whatever git writes, the applier does: trees, edits and options at random, git as the writer of the
diff; and git apply as the judge of targets that were changed since."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from patchkit.core.diffs import parse
from patchkit.core.judge import judge_patch
from patchkit.core.sections import reverse
from patchkit.core.verdicts import Change, Verdict
from tests.core.edits import FEW, MANY, edits, options, trees
from tests.core.trees import Files, MemoryTree, Repo, plain, result, run

AGAIN = {Verdict.UPSTREAM, Verdict.CONFLICT, Verdict.PARTIAL, Verdict.MISSING}


@pytest.fixture(scope="module")
def repo(tmp_path_factory) -> Repo:
    return Repo(tmp_path_factory.mktemp("oracle"))


def check(before: Files, diff: bytes, after: Files, strip: int) -> None:
    sections = parse(diff, strip=strip)
    assert plain(run(before, sections)) == plain(after)
    assert plain(run(after, reverse(sections))) == plain(before)
    first = judge_patch(sections, MemoryTree(before))
    if first.writes:
        assert first.verdict is Verdict.APPLIES
        assert plain(result(before, first.writes)) == plain(after)
    forced = judge_patch(sections, MemoryTree(before), same_tree=True)
    assert plain(result(before, forced.writes)) == plain(after)
    assert judge_patch(sections, MemoryTree(after)).verdict in AGAIN


def overwrites(diff: bytes, before: Files, strip: int) -> bool:
    sections = parse(diff, strip=strip)
    left = {s.old for s in sections if s.change in (Change.RENAMED, Change.DELETED)}
    return any(s.new in before and s.new not in left for s in sections if s.change in (Change.RENAMED, Change.COPIED))


def check_one(repo: Repo, data: st.DataObject) -> None:
    before = data.draw(trees())
    after = data.draw(edits(before))
    how = data.draw(options())
    if plain(before) == plain(after):
        return
    diff = repo.diff(before, after, *how.words)
    if "-B" in how.words and overwrites(diff, before, how.strip):
        return  # -B -M may say "rename to f" over an f that it nowhere removes: refused, see test_sections
    check(before, diff, after, how.strip)


def check_mailbox(repo: Repo, data: st.DataObject) -> None:
    history = [data.draw(trees())]
    for _ in range(data.draw(st.integers(1, 4))):
        history.append(data.draw(edits(history[-1])))
    how = data.draw(options())
    names = repo.write(history, chain=True)
    mail = repo.git("format-patch", "--stdout", *how.words, f"{names[0]}..{names[-1]}")
    if plain(history[0]) != plain(history[-1]) and "-B" not in how.words:
        check(history[0], mail, history[-1], how.strip)


@FEW
@given(data=st.data())
def test_one_commit(repo, data):
    check_one(repo, data)


@FEW
@given(data=st.data())
def test_a_mailbox_of_several_commits(repo, data):
    check_mailbox(repo, data)


@pytest.mark.slow
@MANY
@given(data=st.data())
def test_one_commit_many(repo, data):
    check_one(repo, data)


@pytest.mark.slow
@MANY
@given(data=st.data())
def test_a_mailbox_of_several_commits_many(repo, data):
    check_mailbox(repo, data)
