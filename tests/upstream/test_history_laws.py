"""The law: at every commit, the turns say the change is there exactly where the tree holds it."""

from __future__ import annotations

import re
import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from patchkit.upstream.containment import contains
from patchkit.upstream.facts import State
from patchkit.upstream.history import read_history
from patchkit.upstream.reverts import tell
from tests.upstream.made_history import REPO, Made, pull, ref

TAKE_BACK = ("git", "title", "button", "trailer", "body")
DO_AGAIN = ("git", "title", "button", "trailer", "reland", "reland number", "reapply")
NOISE = ("other", "quote", "partial", "mention")


@settings(max_examples=25, deadline=None)
@given(
    st.lists(
        st.tuples(st.sampled_from(TAKE_BACK), st.sampled_from(DO_AGAIN), st.sampled_from((*NOISE, ""))), max_size=4
    ),
    st.booleans(),
)
def test_the_turns_say_what_the_tree_holds(steps: list[tuple[str, str, str]], cut: bool) -> None:
    with tempfile.TemporaryDirectory() as folder:
        made = Made(Path(folder) / "made")
        landing = made.land("Pad MLA (#1)", {"a.py": "padded\n"})
        last, number = landing, 1
        for away, again, noise in steps:
            number += 1
            last = took_back(made, away, last, number)
            made_noise(made, noise, landing, number)
            if cut and (away, again, noise) == steps[-1]:
                break
            number += 1
            last = did_again(made, again, last, number)
        for at, sha in enumerate(made.git("rev-list", "--reverse", "main").split()):
            made.git("tag", f"v0.{at}", sha)
        check(made, landing)


def check(made: Made, landing: str) -> None:
    clone = made.clone
    history = read_history(clone, repo=REPO)
    clone.close()
    assert history is not None
    said = pull(1, "Pad MLA", state="merged", merge_commit=landing, merged_at="2026-08-01T02:00:00Z")
    story = tell(ref(1), said, history)
    first = None
    for release in history.releases:
        there = "a.py" in made.git("ls-tree", "--name-only", release.commit).split("\n")
        found = contains(story.turns, release.commit, history=history)
        assert found.in_image is there, (release, story.turns)
        first = first or (release.name if there else None)
    assert story.fate.state is (State.MERGED if there else State.REVERTED)
    assert story.fate.first_release == first
    assert (story.fate.reverted_as is None) == (len([turn for turn in story.turns if not turn.present]) == 0)


def took_back(made: Made, style: str, last: str, number: int) -> str:
    """Revert the commit that last brought the change."""
    subject = made.git("log", "-1", "--format=%s", last)
    text = re.sub(r" \(#\d+\)$", "", subject)
    if style == "git":
        return made.revert(last)
    if style == "title":
        return made.revert(last, f'Revert "{subject}" (#{number})', "")
    if style == "button":
        return made.revert(last, f'[ROCm] Revert "{text}" (#{number})', "")
    if style == "trailer":
        return made.revert(last, f"The old way (#{number})", f"It hung.\n\nThis reverts commit {last[:12]}.")
    return made.revert(last, f"Revert what hung (#{number})", f"Reverts {REPO}#1")


def did_again(made: Made, style: str, last: str, number: int) -> str:
    """Bring the change back after the revert `last`."""
    messages = {
        "reland": f'Reland "Pad MLA (#1)" (#{number})',
        "reland number": f"[Re-land #1] Pad MLA, with more care (#{number})",
        "reapply": f'Reapply "Pad MLA (#1)" (#{number})',
    }
    if style in messages:
        return made.land(messages[style], {"a.py": "padded\n"})
    return took_back(made, style, last, number)


def made_noise(made: Made, style: str, landing: str, number: int) -> None:
    said = {
        "other": (f"Other (#{number + 100})", ""),
        "quote": (f"Tidy (#{number + 100})", f'* Revert "Pad MLA (#1)"\n\nThis reverts commit {landing}.\n\n* Tidy'),
        "partial": (f'Partially revert "Pad MLA (#1)" (#{number + 100})', f"This partially reverts commit {landing}."),
        "mention": (f"Clean up after #1 (#{number + 100})", f"See Reverts #1 and {landing}."),
    }
    if style:
        subject, body = said[style]
        made.land(subject, {"b.py": f"{number}\n"}, body)
