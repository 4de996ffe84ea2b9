"""Each rung of the ladder, on histories that git made; every rung leaves evidence."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from patchkit.upstream.facts import Commit, Found, Landing, Rung, State
from patchkit.upstream.landing import ClonePatchIds, find_landing, is_exhausted, landed_by_content, untried
from patchkit.upstream.reverts import fate
from tests.upstream.made_history import Made, pull

if TYPE_CHECKING:
    from pathlib import Path

YES, NO, NOT_TRIED = Found.YES, Found.NO, Found.NOT_TRIED
BODY = "".join(f"line {number}\n" for number in range(30))


@pytest.fixture
def made(tmp_path: Path) -> Made:
    made = Made(tmp_path / "made")
    made.land("base", {"a.py": BODY, "b.py": BODY, "c.co": "\0x"})
    return made


def answers(landing: Landing) -> list[Found]:
    """The rungs' answers in the ladder's order, which is always whole."""
    assert [item.question for item in landing.evidence] == [rung.value for rung in Rung]
    assert all(item.detail for item in landing.evidence)
    return [item.found for item in landing.evidence]


#: A change that no made history has, as a step carries it.
OWN = b"--- a/a.py\n+++ b/a.py\n@@ -1 +1 @@\n-never\n+landed\n"


def compared(made: Made, number: int, **more: Any) -> Landing:
    """The landing of a closed pull request with OWN, by every rung that a full clone allows."""
    history = made.history()
    return find_landing(pull(number, **more), history, ClonePatchIds(made.clone, history.base, OWN))


def detail(landing: Landing, rung: Rung) -> str:
    return next(item.detail for item in landing.evidence if item.question == rung.value)


def test_merge_commit(made: Made) -> None:
    sha = made.land("Pad (#1)", {"a.py": "x\n"})
    landing = find_landing(pull(1, state="merged", merge_commit=sha, merged_at="2026-08-01T02:00:00Z"), made.history())
    assert (landing.commit, landing.time) == (sha, "2026-08-01T03:00:00Z")
    assert answers(landing) == [YES, YES, NO, NOT_TRIED, NOT_TRIED]


def test_merge_commit_without_a_clone(made: Made) -> None:
    landing = find_landing(pull(1, state="merged", merge_commit="1" * 40, merged_at="2026-08-01T02:00:00Z"), None)
    assert (landing.commit, landing.time) == ("1" * 40, "2026-08-01T02:00:00Z")
    assert answers(landing) == [YES, NOT_TRIED, NOT_TRIED, NOT_TRIED, NOT_TRIED]


def test_a_clone_of_another_repository_is_not_believed_over_the_forge(made: Made) -> None:
    made.land("Another's change (#1)", {"a.py": "x\n"})
    made.land(
        'Revert "Another\'s change (#1)" (#7)',
        {"a.py": "y\n"},
        "Pull Request resolved: https://github.com/ROCm/aiter/pull/1",
    )
    made.land("later", {"b.py": "x\n"})
    said = pull(1, "Pad", state="merged", merge_commit="1" * 40, merged_at="2026-08-01T02:30:00Z")
    landing = find_landing(said, made.history())
    assert (landing.commit, landing.time) == ("1" * 40, "2026-08-01T02:30:00Z")
    assert answers(landing) == [YES, NOT_TRIED, NOT_TRIED, NOT_TRIED, NOT_TRIED]
    assert "which the clone does not hold" in detail(landing, Rung.MERGE_COMMIT)
    assert "perhaps it is of another repository" in detail(landing, Rung.SUBJECT)
    told = fate(said.ref, said, made.history())
    assert (told.state, told.landed_as, told.reverted_by) == (State.MERGED, "1" * 40, None)
    # nor where it is older than the merge
    newer = replace(said, merged_at="2026-08-09T00:00:00Z", closed_at="2026-08-09T00:00:00Z")
    landing = find_landing(newer, made.history())
    assert landing.commit == "1" * 40
    assert "merged after the clone of 2026-08-01" in detail(landing, Rung.MERGE_COMMIT)
    assert "older than the closing" in detail(landing, Rung.SUBJECT)
    assert fate(newer.ref, newer, made.history()).landed_as == "1" * 40


def test_a_branch_that_was_written_anew_keeps_its_titles(made: Made) -> None:
    sha = made.land("Pad (#1)", {"a.py": "x\n"})
    back = made.revert(sha)
    said = pull(1, "Pad", state="merged", merge_commit="1" * 40, merged_at="2026-08-01T02:30:00Z")
    assert find_landing(said, made.history()).commit == sha
    assert fate(said.ref, said, made.history()).reverted_as == back


def test_rebase_merge(made: Made) -> None:
    made.land("part one", {"a.py": "x\n"})
    sha = made.land("part two", {"a.py": "y\n"})
    landing = find_landing(pull(1, state="merged", merge_commit=sha, merged_at="2026-08-01T02:00:00Z"), made.history())
    assert landing.commit == sha
    assert answers(landing) == [YES, NO, NO, NOT_TRIED, NOT_TRIED]


def test_merged_into_another_branch_then_squashed_into_the_base(made: Made) -> None:
    made.git("checkout", "-q", "-b", "feature")
    inner = made.land("work", {"a.py": "x\n"})
    made.git("checkout", "-q", "main")
    sha = made.land("Pad (#1)", {"a.py": "x\n"})
    merged = pull(1, state="merged", merge_commit=inner, merged_at="2026-08-01T02:00:00Z")
    landing = find_landing(merged, made.history(inner))
    assert landing.commit == sha
    assert "which the base branch does not hold" in detail(landing, Rung.MERGE_COMMIT)
    assert find_landing(replace(merged, ref=replace(merged.ref, number=9)), made.history(inner)).commit == inner


def test_closed_but_named_in_a_subject(made: Made) -> None:
    sha = made.land("Pad (#1)", {"a.py": "x\n"})
    landing = find_landing(pull(1), made.history())
    assert landing.commit == sha
    assert answers(landing) == [NO, YES, NO, NOT_TRIED, NOT_TRIED]


def test_the_number_of_another_repository(made: Made) -> None:
    """A fork's history carries its parent's numbers."""
    made.land("Something of the parent (#1)", {"a.py": "x\n"})
    landing = find_landing(pull(1, created_at="2026-08-01T03:00:01Z", closed_at="2026-08-01T03:00:00Z"), made.history())
    assert landing.commit is None
    assert answers(landing)[1] is NO
    assert "another repository's number" in detail(landing, Rung.SUBJECT)


def test_not_on_the_base_branch_is_not_landed(made: Made) -> None:
    made.git("checkout", "-q", "-b", "release")
    made.land("Pad (#1)", {"a.py": "x\n"})
    made.git("tag", "v1.0")
    made.git("checkout", "-q", "main")
    made.land("later (#5)", {"b.py": "x\n"}, at="2026-08-01T04:00:00Z")
    landing = compared(made, 1)
    assert landing.commit is None
    assert is_exhausted(landing)


@pytest.mark.parametrize(
    "trailer",
    [
        "Pull Request resolved: https://github.com/ROCm/aiter/pull/1\nApproved by: https://github.com/x",
        "COPYBARA_INTEGRATE_REVIEW=https://github.com/rocm/aiter/pull/1 from x:y " + "1" * 40,
        "(cherry picked from commit " + "8" * 40 + ")",
    ],
)
def test_landed_by_a_bot(made: Made, trailer: str) -> None:
    sha = made.land("Pad", {"a.py": "x\n"}, f"Text.\n\n{trailer}")
    landing = find_landing(pull(1, head="8" * 40), made.history())
    assert landing.commit == sha
    assert answers(landing) == [NO, NO, YES, NOT_TRIED, NOT_TRIED]


def test_a_bot_s_trailer_of_another_repository(made: Made) -> None:
    made.land("Pad", {"a.py": "x\n"}, "Pull Request resolved: https://github.com/pytorch/pytorch/pull/1")
    made.land("later", {"b.py": "x\n"}, at="2026-08-01T04:00:00Z")
    assert is_exhausted(compared(made, 1))


def test_closed_on_a_commit(made: Made) -> None:
    sha = made.land("Pad", {"a.py": "x\n"}, "Closes #1")
    closer = Commit(sha=sha, time="2026-08-01T02:00:00Z", subject="Pad", body="Closes #1")
    landing = find_landing(pull(1, closed_by=(closer,)), made.history())
    assert (landing.commit, answers(landing)[0]) == (sha, YES)
    assert find_landing(pull(1, closed_by=(closer,)), None).commit == sha


def test_closed_on_another_s_landing(made: Made) -> None:
    sha = made.land("Pad better (#2)", {"a.py": "x\n"}, "Closes #1", at="2026-08-01T04:00:00Z")
    closer = Commit(sha=sha, time="2026-08-01T04:00:00Z", subject="Pad better (#2)", body="Closes #1")
    assert is_exhausted(compared(made, 1, closed_by=(closer,)))


def proposed(made: Made, files: dict[str, str | None]) -> str:
    """The head of a pull request that was never merged; main is checked out again."""
    made.git("checkout", "-q", "-b", "proposal")
    head = made.land("wip", files)
    made.git("checkout", "-q", "main")
    return head


def changed(text: str, line: int, to: str) -> str:
    return text.replace(f"line {line}\n", f"{to}\n")


def test_patch_id_of_the_head(made: Made) -> None:
    files = {"a.py": changed(BODY, 20, "padded"), "c.co": "\0y"}
    head = proposed(made, files)
    made.land("shifts the lines", {"a.py": "top\n" + BODY})
    sha = made.land("Landed by hand", {"a.py": "top\n" + files["a.py"], "c.co": "\0y", "unrelated": "x\n"})
    made.land("later", {"b.py": "x\n"})
    clone = made.clone
    history = made.history()
    landing = find_landing(pull(1, head=head), history, ClonePatchIds(clone, history.base))
    assert landing.commit == sha
    assert answers(landing) == [NO, NO, NO, YES, NOT_TRIED]


def test_patch_id_file_by_file_over_several_commits(made: Made) -> None:
    head = proposed(made, {"a.py": changed(BODY, 20, "padded"), "b.py": changed(BODY, 9, "padded")})
    made.land("first half", {"a.py": changed(BODY, 20, "padded")})
    sha = made.land("second half", {"b.py": changed(BODY, 9, "padded")})
    history = made.history()
    landing = find_landing(pull(1, head=head), history, ClonePatchIds(made.clone, history.base))
    assert (landing.commit, answers(landing)[3]) == (sha, YES)


def test_patch_id_of_a_part_is_no_landing(made: Made) -> None:
    head = proposed(made, {"a.py": changed(BODY, 20, "padded"), "b.py": changed(BODY, 9, "padded")})
    made.land("first half", {"a.py": changed(BODY, 20, "padded")})
    history = made.history()
    landing = find_landing(pull(1, head=head), history, ClonePatchIds(made.clone, history.base))
    assert (landing.commit, answers(landing)[3]) == (None, NO)
    assert detail(landing, Rung.PATCH_ID).startswith("of its 2 files 1 were changed so")


@pytest.mark.parametrize("plain", [False, True], ids=["git", "plain"])
def test_patch_id_of_the_carried_patch(made: Made, plain: bool) -> None:
    head = proposed(made, {"a.py": changed(BODY, 20, "padded"), "new.py": "one\n", "b.py": None})
    diff = made.git("diff", "main", head) + "\n"
    if plain:  # as `diff -u` writes it, with what a quilt series has in front
        kept = [
            line for line in diff.splitlines(keepends=True) if not line.startswith(("diff ", "index ", "new ", "del"))
        ]
        diff = "Description: pads\n---\n" + "".join(kept).replace("--- a/a.py\n", "--- a/a.py\t2026-08-01 00:00:00\n")
    made.git("branch", "-D", "proposal")
    sha = made.land("By hand", {"a.py": changed(BODY, 20, "padded"), "new.py": "one\n", "b.py": None})
    history = made.history()
    landing = find_landing(pull(1, head="9" * 40), history, ClonePatchIds(made.clone, history.base, diff.encode()))
    assert (landing.commit, answers(landing)[3]) == (sha, YES)


def test_patch_id_looks_in_the_window_only(made: Made) -> None:
    head = proposed(made, {"a.py": changed(BODY, 20, "padded")})
    made.land("long after", {"a.py": changed(BODY, 20, "padded")}, at="2026-09-15T00:00:00Z")
    history = made.history()
    landing = find_landing(pull(1, head=head), history, ClonePatchIds(made.clone, history.base))
    assert (landing.commit, answers(landing)[3]) == (None, NO)


def test_a_head_that_the_base_holds_has_nothing_of_its_own(made: Made) -> None:
    history = made.history()
    landing = find_landing(
        pull(1, head=made.head, closed_at="2026-08-01T01:00:00Z"), history, ClonePatchIds(made.clone, history.base)
    )
    assert answers(landing)[3] is NOT_TRIED


def test_what_partial_shallow_and_old_clones_cannot_say(made: Made, tmp_path: Path) -> None:
    made.land("Pad (#2)", {"a.py": "x\n"})
    history = made.history()
    treeless = made.cloned(tmp_path / "treeless.git", "--filter=tree:0")
    landing = find_landing(pull(1, closed_at="2026-08-01T01:30:00Z"), history, ClonePatchIds(treeless, history.base))
    assert answers(landing) == [NO, NO, NO, NOT_TRIED, NOT_TRIED]
    why = "a partial clone (tree:0) does not hold the files; a full one does: --clone OWNER/REPO=DIR"
    assert detail(landing, Rung.PATCH_ID) == why
    assert untried(landing.evidence) == f"patch-id not tried: {why}"
    assert not is_exhausted(landing)
    unknown = find_landing(pull(1, closed_at="2026-08-01T01:30:00Z"), history, ClonePatchIds(made.clone, history.base))
    assert "git fetch origin pull/1/head" in detail(unknown, Rung.PATCH_ID)
    assert not is_exhausted(unknown)
    old = find_landing(pull(1, closed_at="2026-08-09T00:00:00Z"), history)
    assert answers(old) == [NO, NOT_TRIED, NOT_TRIED, NOT_TRIED, NOT_TRIED]
    assert "older than the closing" in detail(old, Rung.SUBJECT)
    assert not is_exhausted(old)
    assert not is_exhausted(find_landing(pull(1), None))


def test_content_has_the_last_word(made: Made) -> None:
    made.land("later", {"b.py": "x\n"}, at="2026-08-01T04:00:00Z")
    history = made.history()
    landing = find_landing(pull(1), history, content=True)
    assert (landing.commit, answers(landing)) == (None, [NO, NO, NO, NOT_TRIED, YES])
    assert landed_by_content(landing)
    assert not is_exhausted(landing)
    assert not is_exhausted(find_landing(pull(1), history, content=False))
    assert is_exhausted(compared(made, 1))
    assert untried(compared(made, 1).evidence) == ""
    assert untried(find_landing(pull(1), None).evidence) == "subject not tried: no clone: patchkit status --fetch"


def test_open(made: Made) -> None:
    landing = find_landing(pull(1, state="open", closed_at=None), made.history(), ClonePatchIds(made.clone, made.head))
    assert answers(landing) == [NO, NO, NO, NOT_TRIED, NOT_TRIED]
    assert detail(landing, Rung.PATCH_ID) == "it is open"
