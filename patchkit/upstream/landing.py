"""Whether and by which commit a pull request landed: a ladder of five rungs.

The merge commit that the forge names; `(#N)` at the end of a subject; trailers of landing bots; patch-ids; the
content of the image's own files. Each rung leaves its evidence, also a "no" and a "not tried". A pull request that
was "closed" may have been landed by a bot, by a commit that does not name it: it is abandoned only when the rungs that
read the history say no, the patch-ids among them.
"""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Protocol

from patchkit.core.errors import UnreachableError
from patchkit.upstream.facts import Evidence, Found, Landing, Rung
from patchkit.upstream.messages import parse_body, parse_title

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from patchkit.sources.clone import Clone
    from patchkit.upstream.facts import Commit, Pull
    from patchkit.upstream.history import History

#: How long before and after its closing a pull request's change may have landed by a commit that does not name it.
WINDOW = timedelta(days=30)


#: How to have the last rung tried.
_CURE = "a full one does: --clone OWNER/REPO=DIR"
#: The rungs that read the history, without which a "closed" says nothing of a landing.
_READING = (Rung.SUBJECT, Rung.TRAILER, Rung.PATCH_ID)


class PatchIds(Protocol):
    """Where patch-ids come from; `why_not` is empty where they can be made, else the reason, as a clause.

    Nothing raises for a clone that turns out to be damaged: the answer is empty, and `why_not` says so from then on.
    """

    @property
    def why_not(self) -> str:
        """Why no patch-ids can be made here, or an empty string."""
        ...

    def own(self, pull: Pull) -> Mapping[str, str]:
        """Return path to patch-id of the pull request's change; empty where that is not known."""
        ...

    def of(
        self, commits: Sequence[str], paths: Sequence[str], *, reverse: bool = False
    ) -> Mapping[str, Mapping[str, str]]:
        """Return commit to path to patch-id, of those of `commits` that change one of `paths`."""
        ...


class ClonePatchIds:
    """Patch-ids from a full clone; `carried` is the diff that we carry (names as upstream has them), which speaks
    for the pull request where the clone does not hold its head."""

    def __init__(self, clone: Clone, base: str, carried: bytes | None = None) -> None:
        self._clone, self._base, self._carried = clone, base, carried
        self._broken = ""

    @property
    def why_not(self) -> str:
        """Why none can be made: the clone lacks files, or is damaged."""
        return self._broken or ("" if self._clone.full else f"{self._clone.kind} does not hold the files; {_CURE}")

    def own(self, pull: Pull) -> Mapping[str, str]:
        """The head against where it left the base, else the carried diff."""
        head = self._clone.resolve(pull.head) if pull.head else None
        fork = self._clone.merge_base(self._base, head) if head else None
        try:
            if head and fork and fork != head:  # a head that the base holds has nothing of its own left
                return self._clone.patch_ids_between(fork, head)
            return self._clone.patch_ids_of(self._carried) if self._carried else {}
        except UnreachableError as error:
            self._broken = str(error)
            return {}

    def of(
        self, commits: Sequence[str], paths: Sequence[str], *, reverse: bool = False
    ) -> Mapping[str, Mapping[str, str]]:
        """See `Clone.patch_ids`."""
        try:
            return self._clone.patch_ids(commits, paths, reverse=reverse)
        except UnreachableError as error:
            self._broken = str(error)
            return {}


def find_landing(
    pull: Pull, history: History | None, patch_ids: PatchIds | None = None, content: bool | None = None
) -> Landing:
    """Return where `pull` landed, with every rung's evidence.

    `history` is None where there is no clone; `content` is whether the image's own files hold the change, None
    where nobody could tell. Content alone gives no commit: `landed_by_content` tells of that.
    """
    merge = _merge_commit(pull, history)
    subject = _subject(pull, history)
    trailer = _trailer(pull, history)
    found = [rung for rung in (merge, subject, trailer) if rung.found is Found.YES]
    # a merge into another branch than the base is worth less than a commit that the base holds
    found.sort(key=lambda rung: 0 if history is None or (rung.commit and history.on_base(rung.commit)) else 1)
    same = _patch_id(pull, history, patch_ids, already=bool(found))
    best = next(iter([*found, *([same] if same.found is Found.YES else [])]), None)
    evidence = (merge, subject, trailer, same, _content(content))
    if best is None or best.commit is None:
        return Landing(commit=None, time=None, evidence=evidence)
    at = history.place(best.commit) if history is not None else None
    time = history.commit(at).time if history is not None and at is not None else pull.merged_at or pull.closed_at
    return Landing(commit=best.commit, time=time, evidence=evidence)


def landed_by_content(landing: Landing) -> bool:
    """Tell whether only the image's files say that it landed."""
    return landing.commit is None and _answer(landing, Rung.CONTENT) is Found.YES


def is_exhausted(landing: Landing) -> bool:
    """Tell whether a closed pull request may be called abandoned: the history was read and compared, and no rung
    said yes."""
    read = all(_answer(landing, rung) is Found.NO for rung in _READING)
    return landing.commit is None and read and not landed_by_content(landing)


def untried(evidence: Sequence[Evidence]) -> str:
    """Return, as a clause, which of the rungs that read the history was not tried and why; empty where all were."""
    names = {rung.value for rung in _READING}
    left = [item for item in evidence if item.question in names and item.found is Found.NOT_TRIED]
    return f"{left[0].question} not tried: {left[0].detail}" if left else ""


def _answer(landing: Landing, rung: Rung) -> Found:
    return next((item.found for item in landing.evidence if item.question == rung.value), Found.NOT_TRIED)


def _rung(rung: Rung, found: Found, detail: str, commit: str | None = None) -> Evidence:
    return Evidence(question=rung.value, found=found, detail=detail, commit=commit)


def _merge_commit(pull: Pull, history: History | None) -> Evidence:
    """The forge's word: the merge commit, or the commit on which it closed the pull request."""
    if pull.merge_commit is not None:
        detail = f"the forge names the merge commit {pull.merge_commit[:12]}"
        if history is not None and history.place(pull.merge_commit) is None:
            newer = (pull.merged_at or "") > history.as_of
            detail += (
                f", merged after the clone of {history.as_of[:10]}" if newer else ", which the clone does not hold"
            )
        elif history is not None and not history.on_base(pull.merge_commit):
            detail += ", which the base branch does not hold"
        return _rung(Rung.MERGE_COMMIT, Found.YES, detail, pull.merge_commit)
    for commit in pull.closed_by:
        if not _lands_another(commit, pull) and (
            history is None or history.place(commit.sha) is None or history.on_base(commit.sha)
        ):
            detail = f"the forge closed it on commit {commit.sha[:12]}"
            return _rung(Rung.MERGE_COMMIT, Found.YES, detail, commit.sha)
    return _rung(Rung.MERGE_COMMIT, Found.NO, f"the forge says {pull.state}, and names no merge commit")


def _lands_another(commit: Commit, pull: Pull) -> bool:
    """A commit that lands another pull request and closes this one beside it: no landing of this one."""
    own = parse_title(commit.subject).own
    lands = parse_body(commit.body).lands
    here = (f"{pull.ref.host}/{pull.ref.repo}".casefold(), pull.ref.number)
    return (own is not None and own != pull.ref.number and here not in lands) or bool(lands and here not in lands)


def is_strange(pull: Pull, history: History) -> bool:
    """Tell whether the history says nothing of the pull request, whatever numbers it holds: the forge names a merge
    into the base branch, and the clone holds neither that commit nor one with the title and number. It is too old,
    or of another repository."""
    into_base = pull.base in ("", pull.default_branch or history.branch)
    known = pull.merge_commit is None or history.place(pull.merge_commit) is not None
    if known or history.shallow or not into_base:
        return False
    title = parse_title(pull.title).text.casefold()  # a branch that was written anew still has its titles
    return not any(history.title(place).text.casefold() == title for place in history.landed(pull.ref.number))


def _unread(pull: Pull, history: History | None) -> str:
    """Why a "no" of the history would be none; an empty string where it is one."""
    if history is None:
        return "no clone: patchkit status --fetch"
    if history.shallow:
        return "a shallow clone shows only the last commits"
    if pull.state != "open" and (pull.closed_at or "") > history.as_of:
        return f"the clone is of {history.as_of}, older than the closing at {pull.closed_at}"
    if is_strange(pull, history):
        return "the clone does not hold the merge commit: perhaps it is of another repository"
    return ""


def _dated(history: History | None) -> str:
    return f" as of {history.as_of}" if history is not None else ""


def _subject(pull: Pull, history: History | None) -> Evidence:
    number = pull.ref.number
    known = history if history is not None and not is_strange(pull, history) else None
    places = [p for p in known.landed(number) if known.on_base(known.commit(p).sha)] if known else []
    # a fork's history may carry the numbers of another repository: those commits are older than the pull request
    named = [commit for p in places if history and (commit := history.commit(p)).time >= pull.created_at]
    if named:
        detail = f"{named[0].sha[:12]} on the base branch: {named[0].subject}"
        return _rung(Rung.SUBJECT, Found.YES, detail, named[0].sha)
    if why := _unread(pull, history):
        return _rung(Rung.SUBJECT, Found.NOT_TRIED, why)
    older = f"; (#{number}) in older commits is another repository's number" if places else ""
    detail = f"no subject on the base branch{_dated(history)} ends in (#{number}){older}"
    return _rung(Rung.SUBJECT, Found.NO, detail)


def _trailer(pull: Pull, history: History | None) -> Evidence:
    if history is not None and not is_strange(pull, history):
        places = [*history.landed_by_trailer(pull.ref.number)]
        for sha in (pull.head, *(commit.sha for commit in pull.closed_by)):
            places.extend(history.picks_of(sha))
        for commit in (history.commit(place) for place in sorted(set(places))):
            if history.on_base(commit.sha):
                return _rung(Rung.TRAILER, Found.YES, f"a trailer of {commit.sha[:12]} names it", commit.sha)
    if why := _unread(pull, history):
        return _rung(Rung.TRAILER, Found.NOT_TRIED, why)
    return _rung(Rung.TRAILER, Found.NO, f"no trailer on the base branch{_dated(history)} names it")


def _patch_id(pull: Pull, history: History | None, patch_ids: PatchIds | None, *, already: bool) -> Evidence:
    if already:
        return _rung(Rung.PATCH_ID, Found.NOT_TRIED, "its commit is known already")
    if pull.state == "open":
        return _rung(Rung.PATCH_ID, Found.NOT_TRIED, "it is open")
    why = _unread(pull, history) or ("no clone" if patch_ids is None else patch_ids.why_not)
    if why or history is None or patch_ids is None:
        return _rung(Rung.PATCH_ID, Found.NOT_TRIED, why)
    closed = pull.closed_at or pull.updated_at
    own = patch_ids.own(pull)
    window = history.between(seconds(closed, -WINDOW), seconds(closed, WINDOW))
    ids = patch_ids.of(window, sorted(own)) if own else {}
    if patch_ids.why_not:  # it turned out only now
        return _rung(Rung.PATCH_ID, Found.NOT_TRIED, patch_ids.why_not)
    if not own:
        get = f"git fetch origin pull/{pull.ref.number}/head in the clone"
        return _rung(Rung.PATCH_ID, Found.NOT_TRIED, f"no clone holds its head, and its own diff is not carried; {get}")
    whole = [sha for sha in window if all(ids.get(sha, {}).get(path) == made for path, made in own.items())]
    if whole:
        return _rung(Rung.PATCH_ID, Found.YES, f"{whole[0][:12]} makes the same change to each of its files", whole[0])
    by_file = {path: [s for s in window if ids.get(s, {}).get(path) == made] for path, made in own.items()}
    if all(by_file.values()):
        last = max((shas[-1] for shas in by_file.values()), key=window.index)
        return _rung(
            Rung.PATCH_ID, Found.YES, f"several commits, the last {last[:12]}, make its changes file by file", last
        )
    some = sum(bool(shas) for shas in by_file.values())
    detail = f"of its {len(own)} files {some} were changed so in the {len(window)} commits around {closed[:10]}"
    return _rung(Rung.PATCH_ID, Found.NO, detail)


def _content(content: bool | None) -> Evidence:
    if content is None:
        return _rung(Rung.CONTENT, Found.NOT_TRIED, "the image's own files could not be judged")
    if content:
        return _rung(Rung.CONTENT, Found.YES, "the image's own files hold the change")
    return _rung(Rung.CONTENT, Found.NO, "the image's own files are as they were before the change")


def seconds(time: str, shift: timedelta = timedelta(0)) -> int:
    """Return an ISO 8601 time, which may end in `Z`, moved by `shift`, in seconds."""
    parsed = datetime.fromisoformat(time.replace("Z", "+00:00"))
    aware = parsed if parsed.tzinfo is not None else parsed.replace(tzinfo=timezone.utc)
    return int((aware + shift).timestamp())
