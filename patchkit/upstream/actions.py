"""What to do about a step, from what is known of its pull requests: one word and a reason. Pure.

One rule reads one pull request; the step gets the gravest of its answers. An image that has the change by content
needs no step for it, whatever became of the pull request: content has the last word.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from patchkit.upstream.facts import State
from patchkit.upstream.landing import untried

if TYPE_CHECKING:
    from patchkit.upstream.facts import Containment, Fate, Ref

_SHORT = 10
#: States that a pull request never leaves by landing as it is: to wait for it is to wait for ever.
_NEVER = (State.ABANDONED, State.GONE, State.REVERTED, State.SUPERSEDED)


class Action(str, Enum):
    """What to do about a step (design.md, Words)."""

    KEEP = "keep"
    DROP = "drop"
    BUMP = "bump"
    REFRESH = "refresh"
    REVIEW = "review"
    LOCAL = "local"


#: The gravest first: what a person must look at goes before what can be done, that before what can wait.
_GRAVITY = (Action.REVIEW, Action.REFRESH, Action.KEEP, Action.BUMP, Action.DROP)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The stack's own plan to retire a step: `when` is contained, released or manual."""

    when: str
    ref: Ref | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """What is known of one pull request for one image.

    `first_image` is the first image of the project that has the change; `near` the release that the image is
    nearest to, where that is no older than the first release with the change; `trouble` says why the forge's
    word is not newer than `fate.as_of` (None where it is).
    """

    fate: Fate
    containment: Containment
    first_image: str | None = None
    near: str | None = None
    trouble: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """One step, as far as its advice depends on it.

    `content`: whether the image's own files have the step's change (None where they were not read).
    `taken` is the pull request's head from which the patch was taken, `plan` how the step is to be retired,
    `awaited` what is known of the plan's pull request where it is none of `known`.
    """

    known: tuple[Known, ...]
    content: bool | None = None
    taken: str | None = None
    plan: Plan | None = None
    awaited: Known | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """One word and its reason; `in_image` as the table shows it; `impossible` says why the step's removal
    plan can no longer come true (None where it can)."""

    action: Action
    why: str
    in_image: bool | None
    impossible: str | None = None


def advise(question: Question) -> Advice:
    """What to do about one step. Pure; never fails: what is not known is said in the reason."""
    impossible = _impossible(question)
    if not question.known:
        action = Action.REVIEW if impossible else Action.LOCAL
        return Advice(
            action=action, why=_joined("no pull request upstream: ours alone", impossible), in_image=question.content,
            impossible=impossible,
        )  # fmt: skip
    in_image = _in_image(question)
    answers = [_about(known, question, in_image) for known in _standing(question.known)]
    action, _ = min(answers, key=lambda answer: _GRAVITY.index(answer[0]))
    if impossible and action is not Action.DROP:
        action = Action.REVIEW
    why = "; ".join(reason for _, reason in answers)
    return Advice(action=action, why=_joined(why, impossible), in_image=in_image, impossible=impossible)


def _standing(every: tuple[Known, ...]) -> tuple[Known, ...]:
    """Without those whose successor is here too, and landed: what became of them has no say any more."""
    landed = {known.fate.ref for known in every if known.fate.state is State.MERGED}
    left = tuple(known for known in every if known.fate.superseded_by not in landed)
    return left or every  # two that name each other as successors


def _joined(*reasons: str | None) -> str:
    return "; ".join(reason for reason in reasons if reason)


def _in_image(question: Question) -> bool | None:
    """Content decides; else all of the step's pull requests must be there, and one that is not is enough to say no."""
    if question.content is not None:
        return question.content
    there = [known.containment.in_image for known in _standing(question.known)]
    if False in there:
        return False
    return None if None in there else True


def _about(known: Known, question: Question, in_image: bool | None) -> tuple[Action, str]:
    """The rule for one pull request."""
    fate = known.fate
    action, reason = _by_state(known, question, in_image)
    if known.trouble is not None:
        since = f"unknown since {fate.as_of}" if fate.as_of else "never asked before"
        reason = f"{reason} [{since}: {known.trouble}]"
    return action, f"{fate.ref} {reason}"


def _by_state(known: Known, question: Question, in_image: bool | None) -> tuple[Action, str]:
    fate = known.fate
    if question.content:
        return Action.DROP, f"is in this image's own files{_but_upstream(fate)}"
    match fate.state:
        case State.MERGED:
            return _merged(known, question, in_image)
        case State.REVERTED | State.SUPERSEDED | State.ABANDONED | State.GONE:
            return Action.REVIEW, _lost(fate)
        case State.OPEN | State.DRAFT:
            word = "is open" if fate.state is State.OPEN else "is a draft"
            if question.taken and fate.head and not fate.head.startswith(question.taken) and len(question.known) == 1:
                moved = f"the patch was taken at {question.taken}, its head is {fate.head} now"
                return Action.REFRESH, f"{word} and has moved: {moved}"
            return Action.KEEP, f"{word}, not landed"
        case State.UNKNOWN:
            if fate.closed:
                why = untried(fate.evidence)
                return Action.KEEP, f"is closed; whether it landed is not known{f' ({why})' if why else ''}"
            return Action.KEEP, "is in an unknown state"


def _but_upstream(fate: Fate) -> str:
    """What a person must know who drops a step that only this image makes superfluous."""
    if fate.state in (State.REVERTED, State.ABANDONED, State.SUPERSEDED):
        return f", but {_lost(fate)}: a later image may be without it"
    return "" if fate.landed_as is None else f" (landed as {fate.landed_as[:_SHORT]})"


def _lost(fate: Fate) -> str:
    when = f" on {fate.landed_at[:10]}" if fate.landed_at else ""
    after = f", superseded by {fate.superseded_by}" if fate.superseded_by else ""
    match fate.state:
        case State.REVERTED:
            landed = f"landed{when} as {fate.landed_as[:_SHORT]} and " if fate.landed_as else ""
            by = f" by {fate.reverted_by}" if fate.reverted_by else ""
            commit = f" ({fate.reverted_as[:_SHORT]})" if fate.reverted_as else ""
            return f"{landed}was reverted{by}{commit}{after}"
        case State.SUPERSEDED:
            reverted = f"was reverted by {fate.reverted_by} and " if fate.reverted_by else ""
            return f"{reverted}was superseded by {fate.superseded_by}" if fate.superseded_by else "was superseded"
        case State.ABANDONED:
            return f"was closed without landing{after}"
        case _:
            return "is gone: the forge knows no such pull request"


def _merged(known: Known, question: Question, in_image: bool | None) -> tuple[Action, str]:
    fate, containment = known.fate, known.containment
    landed = f"landed as {fate.landed_as[:_SHORT]}" if fate.landed_as else "landed"
    if fate.merged_elsewhere is not None:
        return Action.REVIEW, f"was merged into {fate.merged_elsewhere}, and is not found on the default branch"
    if containment.in_image:
        how = "contained by cherry-pick" if containment.how == "cherry-pick" else f"contained by {containment.how}"
        return (Action.DROP if question.content is not False else Action.KEEP), f"{landed}; {how}"
    if in_image is False or containment.in_image is False:
        place = "is not in this image"
    else:
        place = "whether this image has it is not known"
    where = [f"image {known.first_image}"] if known.first_image else []
    if known.near is not None and containment.in_image is None and in_image is None:
        return Action.KEEP, f"{landed}, first in release {fate.first_release}; {place}, it is nearest to {known.near}"
    where += [f"release {fate.first_release}"] if fate.first_release else []
    if where:
        return Action.BUMP, f"{landed}; {place}; first in {' and '.join(where)}"
    return Action.KEEP, f"{landed}; {place}; no image or release is known to have it"


def _impossible(question: Question) -> str | None:
    """Why the removal plan can no longer come true."""
    plan = question.plan
    if plan is None:
        return None
    every = [*question.known, *([question.awaited] if question.awaited else [])]
    if plan.when == "manual":
        lost = [known.fate for known in every if known.fate.state in (State.ABANDONED, State.GONE)]
        if lost and len(lost) == len(question.known):
            names = ", ".join(str(fate.ref) for fate in lost)
            return f"a removal plan that waits for {names} is impossible: this step's is manual"
        return None
    for known in every:
        if (plan.ref is None or known.fate.ref == plan.ref) and known.fate.state in _NEVER:
            verb = "be contained" if plan.when == "contained" else "be released"
            return f"the removal plan is impossible: it waits for {known.fate.ref} to {verb}"
    return None
