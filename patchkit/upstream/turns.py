"""The turns that a change took: landed, taken back, landed again, picked to a release branch.

A turn says only whether the change is there after it. Whether a branch, tag or image has the change is then one
rule, `standing`: the last turn that it holds decides. So a tag that holds both the landing and its revert does not
have it, whatever was landed again later.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from patchkit.upstream.facts import State
from patchkit.upstream.messages import names_reverted_pulls, parse_title

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from patchkit.upstream.facts import Fate, Landing, Mention, Pull
    from patchkit.upstream.history import Claim, History

LANDED, REVERTED, RELANDED, PICKED = "landing", "revert", "re-land", "cherry-pick"


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """After commit `sha` the change is there (`present`), or it is not.

    `how` is one of `landing`, `revert`, `re-land`, `cherry-pick`; `via` says what tells so (`title`, `trailer`,
    `content`, `forge`, …); `number` is the pull request that landed this commit, where one did; `time` ISO 8601.
    """

    sha: str
    time: str
    present: bool
    how: str
    via: str
    number: int | None = None


def turns_of(
    history: History,
    number: int,
    landing: str | None,
    *,
    head: str | None = None,
    title: str = "",
    since: str = "",
    by_content: Mapping[str, bool] | None = None,
) -> tuple[Turn, ...]:
    """Return the turns of pull request `number`, oldest first, also those on release branches only.

    `landing` is the full SHA by which it is known to have landed; `head`, its own last commit, and `title` let
    picks be known; a commit that is older than `since` (ISO 8601) speaks of another repository's number; `by_content` holds commits of which the content says that the change is there after them, or not.
    """
    return _Chain(history, number, since).run(landing, head, parse_title(title).text, by_content or {})


class _Chain:
    """What hangs on one landing: everything that speaks of it, and of what speaks of it."""

    def __init__(self, history: History, number: int, since: str) -> None:
        self._history = history
        self._since = since
        self._number = number
        self._turns: dict[int, Turn] = {}
        self._left: list[int] = []

    def run(self, landing: str | None, head: str | None, text: str, content: Mapping[str, bool]) -> tuple[Turn, ...]:
        history = self._history
        seeds = [(place, "subject") for place in history.landed(self._number)]
        seeds += [(place, "trailer") for place in history.landed_by_trailer(self._number)]
        seeds += [(place, "trailer") for place in (history.picks_of(head) if head else ())]
        at = history.place(landing) if landing else None
        for place, via in [*([(at, "landing")] if at is not None else []), *seeds]:
            self._add(place, present=True, how=LANDED, via=via)
        texts = {text, *(history.title(place).text for place in self._turns)} - {""}
        on_base = any(history.on_base(turn.sha) for turn in self._turns.values())
        for place in history.carrying(self._number):
            named = history.title(place)
            same = named.negates is None and any(named.text.endswith(text) for text in texts)
            if same and (on_base or not history.on_base(history.commit(place).sha)):
                self._add(place, present=True, how=PICKED, via="subject")
        for sha, present in content.items():
            at = history.place(sha)
            if at is not None:
                self._add(at, present=present, how=RELANDED if present else REVERTED, via="content")
        self._follow(history.claims_on_number(self._number), present=True)
        while self._left:
            place = self._left.pop()
            turn = self._turns[place]
            self._follow(history.claims_on(place), turn.present)
            if turn.number not in (None, self._number):
                self._follow(history.claims_on_number(turn.number or 0), turn.present)
        return tuple(self._turns[place] for place in sorted(self._turns))

    def _follow(self, claims: Iterable[Claim], present: bool) -> None:
        """What speaks of something after which the change is there, or not."""
        for claim in claims:
            after = present != claim.negates
            picked = claim.via == "cherry-pick"
            self._add(claim.at, present=after, how=PICKED if picked else RELANDED if after else REVERTED, via=claim.via)

    def _add(self, place: int, *, present: bool, how: str, via: str) -> None:
        if place in self._turns:
            return
        commit = self._history.commit(place)
        if commit.time < self._since and via != "landing":
            return
        if how == LANDED and via != "landing" and not self._history.on_base(commit.sha):
            how = PICKED
        number = self._history.number(place)
        self._turns[place] = Turn(sha=commit.sha, time=commit.time, present=present, how=how, via=via, number=number)
        self._left.append(place)


def turns_from_mentions(pull: Pull, landing: Landing) -> tuple[Turn, ...]:
    """Return the turns that the forge alone tells of: the landing, and merged pull requests that revert it or do it
    again. `sha` is empty where the forge does not name the merge's commit."""
    own = pull.ref.number
    present: dict[int, bool] = {own: True}
    texts: dict[str, bool] = {parse_title(pull.title).text: True}
    turns = []
    if landing.commit is not None:
        time = landing.time or pull.merged_at or pull.closed_at or ""
        turns.append(Turn(sha=landing.commit, time=time, present=True, how=LANDED, via="forge", number=own))
    for mention in merged(pull):
        after = _after(mention, present, texts)
        if after is not None:
            present[mention.ref.number] = texts[parse_title(mention.title).text] = after
            turns.append(
                Turn(
                    sha=mention.merge_commit or "",
                    time=mention.merged_at or "",
                    present=after,
                    how=RELANDED if after else REVERTED,
                    via="forge",
                    number=mention.ref.number,
                )
            )
    return tuple(turns)


def merged(pull: Pull) -> list[Mention]:
    """The merged pull requests of the same repository that mention this one, in the order of their merges."""
    same = [m for m in pull.mentions or () if m.state == "merged" and _is_same_repository(m, pull)]
    return sorted(same, key=lambda mention: (mention.merged_at or "", mention.ref.number))


def _is_same_repository(mention: Mention, pull: Pull) -> bool:
    return (mention.ref.host, mention.ref.repo.casefold()) == (pull.ref.host, pull.ref.repo.casefold())


def _after(mention: Mention, present: dict[int, bool], texts: dict[str, bool]) -> bool | None:
    """Whether the change is there after that merge; None where the mention is neither revert nor re-land of it."""
    title = parse_title(mention.title)
    about, flips = None if title.partial else title.about, bool(title.negates)
    while about is not None:
        if about.own in present:
            return present[about.own or 0] != flips
        if about.text in texts and about.own is None:
            return texts[about.text] != flips
        if about.negates is None or about.partial:
            break
        flips, about = flips != about.negates, about.about
    if title.negates:
        for number in names_reverted_pulls(mention.body, mention.ref.repo):
            if number in present:
                return not present[number]
    return None


def standing(turns: Sequence[Turn], holds: Callable[[str], bool | None]) -> tuple[bool | None, Turn | None]:
    """Return whether something that holds the commits `holds` says has the change, and the turn that decides.

    False without a turn where it holds none of them; None where what `holds` does not know could decide.
    """
    doubtful: list[Turn] = []
    for turn in reversed(turns):
        held = holds(turn.sha)
        if held:
            same = all(other.present == turn.present for other in doubtful)
            return (turn.present if same else None), (turn if same else doubtful[0])
        if held is None:
            doubtful.append(turn)
    if any(turn.present for turn in doubtful):
        return None, doubtful[0]
    return False, None


def turns_from_fate(fate: Fate) -> tuple[Turn, ...]:
    """Return the turns that a recorded fate still tells of: its landing and its revert, in the order of its state."""
    landed = reverted = None
    if fate.landed_as is not None:
        landed = Turn(
            sha=fate.landed_as,
            time=fate.landed_at or "",
            present=True,
            how=LANDED,
            via="record",
            number=fate.ref.number,
        )
    if fate.reverted_as is not None:
        number = fate.reverted_by.number if fate.reverted_by else None
        reverted = Turn(sha=fate.reverted_as, time="", present=False, how=REVERTED, via="record", number=number)
    in_order = (reverted, landed) if fate.state is State.MERGED else (landed, reverted)
    return tuple(turn for turn in in_order if turn is not None)
