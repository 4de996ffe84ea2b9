"""Whether a revision has a change: ancestry of landing and revert, cherry-picks, the compare API, content."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from patchkit.upstream.containment import Ancestry, clone_ancestry, contains, first_release, history_ancestry
from patchkit.upstream.facts import Fate, Found, State
from patchkit.upstream.history import read_history
from patchkit.upstream.reverts import tell
from patchkit.upstream.turns import Turn, turns_from_fate, turns_of
from tests.upstream.made_history import REPO, Made, pull, ref

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def made(tmp_path: Path) -> Made:
    return Made(tmp_path / "made")


def compare(made: Made) -> Ancestry:
    """What GitHub's compare says, by git: the status of `a...b`."""

    def status(a: str, b: str) -> str | None:
        behind, ahead = made.git("rev-list", "--left-right", "--count", f"{a}...{b}").split()
        return {(False, False): "identical", (False, True): "ahead", (True, False): "behind"}.get(
            (behind != "0", ahead != "0"), "diverged"
        )

    return status


def test_the_timing_of_4494(made: Made) -> None:
    """Landed 09:44Z, waiver merged 16:28Z, reverted 16:53Z: what was cut between has it, what was cut after has not."""
    before = made.land("Other (#4400)", {"b": "1\n"}, at="2026-08-12T08:00:00Z")
    made.git("tag", "v0.1.4")
    sha = made.land("Pad MLA (#4494)", {"a": "1\n"}, at="2026-08-12T09:44:00Z")
    waived = made.land("Waiver's day (#4500)", {"c": "1\n"}, at="2026-08-12T16:28:00Z")
    revert = made.revert(sha, 'Revert "Pad MLA (#4494)" (#4709)', at="2026-08-12T16:53:00Z")
    both = made.land("Next (#4710)", {"c": "2\n"}, at="2026-08-13T00:00:00Z")
    made.git("tag", "v0.1.5")
    history = made.history()
    story = tell(
        ref(4494), pull(4494, "Pad MLA", state="merged", merge_commit=sha, merged_at="2026-08-12T09:44:00Z"), history
    )
    assert (story.fate.state, story.fate.reverted_by, story.fate.first_release) == (State.REVERTED, ref(4709), None)
    expected = {before: (False, "ancestry"), sha: (True, "ancestry"), waived: (True, "ancestry")}
    expected |= {revert: (False, "reverted"), both: (False, "reverted")}
    for revision, answer in expected.items():
        with_clone = contains(story.turns, revision, history=history)
        by_forge = contains(story.turns, revision, ancestry=compare(made))
        by_record = contains(turns_from_fate(story.fate), revision, ancestry=clone_ancestry(made.clone))
        assert (with_clone.in_image, with_clone.how) == answer
        assert (by_forge.in_image, by_forge.how) == answer
        assert (by_record.in_image, by_record.how) == answer
    # the tag holds both commits, and so it does not have the change
    held = contains(story.turns, both, history=history)
    assert [(item.question, item.found) for item in held.evidence] == [
        ("ancestry", Found.YES),
        ("ancestry", Found.YES),
        ("content", Found.NOT_TRIED),
    ]


def test_release_branches(made: Made) -> None:
    made.git("branch", "release/1.0")
    sha = made.land("Pad (#1)", {"a": "1\n"})
    made.git("tag", "v1.1rc1")
    made.git("checkout", "-q", "release/1.0")
    without = made.land("Only here (#7)", {"z": "1\n"})
    made.git("tag", "v1.0")
    picked = made.pick(sha, "-x")
    made.git("tag", "v1.0.1")
    gone = made.revert(picked)
    made.git("tag", "v1.0.2")
    made.git("checkout", "-q", "main")
    made.git("tag", "v1.1")
    history = made.history()
    turns = turns_of(history, 1, sha)
    answers = [contains(turns, revision, history=history) for revision in (without, picked, gone, sha)]
    assert [(found.in_image, found.how) for found in answers] == [
        (False, "ancestry"),
        (True, "cherry-pick"),
        (False, "reverted"),
        (True, "ancestry"),
    ]
    assert first_release(history, turns) == "v1.0.1"
    made.git("tag", "-d", "v1.0.1")
    assert first_release(made.history(), turns) == "v1.1"  # a final one before the pre-release
    made.git("tag", "-d", "v1.1")
    assert first_release(made.history(), turns) == "v1.1rc1"
    made.git("tag", "-d", "v1.1rc1")
    assert first_release(made.history(), turns) is None
    # by the forge alone a release branch's own commits are not seen: that is no "no"
    alone = contains(turns[:1], picked, ancestry=compare(made))
    assert (alone.in_image, alone.how) == (None, "unknown")
    assert contains(turns[:1], picked, ancestry=compare(made), content=True).how == "cherry-pick"


def test_a_pick_on_a_branch_that_no_tag_marks(made: Made) -> None:
    made.git("branch", "release/1.0")
    sha = made.land("Pad (#1)", {"a": "1\n"})
    made.git("checkout", "-q", "release/1.0")
    picked = made.pick(sha)
    made.git("checkout", "-q", "main")
    assert made.history().place(picked) is None
    history = made.history("release/1.0", "no-such-revision")
    found = contains(turns_of(history, 1, sha), picked, history=history)
    assert (found.in_image, found.how) == (True, "cherry-pick")


def one(present: bool = True, sha: str = "1" * 40) -> Turn:
    how = "landing" if present else "revert"
    return Turn(sha=sha, time="2026-08-01T00:00:00Z", present=present, how=how, via="forge", number=1)


REVISION = "f" * 40


@pytest.mark.parametrize(
    ("relations", "in_image", "how"),
    [
        (["ahead"], True, "ancestry"),
        (["identical"], True, "ancestry"),
        (["behind"], False, "ancestry"),
        (["diverged"], None, "unknown"),
        ([None], None, "unknown"),
        (["ahead", "ahead"], False, "reverted"),
        (["ahead", "behind"], True, "ancestry"),
        (["ahead", "diverged"], True, "ancestry"),
        (["ahead", None], None, "unknown"),
        (["behind", None], False, "ancestry"),
        ([None, "ahead"], False, "reverted"),
        (["ahead", "ahead", "ahead"], True, "ancestry"),
        (["ahead", None, "ahead"], True, "ancestry"),
        (["ahead", "ahead", None], None, "unknown"),
        (["ahead", None, "behind"], None, "unknown"),
    ],
)
def test_what_the_compares_say_together(relations: list[str | None], in_image: bool | None, how: str) -> None:
    turns = [one(at % 2 == 0, f"{at + 1}" * 40) for at in range(len(relations))]
    said = {turn.sha: relation for turn, relation in zip(turns, relations, strict=True)}
    found = contains(turns, REVISION, ancestry=lambda a, b: said[a])
    assert (found.in_image, found.how) == (in_image, how)


@pytest.mark.parametrize(
    ("turns", "relation", "content", "in_image", "how"),
    [
        ([], None, None, False, "not landed"),
        ([], None, True, True, "content"),
        ([], None, False, False, "not landed"),
        ([one()], "ahead", True, True, "ancestry"),
        ([one()], "ahead", False, False, "content"),
        ([one()], "behind", True, True, "cherry-pick"),
        ([one()], "behind", False, False, "ancestry"),
        ([one()], None, True, True, "cherry-pick"),
        ([one()], None, False, False, "content"),
        ([one(), one(False, "2" * 40)], "ahead", True, True, "content"),
        ([one(), one(False, "2" * 40)], "ahead", False, False, "reverted"),
    ],
)
def test_content_has_the_last_word(
    turns: list[Turn], relation: str | None, content: bool | None, in_image: bool, how: str
) -> None:
    found = contains(turns, REVISION, ancestry=lambda a, b: relation, content=content)
    assert (found.in_image, found.how) == (in_image, how)
    assert found.evidence[-1].question == "content"


def test_what_cannot_be_asked() -> None:
    assert contains([one()], None).evidence[0].detail == "which revision the image holds is not known"
    found = contains([one()], REVISION)
    assert (found.in_image, found.how) == (None, "unknown")
    assert found.evidence[0].found is Found.NOT_TRIED
    nameless = contains([one(sha="")], REVISION, ancestry=lambda a, b: pytest.fail("it names no commit"))
    assert nameless.in_image is None


def test_shallow_clones_say_no_no(made: Made, tmp_path: Path) -> None:
    sha = made.land("Pad (#1)", {"a": "1\n"})
    made.land("two (#2)", {"a": "2\n"})
    last = made.land("three (#3)", {"a": "3\n"})
    clone = made.cloned(tmp_path / "shallow.git", "--depth=2")
    history = read_history(clone, repo=REPO)
    assert history is not None
    assert len(history) == 2
    assert contains([one(sha=sha)], last, history=history).in_image is None
    assert contains(turns_of(history, 3, None), last, history=history).in_image is True
    assert clone_ancestry(clone)(sha, last) is None
    assert history_ancestry(history)(last, last) == "identical"


def test_a_recorded_fate_s_turns() -> None:
    said = {
        "ref": ref(1),
        "title": "Pad",
        "head": None,
        "landed_at": None,
        "superseded_by": None,
        "first_release": None,
    }
    shas = {"landed_as": "1" * 40, "reverted_as": "2" * 40, "reverted_by": ref(2), "as_of": None}
    reverted = turns_from_fate(Fate(state=State.REVERTED, **said, **shas))  # type: ignore[arg-type]
    assert [turn.how for turn in reverted] == ["landing", "revert"]
    again = turns_from_fate(Fate(state=State.MERGED, **said, **shas))  # type: ignore[arg-type]
    assert [turn.how for turn in again] == ["revert", "landing"]
    none = turns_from_fate(
        Fate(state=State.OPEN, **said, landed_as=None, reverted_as=None, reverted_by=None, as_of=None)
    )  # type: ignore[arg-type]
    assert none == ()
