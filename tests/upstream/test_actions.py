"""What to do about a step: each rule by its own case, and the laws that hold for all."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from patchkit.upstream.actions import Action, Advice, Known, Plan, Question, advise
from patchkit.upstream.facts import Containment, Fate, Ref, State

PR = Ref.parse("ROCm/aiter#4494")
NEXT = Ref.parse("ROCm/aiter#4916")
LANDED = "c6ce60c7496b448b979d619a02d6b0394291f211"
REVERT = "518cfbc60b2fe85520bd3295899d88dbf790e38a"
HEAD_THEN, HEAD_NOW = "0" * 40, "1" * 40


def fate(state: State, ref: Ref = PR, **facts: Any) -> Fate:
    unknown = dict.fromkeys(
        ("head", "landed_as", "landed_at", "reverted_by", "reverted_as", "superseded_by", "first_release")
    )
    return Fate(**{**unknown, "ref": ref, "state": state, "title": "", "as_of": "2026-09", **facts})


def known(state: State, in_image: bool | None = None, how: str = "unknown", **facts: Any) -> Known:
    extra = {name: facts.pop(name) for name in ("first_image", "trouble") if name in facts}
    return Known(fate=fate(state, **facts), containment=Containment(in_image=in_image, how=how, evidence=()), **extra)


def ask(*every: Known, **rest: Any) -> Advice:
    return advise(Question(known=every, **rest))


CASES = {
    "none upstream": ((), {}, Action.LOCAL, "no pull request upstream: ours alone"),
    "open": ((known(State.OPEN),), {}, Action.KEEP, "ROCm/aiter#4494 is open, not landed"),
    "draft": ((known(State.DRAFT),), {}, Action.KEEP, "ROCm/aiter#4494 is a draft, not landed"),
    "moved": (
        (known(State.OPEN, head=HEAD_NOW),),
        {"taken": HEAD_THEN},
        Action.REFRESH,
        f"ROCm/aiter#4494 is open and has moved: the patch was taken at {HEAD_THEN}, its head is {HEAD_NOW} now",
    ),
    "not moved, taken by a short SHA": (
        (known(State.OPEN, head=HEAD_NOW),),
        {"taken": "1111111"},
        Action.KEEP,
        "ROCm/aiter#4494 is open, not landed",
    ),
    "contained by ancestry": (
        (known(State.MERGED, True, "ancestry", landed_as=LANDED),),
        {},
        Action.DROP,
        "ROCm/aiter#4494 landed as c6ce60c749; contained by ancestry",
    ),
    "cherry-picked": (
        (known(State.MERGED, True, "cherry-pick", landed_as=LANDED),),
        {},
        Action.DROP,
        "ROCm/aiter#4494 landed as c6ce60c749; contained by cherry-pick",
    ),
    "ancestry says yes, content no": (
        (known(State.MERGED, True, "ancestry", landed_as=LANDED),),
        {"content": False},
        Action.KEEP,
        "ROCm/aiter#4494 landed as c6ce60c749; contained by ancestry",
    ),
    "released, not in this image": (
        (known(State.MERGED, False, landed_as=LANDED, first_release="0.28.0"),),
        {},
        Action.BUMP,
        "ROCm/aiter#4494 landed as c6ce60c749; is not in this image; first in release 0.28.0",
    ),
    "in a later image": (
        (known(State.MERGED, None, first_image="nightly-1", first_release="0.28.0"),),
        {},
        Action.BUMP,
        "ROCm/aiter#4494 landed; whether this image has it is not known; first in image nightly-1 and release 0.28.0",
    ),
    "merged, nowhere yet": (
        (known(State.MERGED, False),),
        {},
        Action.KEEP,
        "ROCm/aiter#4494 landed; is not in this image; no image or release is known to have it",
    ),
    "merged into another branch": (
        (known(State.MERGED, merged_elsewhere="feature"),),
        {},
        Action.REVIEW,
        "ROCm/aiter#4494 was merged into feature, and is not found on the default branch",
    ),
    "reverted": (
        (
            known(
                State.REVERTED,
                landed_as=LANDED,
                landed_at="2026-08-12T09:44:00Z",
                reverted_by=Ref.parse("ROCm/aiter#4709"),
                reverted_as=REVERT,
                superseded_by=NEXT,
            ),
        ),
        {},
        Action.REVIEW,
        (
            "ROCm/aiter#4494 landed on 2026-08-12 as c6ce60c749 and was reverted by ROCm/aiter#4709 (518cfbc60b),"
            " superseded by ROCm/aiter#4916"
        ),
    ),
    "reverted, but this image's files have it": (
        (known(State.REVERTED, False, "reverted"),),
        {"content": True},
        Action.DROP,
        "ROCm/aiter#4494 is in this image's own files, but was reverted: a later image may be without it",
    ),
    "abandoned, planned by hand": (
        (known(State.ABANDONED),),
        {"plan": Plan(when="manual")},
        Action.REVIEW,
        (
            "ROCm/aiter#4494 was closed without landing;"
            " a removal plan that waits for ROCm/aiter#4494 is impossible: this step's is manual"
        ),
    ),
    "abandoned, and waited for": (
        (known(State.ABANDONED),),
        {"plan": Plan(when="contained", ref=PR)},
        Action.REVIEW,
        (
            "ROCm/aiter#4494 was closed without landing;"
            " the removal plan is impossible: it waits for ROCm/aiter#4494 to be contained"
        ),
    ),
    "gone": (
        (known(State.GONE),),
        {},
        Action.REVIEW,
        "ROCm/aiter#4494 is gone: the forge knows no such pull request",
    ),
    "a plan that waits for another pull request": (
        (known(State.OPEN),),
        {
            "plan": Plan(when="released", ref=NEXT),
            "awaited": known(State.ABANDONED, ref=NEXT),
        },
        Action.REVIEW,
        (
            "ROCm/aiter#4494 is open, not landed;"
            " the removal plan is impossible: it waits for ROCm/aiter#4916 to be released"
        ),
    ),
    "the successor has landed in this image": (
        (
            known(State.REVERTED, False, "reverted", superseded_by=NEXT),
            known(State.MERGED, True, "ancestry", ref=NEXT, landed_as=LANDED),
        ),
        {},
        Action.DROP,
        "ROCm/aiter#4916 landed as c6ce60c749; contained by ancestry",
    ),
    "the forge did not answer": (
        (known(State.OPEN, trouble="the forge answers 502"),),
        {},
        Action.KEEP,
        "ROCm/aiter#4494 is open, not landed [unknown since 2026-09: the forge answers 502]",
    ),
    "never asked": (
        (known(State.UNKNOWN, as_of=None, trouble="offline"),),
        {},
        Action.KEEP,
        "ROCm/aiter#4494 is in an unknown state [never asked before: offline]",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_each_rule(name: str) -> None:
    every, rest, action, why = CASES[name]
    advice = ask(*every, **rest)
    assert (advice.action, advice.why) == (action, why)


def test_one_that_waits_holds_back_one_that_is_released() -> None:
    released = known(State.MERGED, False, ref=NEXT, first_release="0.28.0")
    assert ask(released).action is Action.BUMP
    assert ask(released, known(State.OPEN)).action is Action.KEEP


def test_one_in_the_image_and_one_in_a_release_is_a_bump() -> None:
    there = known(State.MERGED, True, "ancestry", landed_as=LANDED)
    released = known(State.MERGED, False, ref=NEXT, first_release="0.28.0")
    assert ask(there, released).action is Action.BUMP


def test_two_that_name_each_other_as_successors() -> None:
    one, other = known(State.MERGED, superseded_by=NEXT), known(State.MERGED, ref=NEXT, superseded_by=PR)
    assert "ROCm/aiter#4494" in ask(one, other).why


def test_a_patch_of_several_pull_requests_is_of_no_head() -> None:
    moved = known(State.OPEN, head=HEAD_NOW, ref=NEXT)
    assert ask(moved, taken=HEAD_THEN).action is Action.REFRESH
    both = ask(known(State.REVERTED, landed_as=HEAD_THEN), moved, taken=HEAD_THEN)
    assert "moved" not in both.why


states = st.sampled_from(list(State))
questions = st.builds(
    Question,
    known=st.lists(
        st.builds(
            known,
            states,
            st.sampled_from([None, True, False]),
            landed_as=st.sampled_from([None, LANDED]),
            first_release=st.sampled_from([None, "1.0"]),
            head=st.sampled_from([None, HEAD_NOW]),
            trouble=st.sampled_from([None, "offline"]),
        ),
        max_size=3,
    ).map(tuple),
    content=st.sampled_from([None, True, False]),
    taken=st.sampled_from([None, HEAD_THEN]),
    plan=st.sampled_from([None, Plan(when="manual"), Plan(when="contained", ref=PR), Plan(when="released", ref=NEXT)]),
)


@given(questions)
def test_laws(question: Question) -> None:
    advice = advise(question)
    assert advice.why
    assert "None" not in advice.why
    if not question.known:
        assert advice.action in (Action.LOCAL, Action.REVIEW)
        return
    assert advice.action is not Action.LOCAL
    if question.content is not None:
        assert advice.in_image is question.content, "content has the last word"
        assert (advice.action is Action.DROP) == question.content
    if advice.action is Action.DROP:
        assert advice.in_image
    if advice.action is Action.BUMP:
        assert "first in" in advice.why
