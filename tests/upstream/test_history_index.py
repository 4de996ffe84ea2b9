"""The index over histories that git made: landings, reverts, releases, and what a revision holds."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from patchkit.sources.clone import Logged, Tag
from patchkit.upstream.history import History, version_of
from patchkit.upstream.turns import standing, turns_of
from tests.upstream.made_history import REPO, Made

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def made(tmp_path: Path) -> Made:
    return Made(tmp_path / "made")


def told(history: History, number: int, landing: str | None = None, **more: str) -> list[tuple[str, str]]:
    """The turns as subject and how."""
    found = []
    for turn in turns_of(history, number, landing, **more):
        at = history.place(turn.sha)
        assert at is not None
        assert turn.present == (turn.how != "revert")
        found.append((history.commit(at).subject, turn.how))
    return found


def test_squash_revert_and_reland(made: Made) -> None:
    sha = made.land("Pad (#1)", {"a": "1\n"})
    made.land("Other (#2)", {"b": "1\n"})
    made.revert(sha, 'Revert "Pad (#1)" (#3)')
    made.land('Reland "Pad (#1)" (#4)', {"a": "2\n"})
    history = made.history()
    assert told(history, 1) == [
        ("Pad (#1)", "landing"),
        ('Revert "Pad (#1)" (#3)', "revert"),
        ('Reland "Pad (#1)" (#4)', "re-land"),
    ]
    assert told(history, 2) == [("Other (#2)", "landing")]
    # the revert is a pull request of its own, which the re-land takes back
    assert [how for _, how in told(history, 3)] == ["landing"]


def test_revert_of_a_revert_of_a_revert(made: Made) -> None:
    sha = made.land("Pad (#1)", {"a": "1\n"})
    first = made.revert(sha, 'Revert "Pad (#1)" (#2)', "")
    second = made.revert(first, 'Revert "Revert "Pad (#1)" (#2)" (#3)', "")
    made.revert(second, 'Revert "Revert "Revert "Pad (#1)" (#2)" (#3)" (#4)', "")
    history = made.history()
    assert [how for _, how in told(history, 1)] == ["landing", "revert", "re-land", "revert"]
    assert [how for _, how in told(history, 2)] == ["landing", "revert", "re-land"]


def test_titles_without_numbers(made: Made) -> None:
    """The Revert button's title names no number; a squash adds the revert's own."""
    sha = made.land("Pad (#1)", {"a": "1\n"})
    first = made.revert(sha, 'Revert "Pad" (#2)', "")
    made.revert(first, 'Revert "Revert "Pad"" (#3)', "")
    assert [how for _, how in told(made.history(), 1)] == ["landing", "revert", "re-land"]


def test_a_title_that_ends_in_an_issue(made: Made) -> None:
    sha = made.land("Pad (#77) (#1)", {"a": "1\n"})
    made.revert(sha, 'Revert "Pad (#77)" (#2)', "")
    assert [how for _, how in told(made.history(), 1)] == ["landing", "revert"]


def test_the_same_title_twice(made: Made) -> None:
    made.land("Update README (#1)", {"a": "1\n"})
    second = made.land("Update README (#2)", {"a": "2\n"})
    made.revert(second, 'Revert "Update README" (#3)', "")
    history = made.history()
    assert [how for _, how in told(history, 1)] == ["landing"]
    assert [how for _, how in told(history, 2)] == ["landing", "revert"]


def test_the_trailer_chooses_among_commits_of_one_title(made: Made) -> None:
    first = made.land("Update README (#1)", {"a": "1\n"})
    made.land("Update README (#2)", {"b": "2\n"})
    made.revert(first, 'Revert "Update README" (#3)', f"This reverts commit {first}.")
    history = made.history()
    assert [how for _, how in told(history, 1)] == ["landing", "revert"]
    assert [how for _, how in told(history, 2)] == ["landing"]


def test_revert_by_trailer_alone(made: Made) -> None:
    sha = made.land("Pad (#1)", {"a": "1\n"})
    made.revert(sha, "Go back to the old padding (#2)", f"It hung.\n\nThis reverts commit {sha[:10]}.")
    assert [how for _, how in told(made.history(), 1)] == ["landing", "revert"]


def test_git_s_own_messages(made: Made) -> None:
    sha = made.land("Pad (#1)", {"a": "1\n"})
    first = made.revert(sha)
    made.revert(first)  # `Revert "Revert …"`, or `Reapply …` from git 2.43 on
    assert [how for _, how in told(made.history(), 1)] == ["landing", "revert", "re-land"]


def test_quoted_trailers_revert_nothing(made: Made) -> None:
    sha = made.land("Pad (#1)", {"a": "1\n"})
    made.land("Tidy (#2)", {"b": "1\n"}, f'* tidy\n\n* Revert "Pad (#1)"\n\nThis reverts commit {sha}.\n\n* more')
    made.land("Tidy (#3)", {"b": "2\n"}, f"Unlike in\n\n    This reverts commit {sha}.\n\nwe keep it.")
    made.land("Tidy (#4)", {"b": "3\n"}, f"> This reverts commit {sha}.\n")
    made.land('Explain "Revert "Pad (#1)"" (#5)', {"b": "4\n"})
    assert told(made.history(), 1) == [("Pad (#1)", "landing")]


def test_a_number_in_a_revert_s_quoted_title_is_no_landing(made: Made) -> None:
    made.land('Revert "Pad (#1)" (#2)', {"a": "1\n"})
    history = made.history()
    assert history.landed(1) == ()
    assert [how for _, how in told(history, 1)] == ["revert"]


def test_a_revert_without_quotes_that_ends_in_the_number_it_reverts(made: Made) -> None:
    made.land("Pad (#1)", {"a": "1\n"})
    made.land("Revert Pad (#1)", {"a": "0\n"})
    made.land("Revert the scheduler (#9)", {"a": "2\n"})
    history = made.history()
    assert [how for _, how in told(history, 1)] == ["landing", "revert"]
    assert [how for _, how in told(history, 9)] == ["landing"]


def test_rebase_merge_is_known_by_its_commit_alone(made: Made) -> None:
    made.land("part one", {"a": "1\n"})
    last = made.land("part two", {"a": "2\n"})
    made.revert(last)
    history = made.history()
    assert told(history, 1) == []
    assert [how for _, how in told(history, 1, last)] == ["landing", "revert"]


def test_merge_commit(made: Made) -> None:
    made.git("checkout", "-q", "-b", "side")
    made.land("work", {"a": "1\n"})
    made.git("checkout", "-q", "main")
    made.land("Other (#2)", {"b": "1\n"})
    made.git("merge", "-q", "--no-ff", "-m", "Merge pull request #1 from someone/side", "side")
    sha = made.head
    made.tick(None)
    made.git("revert", "--no-edit", "-m", "1", sha)
    history = made.history()
    assert [how for _, how in told(history, 1)] == ["landing", "revert"]
    assert history.on_base(made.git("rev-parse", "side"))


def test_cherry_picks_on_a_release_branch(made: Made) -> None:
    made.git("branch", "release/1.0")
    sha = made.land("Pad (#1)", {"a": "1\n"})
    other = made.land("Second (#2)", {"b": "1\n"})
    third = made.land("Third (#3)", {"c": "1\n"})
    made.git("checkout", "-q", "release/1.0")
    picked = made.pick(sha)
    made.pick(other, "-x")
    made.git("commit", "-q", "--amend", "-m", f"Reworded\n\n(cherry picked from commit {other})")
    made.pick(third)
    made.git("commit", "-q", "--amend", "-m", "[release/1.0] Third (#3) (#4)")
    made.git("tag", "v1.0")
    made.revert(picked, 'Revert "Pad (#1)" (#5)')
    made.git("tag", "v1.0.post1")
    made.git("checkout", "-q", "main")
    history = made.history()
    assert [
        (how, history.on_base(t.sha)) for t, (_, how) in zip(turns_of(history, 1, None), told(history, 1), strict=True)
    ] == [
        ("landing", True),
        ("cherry-pick", False),
        ("revert", False),
    ]
    assert [how for _, how in told(history, 2)] == ["landing", "cherry-pick"]
    assert [how for _, how in told(history, 3)] == ["landing", "cherry-pick"]
    assert [release.name for release in history.releases] == ["v1.0", "v1.0.post1"]
    for number, (first, second) in {1: (True, False), 2: (True, True), 3: (True, True)}.items():
        turns = turns_of(history, number, None)
        for place, expected in enumerate((first, second)):
            assert standing(turns, lambda sha, at=place: history.in_release(at, sha))[0] is expected


def test_a_later_title_that_only_mentions_the_number_is_no_pick(made: Made) -> None:
    sha = made.land("Pad (#1)", {"a": "1\n"})
    made.revert(sha, 'Revert "Pad (#1)" (#2)')
    made.land("Clean up what padding left (#1) (#3)", {"b": "1\n"})
    assert [how for _, how in told(made.history(), 1)] == ["landing", "revert"]
    made.land("Pad (#1) (#4)", {"a": "1\n"})
    assert [how for _, how in told(made.history(), 1)] == ["landing", "revert", "cherry-pick"]


@pytest.mark.parametrize(
    ("tag", "version"),
    [
        ("v0.28.0", "0.28.0"),
        ("0.1.5.post1", "0.1.5.post1"),
        ("v0.28.0rc1", "0.28.0rc1"),
        ("release-1.2", "1.2"),
        ("aiter-v0.1.5", "0.1.5"),
        ("v0.28.0+rocm7", "0.28.0+rocm7"),
        ("nightly-20260901", None),
        ("ciflow/trunk/17", None),
        ("v1.x", None),
        ("latest", None),
    ],
)
def test_tags_that_are_versions(tag: str, version: str | None) -> None:
    found = version_of(tag, REPO)
    assert (None if found is None else str(found)) == version


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.lists(st.integers(0, 30), max_size=3), min_size=1, max_size=25), st.data())
def test_ancestry_is_that_of_the_graph(shape: list[list[int]], data: st.DataObject) -> None:
    """Any graph: bit masks and walks say what a plain search says."""
    names = [f"{number:040x}" for number in range(len(shape))]
    parents = [tuple(sorted({names[p % at] for p in choice})) if at else () for at, choice in enumerate(shape)]
    log = [Logged(sha=sha, parents=parents[at], time=at, subject=f"s{at}", body="") for at, sha in enumerate(names)]
    tags = [Tag(name=f"v{at}", commit=sha, time=0) for at, sha in enumerate(names)]
    history = History(log[::-1], repo=REPO, base=names[-1], tags=tags)

    def reach(sha: str) -> set[str]:
        return {sha}.union(*(reach_of[parent] for parent in parents[names.index(sha)]))

    reach_of: dict[str, set[str]] = {}
    for sha in names:
        reach_of[sha] = reach(sha)
    a, b = data.draw(st.sampled_from(names)), data.draw(st.sampled_from(names))
    assert history.is_ancestor(a, b) is (a in reach_of[b])
    assert history.on_base(a) is (a in reach_of[names[-1]])
    assert history.in_release(names.index(b), a) is (a in reach_of[b])
    assert history.find(a) == names.index(a)
    assert history.find(a[:7]) == (0 if len(names) == 1 else None)
