"""Whether one revision of a component has a change.

The revision (an image's commit, a tag, the tip of a branch) has it when the last of the change's turns that it
holds says so: a tag that holds a landing and its revert does not. Release branches cherry-pick; their own commits
are turns, too. What the image's files themselves say has the last word.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from patchkit.upstream.facts import Containment, Evidence, Found
from patchkit.upstream.turns import PICKED, standing

if TYPE_CHECKING:
    from collections.abc import Sequence

    from patchkit.sources.clone import Clone
    from patchkit.upstream.history import History
    from patchkit.upstream.turns import Turn

#: How commit `b` stands to commit `a` (full SHAs), in the words of GitHub's compare `a...b`: `identical`, `ahead` (b
#: holds a), `behind` (a holds b), `diverged`; None where that cannot be told.
Ancestry = Callable[[str, str], "str | None"]
_HOLDS = ("identical", "ahead")


def history_ancestry(history: History) -> Ancestry:
    """Return how two commits of the history stand to each other."""
    return lambda a, b: _relation(history.is_ancestor, a, b)


def clone_ancestry(clone: Clone) -> Ancestry:
    """Return how two commits of the clone stand to each other; a git process or two a question."""
    return lambda a, b: _relation(clone.is_ancestor, a, b)


def _relation(is_ancestor: Callable[[str, str], bool | None], a: str, b: str) -> str | None:
    if a == b:
        return "identical"
    forth = is_ancestor(a, b)
    if forth is not False:
        return "ahead" if forth else None
    back = is_ancestor(b, a)
    return "behind" if back else "diverged"


def contains(
    turns: Sequence[Turn],
    revision: str | None,
    *,
    history: History | None = None,
    ancestry: Ancestry | None = None,
    content: bool | None = None,
) -> Containment:
    """Return whether `revision` (a full SHA; None: not known) has the change with these `turns`.

    The history answers where it holds the revision, else `ancestry` (the forge's compare). `content` is what the
    image's own files say: True where they hold the change, False where they are as before it, None where that
    cannot be told.
    """
    known, how, evidence = _by_commits(turns, revision, history, ancestry)
    if content is None:
        said = Evidence(question="content", found=Found.NOT_TRIED, detail="the image's own files could not be judged")
        return Containment(in_image=known, how=how, evidence=(*evidence, said))
    if content:
        detail = "the image's own files hold the change"
        how = how if known else "cherry-pick" if turns and how != "reverted" else "content"
    else:
        detail = "the image's own files are as they were before the change"
        how = "content" if known is not False else how
    said = Evidence(question="content", found=Found.YES if content else Found.NO, detail=detail)
    return Containment(in_image=content, how=how, evidence=(*evidence, said))


def _by_commits(
    turns: Sequence[Turn], revision: str | None, history: History | None, ancestry: Ancestry | None
) -> tuple[bool | None, str, tuple[Evidence, ...]]:
    """What the commits say: whether it is there, how, and on which evidence."""
    if not turns:
        none = Evidence(question="ancestry", found=Found.NO, detail="no commit is known by which it landed")
        return False, "not landed", (none,)
    if revision is None:
        return None, "unknown", (_not_tried("which revision the image holds is not known"),)
    read = history is not None and history.place(revision) is not None
    asked = history_ancestry(history) if history is not None and read else ancestry
    if asked is None:
        return None, "unknown", (_not_tried(f"no clone holds {revision[:12]}, and the forge was not asked"),)
    relations = {turn.sha: asked(turn.sha, revision) if turn.sha else None for turn in turns}

    def holds(sha: str) -> bool | None:
        said = relations[sha]
        return None if said is None else said in _HOLDS

    evidence = tuple(_evidence(turn, revision, relations[turn.sha]) for turn in turns)
    present, turn = standing(turns, holds)
    if present is None:
        return None, "unknown", evidence
    if turn is None:
        # a release branch has commits of its own, of which a compare does not tell
        picked = not read and "diverged" in relations.values()
        return (None, "unknown", evidence) if picked else (False, "ancestry", evidence)
    if not present:
        return False, "reverted", evidence
    away = turn.how == PICKED and (history is None or not history.on_base(turn.sha))
    return True, "cherry-pick" if away else "ancestry", evidence


def _evidence(turn: Turn, revision: str, relation: str | None) -> Evidence:
    if relation is None:
        return _not_tried(f"whether {revision[:12]} holds the {turn.how} {turn.sha[:12]} could not be told")
    held = relation in _HOLDS
    return Evidence(
        question="ancestry",
        found=Found.YES if held else Found.NO,
        detail=f"{revision[:12]} {'holds' if held else 'does not hold'} the {turn.how} {turn.sha[:12]} ({relation})",
        commit=turn.sha,
    )


def _not_tried(detail: str) -> Evidence:
    return Evidence(question="ancestry", found=Found.NOT_TRIED, detail=detail)


def first_release(history: History, turns: Sequence[Turn]) -> str | None:
    """Return the name of the first tag, in the order of versions, that has the change: the first final release,
    else the first pre-release, else None. A release that also holds the revert has it not."""
    if not any(turn.present for turn in turns):
        return None
    ordered = sorted(enumerate(history.releases), key=lambda item: item[1].version.is_prerelease)
    for number, release in ordered:

        def holds(sha: str, number: int = number) -> bool:
            return history.in_release(number, sha)

        if standing(turns, holds)[0]:
            return release.name
    return None
