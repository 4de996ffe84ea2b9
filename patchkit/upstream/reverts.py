"""What became of a pull request: landed, taken back, landed again, superseded; with a clone or by the forge alone.

Reverts are found by the title first, then by trailers, then (with a full clone) by content: a commit whose change
is that of the landing, turned round. The state is that of the last turn on the base branch.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING

from patchkit.upstream.containment import first_release
from patchkit.upstream.facts import Evidence, Fate, Found, Gone, Landing, Pull, Ref, Rung, State
from patchkit.upstream.landing import find_landing, is_exhausted, is_strange, landed_by_content, seconds
from patchkit.upstream.messages import names_superseded_pulls, parse_title
from patchkit.upstream.turns import LANDED, PICKED, REVERTED, turns_from_mentions, turns_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from patchkit.upstream.facts import Mention
    from patchkit.upstream.history import History
    from patchkit.upstream.landing import PatchIds
    from patchkit.upstream.turns import Turn

#: How long after a landing any commit may be its revert by content; later, only those that call themselves reverts.
CONTENT_WINDOW = timedelta(days=60)
_MOST_BY_CONTENT = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Story:
    """A fate with what it rests on: the landing's ladder, and the turns by which containment is decided."""

    fate: Fate
    landing: Landing
    turns: tuple[Turn, ...]


def tell(
    ref: Ref,
    answer: Pull | Gone | None,
    history: History | None = None,
    *,
    patch_ids: PatchIds | None = None,
    content: bool | None = None,
) -> Story:
    """Return what became of `ref`.

    `answer` is the forge's (None: it was not asked, or did not answer), `history` the clone's; either may be
    missing. `content` is whether the image's own files hold the change.
    """
    if isinstance(answer, Pull):
        landing = find_landing(answer, history, patch_ids, content)
        pull = answer
        if history is not None and is_strange(pull, history):
            history = patch_ids = None  # the ladder says why; what follows is by the forge alone
    else:
        pull, landing = _without_forge(ref, answer, history, content)
        patch_ids = None
    turns = _turns(pull, landing, history, patch_ids)
    successor, why = _successor(pull)
    elsewhere = _other_branch(pull, history)
    there = [turn for turn in turns if _is_on_base(turn, history, elsewhere=elsewhere is not None)]
    state = _state(answer, landing, there, successor)
    landed, reverted = _last_landing(there), next((turn for turn in reversed(there) if not turn.present), None)
    fate = Fate(
        ref=ref,
        state=state,
        title=pull.title,
        head=pull.head or None,
        landed_as=landed.sha or None if landed else landing.commit,
        landed_at=landed.time or None if landed else landing.time,
        reverted_by=_by(ref, reverted),
        reverted_as=reverted.sha or None if reverted else None,
        superseded_by=successor or _relander(ref, landed),
        first_release=first_release(history, turns) if history else None,
        as_of=(answer.as_of if answer else history.as_of if history else None) or None,
        merged_elsewhere=None if any(turn.present for turn in there) else elsewhere,
        closed=state is State.UNKNOWN and isinstance(answer, Pull) and answer.state == "closed",
        evidence=(*landing.evidence, *_evidence(pull, there, history, patch_ids), *([why] if why else [])),
    )
    return Story(fate=fate, landing=landing, turns=turns)


def fate(
    ref: Ref,
    answer: Pull | Gone | None,
    history: History | None = None,
    *,
    patch_ids: PatchIds | None = None,
    content: bool | None = None,
) -> Fate:
    """Return the fate alone; see `tell`."""
    return tell(ref, answer, history, patch_ids=patch_ids, content=content).fate


def _without_forge(
    ref: Ref, answer: Gone | None, history: History | None, content: bool | None
) -> tuple[Pull, Landing]:
    """What the history alone tells of a pull request: the forge was not asked, or does not know it."""
    title = ""
    for place in (*history.landed(ref.number), *history.landed_by_trailer(ref.number)) if history else ():
        title = title or (history.title(place).text if history else "")
    as_of = answer.as_of if answer else history.as_of if history else ""
    pull = Pull(
        ref=ref,
        title=title,
        state="closed",
        draft=False,
        base="",
        head="",
        merge_commit=None,
        created_at="",
        updated_at="",
        closed_at=None,
        merged_at=None,
        as_of=as_of,
    )
    found = find_landing(pull, history, None, content)
    why = "the forge knows no such pull request" if answer else "the forge was not asked, or did not answer"
    first = Evidence(question=Rung.MERGE_COMMIT.value, found=Found.NO if answer else Found.NOT_TRIED, detail=why)
    return pull, replace(found, evidence=(first, *found.evidence[1:]))


def _turns(pull: Pull, landing: Landing, history: History | None, patch_ids: PatchIds | None) -> tuple[Turn, ...]:
    told = turns_from_mentions(pull, landing)
    if history is None:
        return told
    content: dict[str, bool] = {}
    for _ in range(_MOST_BY_CONTENT):
        turns = turns_of(
            history,
            pull.ref.number,
            landing.commit,
            head=pull.head or None,
            title=pull.title,
            since=pull.created_at,
            by_content=content,
        )
        found = _next_by_content(history, turns, landing, patch_ids)
        if found is None:
            break
        content[found[0]] = found[1]
    known = {turn.sha for turn in turns}
    more = [turn for turn in told if turn.sha not in known]
    placed = [
        (history.place(turn.sha), turn) for turn in (*turns, *(t for t in more if history.place(t.sha) is not None))
    ]
    placed.sort(key=lambda item: item[0] or 0)
    # what the clone is too old for comes last; what it should hold and does not went into another branch
    newer = [turn for turn in more if history.place(turn.sha) is None]
    return (*(turn for _, turn in placed), *newer)


def _next_by_content(
    history: History, turns: Sequence[Turn], landing: Landing, patch_ids: PatchIds | None
) -> tuple[str, bool] | None:
    """The next commit that, by its content, takes the change back or does it again, and whether it is there then."""
    last = next((turn for turn in reversed(turns) if history.on_base(turn.sha)), None)
    at = history.place(last.sha) if last else None
    if patch_ids is None or patch_ids.why_not or last is None or at is None or landing.commit is None:
        return None
    wanted = patch_ids.of([landing.commit], [], reverse=last.present).get(landing.commit, {})
    if not wanted:
        return None
    begun = seconds(last.time)
    near = history.between(begun, begun + int(CONTENT_WINDOW.total_seconds()))
    called = [history.commit(place).sha for place in history.unresolved_after(at)]
    later = [sha for sha in dict.fromkeys([*near, *called]) if history.on_base(sha) and (history.place(sha) or 0) > at]
    ids = patch_ids.of(later, sorted(wanted))
    same = [sha for sha in later if all(ids.get(sha, {}).get(path) == made for path, made in wanted.items())]
    return (same[0], not last.present) if same else None


def _other_branch(pull: Pull, history: History | None) -> str | None:
    """The branch that it was merged into, where that is another one than the default branch."""
    default = pull.default_branch or (history.branch if history is not None else "")
    return pull.base if pull.state == "merged" and default and pull.base not in ("", default) else None


def _is_on_base(turn: Turn, history: History | None, *, elsewhere: bool) -> bool:
    """Whether the base branch holds a turn; where the clone is too old to know, the forge's word counts.

    Of a landing `elsewhere` the forge says that it went into another branch.
    """
    if history is not None and history.place(turn.sha) is not None:
        return history.on_base(turn.sha)
    if elsewhere and turn.how == LANDED:
        return False
    return history is None or history.shallow or turn.time > history.as_of


def _state(answer: Pull | Gone | None, landing: Landing, there: Sequence[Turn], successor: Ref | None) -> State:
    if there:
        return State.MERGED if there[-1].present else State.REVERTED  # a successor is told beside it
    if isinstance(answer, Gone):
        return State.GONE
    if answer is None:
        return State.UNKNOWN
    if answer.state == "open":
        return State.DRAFT if answer.draft else State.OPEN
    if answer.state == "merged" or landed_by_content(landing):
        return State.MERGED
    if successor is not None:
        return State.SUPERSEDED
    return State.ABANDONED if is_exhausted(landing) else State.UNKNOWN


def _last_landing(there: Sequence[Turn]) -> Turn | None:
    """The turn at which the change last came onto the base."""
    found, present = None, False
    for turn in there:
        if turn.present and not present:
            found = turn
        present = turn.present
    return found


def _by(ref: Ref, turn: Turn | None) -> Ref | None:
    if turn is None or turn.number is None:
        return None
    return Ref(repo=ref.repo, number=turn.number, host=ref.host)


def _relander(ref: Ref, landed: Turn | None) -> Ref | None:
    """The pull request that landed the change again, where that was another one."""
    again = landed is not None and landed.number not in (None, ref.number)
    return _by(ref, landed) if again else None


def _place(ref: Ref) -> str:
    return f"{ref.host}/{ref.repo}".casefold()


def _lands_again(mention: Mention, pull: Pull) -> bool:
    """Whether the title is that of a re-land of this one: by its number, else by its whole title."""
    title = parse_title(mention.title)
    if title.negates is not False or title.about is None or _place(mention.ref) != _place(pull.ref):
        return False
    if title.about.own is not None:
        return title.about.own == pull.ref.number
    return title.about.text == parse_title(pull.title).text


def _successor(pull: Pull) -> tuple[Ref | None, Evidence | None]:
    """The newest pull request, merged ones first, that says that it supersedes this one or lands it again; or the
    one on whose landing this one was closed. One of another repository must name this one in full."""
    found: list[tuple[bool, int, Mention]] = []
    for mention in pull.mentions or ():
        if mention.state == "closed" or mention.ref == pull.ref:
            continue
        home = f"{mention.ref.host}/{mention.ref.repo}"
        named = names_superseded_pulls(mention.title, mention.body, home)
        if (_place(pull.ref), pull.ref.number) in named or _lands_again(mention, pull):
            found.append((mention.state == "merged", mention.ref.number, mention))
    if found:
        mention = max(found, key=lambda item: item[:2])[2]
        detail = f"{mention.ref} ({mention.state}) says so: {mention.title}"
        return mention.ref, Evidence(question="successor", found=Found.YES, detail=detail, commit=mention.merge_commit)
    for commit in pull.closed_by:
        own = parse_title(commit.subject).own
        if own is not None and own != pull.ref.number and pull.merge_commit is None:
            detail = f"it was closed by the landing of #{own}: {commit.subject}"
            evidence = Evidence(question="successor", found=Found.YES, detail=detail, commit=commit.sha)
            return Ref(repo=pull.ref.repo, number=own, host=pull.ref.host), evidence
    return None, None


def _evidence(pull: Pull, there: Sequence[Turn], history: History | None, patch_ids: PatchIds | None) -> list[Evidence]:
    """A sentence for each turn after the landing; where none took it back, how far that was looked for."""
    found = []
    for turn in there[1:]:
        by = f"#{turn.number}" if turn.number is not None else turn.sha[:12]
        detail = f"{by} of {turn.time or 'an unknown time'}, by its {turn.via}"
        question = "re-land" if turn.how == PICKED else turn.how
        found.append(Evidence(question=question, found=Found.YES, detail=detail, commit=turn.sha or None))
    if there and there[-1].present:
        found.append(_not_taken_back(pull, history, patch_ids))
    known = {turn.sha for turn in there}
    parts = history.takes_back_a_part_of(pull.ref.number) if history is not None else ()
    for commit in (history.commit(place) for place in parts) if history is not None else ():
        if commit.sha not in known and history is not None and history.on_base(commit.sha):
            detail = f"{commit.sha[:12]} says that it takes back a part: {commit.subject}"
            found.append(Evidence(question="partial revert", found=Found.YES, detail=detail, commit=commit.sha))
    return found


def _not_taken_back(pull: Pull, history: History | None, patch_ids: PatchIds | None) -> Evidence:
    content = "no clone" if patch_ids is None else patch_ids.why_not
    by_content = f"by content not tried: {content}" if content else "nor by content"
    if history is not None and not history.shallow:
        detail = f"nothing on the base branch as of {history.as_of} takes it back by title or trailer; {by_content}"
    elif pull.mentions is not None:
        detail = f"no merged pull request that mentions it takes it back; {by_content}"
    else:
        return Evidence(question=REVERTED, found=Found.NOT_TRIED, detail="no whole clone, and no list of mentions")
    return Evidence(question=REVERTED, found=Found.NO, detail=detail)
