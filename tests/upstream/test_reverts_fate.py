"""What became of a pull request: with a clone, by the forge alone, and with both when they disagree."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from patchkit.upstream.facts import Commit, Fate, Found, Gone, Pull, Ref, State
from patchkit.upstream.history import read_history
from patchkit.upstream.landing import ClonePatchIds, untried
from patchkit.upstream.reverts import fate, tell
from tests.upstream.made_history import REPO, Made, mention, pull, ref

if TYPE_CHECKING:
    from pathlib import Path

#: A change that no made history has, as a step carries it.
OWN = b"--- a/a.py\n+++ b/a.py\n@@ -1 +1 @@\n-never\n+landed\n"
BODY = "".join(f"line {number}\n" for number in range(30))


@pytest.fixture
def made(tmp_path: Path) -> Made:
    made = Made(tmp_path / "made")
    made.land("base", {"a.py": BODY, "b.py": BODY})
    return made


def merged(number: int, sha: str, title: str = "Pad", **more: object) -> Pull:
    said = {"state": "merged", "merge_commit": sha, "merged_at": "2026-08-01T03:00:00Z"}
    return pull(number, title, **(said | more))


def questions(found: Fate) -> list[tuple[str, Found]]:
    return [(item.question, item.found) for item in found.evidence[5:]]


def test_merged(made: Made) -> None:
    sha = made.land("Pad (#1)", {"a.py": "x\n"})
    made.git("tag", "v1.0")
    found = fate(ref(1), merged(1, sha), made.history())
    assert (found.state, found.landed_as, found.landed_at) == (State.MERGED, sha, "2026-08-01T03:00:00Z")
    assert (found.reverted_by, found.reverted_as, found.superseded_by) == (None, None, None)
    assert (found.first_release, found.as_of) == ("v1.0", "2026-10-01T00:00:00Z")
    assert questions(found) == [("revert", Found.NO)]
    assert found.evidence[-1].detail.endswith("by content not tried: no clone")


def test_reverted_then_landed_again_by_another(made: Made) -> None:
    sha = made.land("Pad (#1)", {"a.py": "x\n"})
    revert = made.revert(sha, 'Revert "Pad (#1)" (#2)')
    found = fate(ref(1), merged(1, sha), made.history())
    assert (found.state, found.landed_as) == (State.REVERTED, sha)
    assert (found.reverted_by, found.reverted_as) == (ref(2), revert)
    assert questions(found) == [("revert", Found.YES)]
    again = made.land('Reland "Pad (#1)" (#3)', {"a.py": "y\n"})
    found = fate(ref(1), merged(1, sha), made.history())
    assert (found.state, found.landed_as, found.superseded_by) == (State.MERGED, again, ref(3))
    assert (found.reverted_by, found.reverted_as) == (ref(2), revert)
    last = made.revert(again, 'Revert "Reland "Pad (#1)"" (#4)', "")
    found = fate(ref(1), merged(1, sha), made.history())
    assert (found.state, found.landed_as, found.reverted_by, found.reverted_as) == (State.REVERTED, again, ref(4), last)


@pytest.mark.parametrize(
    "subject", ["Back out pad (#1)", 'Revert "Pad" (#1)', 'Revert "Pad (#1)" (#1)', "revert: pad (#1)"]
)
@pytest.mark.parametrize("names_the_commit", [True, False])
def test_a_back_out_that_ends_in_the_number_of_what_it_takes_back(
    made: Made, subject: str, names_the_commit: bool
) -> None:
    sha = made.land("Pad (#1)", {"a.py": "x\n"})
    revert = made.revert(sha, subject, f"This reverts commit {sha[:9]}." if names_the_commit else "")
    found = fate(ref(1), merged(1, sha), made.history())
    assert (found.state, found.landed_as, found.reverted_as) == (State.REVERTED, sha, revert)
    assert (found.reverted_by, found.superseded_by) == (None, None)
    assert f"{revert[:12]} of " in found.evidence[5].detail
    again = made.land("Reland pad (#1)", {"a.py": "y\n"})
    made.land("unrelated (#9)", {"b.py": "y\n"})
    found = fate(ref(1), merged(1, sha), made.history())
    assert (found.state, found.landed_as, found.superseded_by) == (State.MERGED, again, None)


def test_a_part_taken_back_is_no_revert(made: Made) -> None:
    sha = made.land("Pad (#1)", {"a.py": "x\n"})
    title = 'Revert "Pad (#1)" in docs only'
    part = made.land(f"{title} (#2)", {"docs": "x\n"})
    made.land(f'Revert "{title} (#2)" (#3)', {"docs": "y\n"})
    told = (mention(2, title, merge_commit=part), mention(3, f'Revert "{title}"', merge_commit="3" * 40))
    for said in (merged(1, sha), merged(1, sha, mentions=told)):
        found = fate(ref(1), said, made.history())
        assert (found.state, found.landed_as, found.reverted_by, found.superseded_by) == (State.MERGED, sha, None, None)
        assert questions(found) == [("revert", Found.NO), ("partial revert", Found.YES)]
        assert found.evidence[-1].commit == part
    assert fate(ref(1), merged(1, sha, mentions=told)).state is State.MERGED
    whole = made.land(f"{title} (#4)", {"a.py": BODY}, f"This reverts commit {sha}.")
    found = fate(ref(1), merged(1, sha), made.history())
    assert (found.state, found.reverted_as, found.reverted_by) == (State.REVERTED, whole, ref(4))


def test_a_successor_after_a_revert(made: Made) -> None:
    """The case of aiter's #4494: reverted by #4709, superseded by #4916."""
    sha = made.land("Pad MLA (#4494)", {"a.py": "x\n"}, at="2026-08-12T09:44:00Z")
    revert = made.revert(sha, 'Revert "Pad MLA (#4494)" (#4709)', at="2026-08-12T16:53:00Z")
    made.land("Pad MLA another way (#4916)", {"b.py": "x\n"}, at="2026-08-20T00:00:00Z")
    said = merged(4494, sha, "Pad MLA", mentions=(
        mention(4709, 'Revert "Pad MLA"', merge_commit=revert, merged_at="2026-08-12T16:53:00Z", body="Reverts ROCm/aiter#4494"),
        mention(4916, "Pad MLA another way", body="Supersedes #4494.", state="open", merged_at=None),
        mention(4950, "Unrelated", body="See #4494."),
    ))  # fmt: skip
    for history in (made.history(), None):
        found = fate(ref(4494), said, history)
        assert (found.state, found.landed_as) == (State.REVERTED, sha)
        assert (found.reverted_by, found.reverted_as, found.superseded_by) == (ref(4709), revert, ref(4916))


@pytest.mark.parametrize(
    ("title", "body"),
    [
        ('Revert "Pad (#1)"', ""),
        ('Revert "Pad"', ""),
        ('Revert "Pad"', "Reverts ROCm/aiter#1"),
        ("Revert the padding", "Reverts #1"),
        ("[Bugfix] Revert #1", ""),
    ],
)
def test_revert_by_the_forge_alone(title: str, body: str) -> None:
    said = merged(1, "1" * 40, mentions=(mention(2, title, body=body, merge_commit="2" * 40),))
    found = fate(ref(1), said)
    assert (found.state, found.reverted_by, found.reverted_as) == (State.REVERTED, ref(2), "2" * 40)
    assert (found.landed_as, found.first_release, found.as_of) == ("1" * 40, None, "2026-10-01T00:00:00Z")


def test_chains_by_the_forge_alone() -> None:
    steps = [
        mention(2, 'Revert "Pad (#1)"', merge_commit="2" * 40, merged_at="2026-08-02T00:00:00Z"),
        mention(3, 'Revert "Revert "Pad (#1)" (#2)"', merge_commit="3" * 40, merged_at="2026-08-03T00:00:00Z"),
        mention(4, 'Revert "Revert "Revert "Pad""" (#3)', merge_commit="4" * 40, merged_at="2026-08-04T00:00:00Z"),
        mention(5, "Reland #1", merge_commit="5" * 40, merged_at="2026-08-05T00:00:00Z"),
    ]
    states = [fate(ref(1), merged(1, "1" * 40, mentions=tuple(steps[:count][::-1]))).state for count in range(5)]
    assert states == [State.MERGED, State.REVERTED, State.MERGED, State.REVERTED, State.MERGED]
    found = fate(ref(1), merged(1, "1" * 40, mentions=tuple(steps)))
    assert (found.landed_as, found.superseded_by, found.reverted_by) == ("5" * 40, ref(5), ref(4))
    quoted = (mention(6, "Tidy", body="> Reverts #1"), mention(7, 'Revert "Padding"'), mention(8, "Revert #11"))
    assert fate(ref(1), merged(1, "1" * 40, mentions=quoted)).state is State.MERGED
    unmerged = (mention(2, 'Revert "Pad (#1)"', state="open"), mention(3, 'Revert "Pad (#1)"', state="closed"))
    assert fate(ref(1), merged(1, "1" * 40, mentions=unmerged)).state is State.MERGED


def test_a_revert_that_the_clone_is_too_old_for(made: Made) -> None:
    sha = made.land("Pad (#1)", {"a.py": "x\n"})
    newer = mention(2, 'Revert "Pad (#1)"', merge_commit="2" * 40, merged_at="2026-08-20T00:00:00Z")
    found = fate(ref(1), merged(1, sha, mentions=(newer,)), made.history())
    assert (found.state, found.reverted_by) == (State.REVERTED, ref(2))


def test_a_revert_on_another_branch_changes_nothing_here(made: Made) -> None:
    sha = made.land("Pad (#1)", {"a.py": "x\n"})
    made.land("much later", {"b.py": "x\n"}, at="2026-09-15T00:00:00Z")
    elsewhere = mention(2, 'Revert "Pad (#1)"', merge_commit="2" * 40, merged_at="2026-08-20T00:00:00Z")
    assert fate(ref(1), merged(1, sha, mentions=(elsewhere,)), made.history()).state is State.MERGED


def test_merge_that_the_clone_is_too_old_for(made: Made) -> None:
    said = merged(1, "1" * 40, merged_at="2026-08-20T00:00:00Z")
    found = fate(ref(1), said, made.history())
    assert (found.state, found.landed_as, found.landed_at) == (State.MERGED, "1" * 40, "2026-08-20T00:00:00Z")


@pytest.mark.parametrize(
    ("said", "state"),
    [
        (pull(1, state="open", closed_at=None), State.OPEN),
        (pull(1, state="open", draft=True, closed_at=None), State.DRAFT),
        (pull(1, closed_at="2026-08-01T01:00:00Z"), State.UNKNOWN),  # by a commit that does not name it, perhaps
        (pull(1, closed_at="2026-09-01T01:00:00Z"), State.UNKNOWN),  # newer than the clone
        (pull(1, mentions=(mention(2, "Better", body="Replaces #1"),)), State.SUPERSEDED),
        (pull(1, state="open", closed_at=None, mentions=(mention(2, "Better", body="Replaces #1"),)), State.OPEN),
        (Gone(ref=ref(1), as_of="2026-10-01T00:00:00Z"), State.GONE),
        (None, State.UNKNOWN),
    ],
)
def test_never_landed(made: Made, said: Pull | Gone | None, state: State) -> None:
    found = fate(ref(1), said, made.history())
    assert (found.state, found.landed_as, found.reverted_by) == (state, None, None)
    if isinstance(said, Pull) and said.mentions:
        assert found.superseded_by == ref(2)


def test_closed_is_not_abandoned_before_the_history_was_read(made: Made, tmp_path: Path) -> None:
    said = pull(1, closed_at="2026-08-01T01:00:00Z")
    assert fate(ref(1), said).state is State.UNKNOWN
    history = made.history()
    ids = ClonePatchIds(made.clone, history.base, OWN)
    assert fate(ref(1), said, history, patch_ids=ids).state is State.ABANDONED
    assert not fate(ref(1), said, history, patch_ids=ids).closed
    assert fate(ref(1), said, history, content=True).state is State.MERGED
    treeless = made.cloned(tmp_path / "treeless.git", "--filter=tree:0")
    for patch_ids in (None, ClonePatchIds(treeless, history.base, OWN), ClonePatchIds(made.clone, history.base)):
        found = fate(ref(1), said, history, patch_ids=patch_ids, content=False)
        assert (found.state, found.closed) == (State.UNKNOWN, True)
        assert untried(found.evidence).startswith("patch-id not tried: ")
    shallow = read_history(made.cloned(tmp_path / "shallow.git", "--depth=1"), repo=REPO)
    assert fate(ref(1), said, shallow).state is State.UNKNOWN
    assert fate(ref(1), said, shallow).closed
    for answer in (None, Gone(ref=ref(1), as_of="2026-10-01T00:00:00Z"), pull(1, state="open", closed_at=None)):
        assert not fate(ref(1), answer, history).closed


@pytest.mark.parametrize("kind", ["full", "treeless"])
def test_what_a_bot_landed_without_a_number_is_never_abandoned(made: Made, tmp_path: Path, kind: str) -> None:
    made.git("checkout", "-q", "-b", "proposal")
    head = made.land("work", {"a.py": BODY.replace("line 20\n", "padded\n")})
    made.git("checkout", "-q", "main")
    sha = made.pick(head)
    history = made.history()
    clone = made.clone if kind == "full" else made.cloned(tmp_path / "treeless.git", "--filter=tree:0")
    found = fate(ref(1), pull(1, head=head), history, patch_ids=ClonePatchIds(clone, history.base))
    landed = (State.MERGED, sha, False) if kind == "full" else (State.UNKNOWN, None, True)
    assert (found.state, found.landed_as, found.closed) == landed


def test_as_of_is_when_this_pull_request_was_last_confirmed(made: Made) -> None:
    """A clone that left no trace of its fetch is dated by its newest commit: the forge's word is no older for that."""
    sha = made.land("Pad (#1)", {"a.py": "x\n"})
    history = made.history()
    gone = Gone(ref=ref(1), as_of="2026-10-02T00:00:00Z")
    for said, as_of in ((merged(1, sha), "2026-10-01T00:00:00Z"), (gone, gone.as_of), (None, history.as_of)):
        assert fate(ref(1), said, history).as_of == as_of
    assert fate(ref(1), pull(1), None).as_of == "2026-10-01T00:00:00Z"
    assert f"as of {history.as_of}" in fate(ref(2), pull(2), history).evidence[1].detail


@pytest.mark.parametrize(
    ("title", "body", "is_one"),
    [
        ('Reland "Pad (#1)"', "", False),
        ('Reland "Pad"', "", False),
        ("Pad", "This replaces #1 of ours. See ROCm/aiter#1", False),
        ("Pad", "Supersedes ROCm/aiter#1", True),
        ("Pad", "Supersedes https://github.com/rocm/aiter/pull/1", True),
        ("Pad", "Supersedes https://ghe.example/rocm/aiter/pull/1", False),
    ],
)
def test_a_successor_in_a_fork_names_the_repository(title: str, body: str, is_one: bool) -> None:
    fork = Ref(repo="fork/aiter", number=900)
    said = pull(1, "Pad", mentions=(mention(900, title, body=body, ref=fork),))
    found = fate(ref(1), said)
    assert found.superseded_by == (fork if is_one else None)
    assert found.state is (State.SUPERSEDED if is_one else State.UNKNOWN)
    at_home = 'Reland "Pad"' if "Reland" in title else title
    ours = fate(ref(1), pull(1, "Pad", mentions=(mention(2, at_home, body=body.replace("ghe.example", "github.com")),)))
    assert ours.superseded_by == ref(2)


def test_closed_on_the_landing_of_another() -> None:
    closer = Commit(sha="2" * 40, time="2026-08-01T02:00:00Z", subject="Pad better (#2)", body="Closes #1")
    found = fate(ref(1), pull(1, closed_by=(closer,)))
    assert (found.state, found.superseded_by) == (State.SUPERSEDED, ref(2))


def test_gone_or_unasked_but_in_the_history(made: Made) -> None:
    sha = made.land("Pad (#1)", {"a.py": "x\n"})
    history = made.history()
    for said in (None, Gone(ref=ref(1), as_of="2026-10-01T00:00:00Z")):
        found = fate(ref(1), said, history)
        assert (found.state, found.landed_as, found.title, found.head) == (State.MERGED, sha, "Pad", None)
    assert fate(ref(1), None).as_of is None
    assert fate(ref(1), None).evidence[0].found is Found.NOT_TRIED


def test_revert_by_content(made: Made, tmp_path: Path) -> None:
    """Neither title nor trailer names what is taken back; then what is done again."""
    after = BODY.replace("line 20\n", "padded\n")
    sha = made.land("Pad (#1)", {"a.py": after, "new.py": "x\n"})
    made.land("Move the lines (#5)", {"a.py": "top\n" + after})
    back = made.land("Old padding was better (#2)", {"a.py": "top\n" + BODY, "new.py": None, "c": "y\n"})
    made.land("Revert the scheduler", {"c": "z\n"})
    history = made.history()
    assert fate(ref(1), merged(1, sha), history).state is State.MERGED
    ids = ClonePatchIds(made.clone, history.base)
    found = fate(ref(1), merged(1, sha), history, patch_ids=ids)
    assert (found.state, found.reverted_as, found.reverted_by) == (State.REVERTED, back, ref(2))
    again = made.land("Pad once more (#6)", {"a.py": "top\n" + after, "new.py": "x\n"})
    history = made.history()
    found = fate(ref(1), merged(1, sha), history, patch_ids=ClonePatchIds(made.clone, history.base))
    assert (found.state, found.landed_as, found.superseded_by) == (State.MERGED, again, ref(6))
    assert found.evidence[-1].detail.endswith("; nor by content")
    treeless = ClonePatchIds(made.cloned(tmp_path / "treeless.git", "--filter=tree:0"), history.base)
    found = fate(ref(1), merged(1, sha), history, patch_ids=treeless)
    assert found.evidence[-1].detail.endswith("does not hold the files; a full one does: --clone OWNER/REPO=DIR")


def test_a_late_revert_by_content_must_call_itself_one(made: Made) -> None:
    sha = made.land("Pad (#1)", {"a.py": BODY.replace("line 20\n", "padded\n")})
    made.land("Old padding was better", {"a.py": BODY}, at="2026-12-01T00:00:00Z")
    history = made.history()
    ids = ClonePatchIds(made.clone, history.base)
    assert fate(ref(1), merged(1, sha), history, patch_ids=ids).state is State.MERGED
    made.land("Pad differently", {"a.py": BODY.replace("line 20\n", "padded\n")})
    back = made.land("Back out the padding", {"a.py": BODY})
    history = made.history()
    found = fate(ref(1), merged(1, sha), history, patch_ids=ClonePatchIds(made.clone, history.base))
    assert (found.state, found.reverted_as, found.reverted_by) == (State.REVERTED, back, None)


def test_the_story_keeps_what_the_fate_rests_on(made: Made) -> None:
    sha = made.land("Pad (#1)", {"a.py": "x\n"})
    made.revert(sha)
    story = tell(ref(1), merged(1, sha), made.history())
    assert [turn.how for turn in story.turns] == ["landing", "revert"]
    assert story.landing.commit == sha
    assert story.fate.evidence[:5] == story.landing.evidence


def test_merged_into_another_branch(made: Made) -> None:
    made.git("checkout", "-q", "-b", "feature")
    inner = made.land("work", {"a.py": "x\n"})
    made.git("checkout", "-q", "main")
    into_feature = {"base": "feature", "default_branch": "main"}
    for history in (made.history(inner), made.history(), None):
        found = fate(ref(1), merged(1, inner, **into_feature), history)
        assert (found.state, found.landed_as, found.merged_elsewhere) == (State.MERGED, inner, "feature")
    newer = merged(1, "1" * 40, merged_at="2026-09-20T00:00:00Z", **into_feature)
    assert fate(ref(1), newer, made.history()).merged_elsewhere == "feature"
    assert fate(ref(1), merged(1, inner, base="feature"), made.history()).merged_elsewhere == "feature"
    assert fate(ref(1), merged(1, inner, base="main"), made.history()).merged_elsewhere is None
    squashed = made.land("Pad (#1)", {"a.py": "x\n"})
    found = fate(ref(1), merged(1, inner, **into_feature), made.history())
    assert (found.landed_as, found.merged_elsewhere) == (squashed, None)
    made.git("merge", "-q", "--no-edit", "-X", "ours", "feature")
    found = fate(ref(1), merged(1, inner, **into_feature), made.history())
    assert (found.state, found.merged_elsewhere) == (State.MERGED, None)


@pytest.mark.parametrize("broken", ["the pull request's", "the landing's"])
def test_a_clone_that_lost_a_file_is_no_failure(made: Made, broken: str) -> None:
    made.git("checkout", "-q", "-b", "proposal")
    head = made.land("wip", {"a.py": "mine\n"})
    made.git("checkout", "-q", "main")
    sha = made.land("Pad (#1)", {"a.py": "theirs\n"})
    blob = made.git("rev-parse", f"{head if broken.startswith('the pull') else sha}:a.py")
    (made.path / ".git/objects" / blob[:2] / blob[2:]).unlink()
    (made.path / ".git/index").unlink()  # else git reads the file in the work tree instead
    history = made.history()
    ids = ClonePatchIds(made.clone, history.base)
    closed = fate(ref(2), pull(2, head=head), history, patch_ids=ids)
    assert (closed.state, closed.closed) == (State.UNKNOWN, True)
    assert closed.evidence[3].found is Found.NOT_TRIED
    assert "found a damaged or incomplete clone" in closed.evidence[3].detail
    landed = fate(ref(1), merged(1, sha), history, patch_ids=ClonePatchIds(made.clone, history.base))
    assert landed.state is State.MERGED
    assert ("damaged" in landed.evidence[-1].detail) == (broken == "the landing's")
