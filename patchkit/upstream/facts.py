"""What is known of a pull request, and on which evidence: the types that this package's parts pass to each other.

    forge (github, store)  ->  Pull or Gone         what the forge says, and when it said it
    clone (sources.clone)  ->  Commit               what the base branch's history says
    landing, reverts       ->  Fate                 whether it landed, was taken back, landed again
    containment            ->  Containment          whether one image has it
    actions                ->  Advice               one word and a reason

Times are ISO 8601 in UTC, `2026-08-12T09:44:00Z`; `as_of` may be less exact (`2026-09`), where no more is known.
Every conclusion carries its evidence; "not tried" is evidence too.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum

DEFAULT_HOST = "github.com"
_REF = re.compile(
    r"(?:(?P<host>[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)+(?::[0-9]+)?)/)?(?P<repo>[^/#\s]+/[^/#\s]+)#(?P<number>[1-9][0-9]*)"
)


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Ref:
    """A pull request: `owner/repo#N`, on another forge `host/owner/repo#N`. str() gives that back."""

    repo: str
    number: int
    host: str = DEFAULT_HOST

    @classmethod
    def parse(cls, text: str) -> Ref:
        """Return the ref that `text` writes; raise ValueError for anything else."""
        match = _REF.fullmatch(text)
        if match is None:
            raise ValueError(f"expected owner/repo#N, found {text!r}")
        return cls(repo=match["repo"], number=int(match["number"]), host=match["host"] or DEFAULT_HOST)

    def __str__(self) -> str:
        return f"{'' if self.host == DEFAULT_HOST else f'{self.host}/'}{self.repo}#{self.number}"


class State(str, Enum):
    """The upstream state of one pull request (design.md, Words)."""

    OPEN = "open"
    DRAFT = "draft"
    MERGED = "merged"
    REVERTED = "reverted"
    SUPERSEDED = "superseded"
    ABANDONED = "abandoned"
    GONE = "gone"
    UNKNOWN = "unknown"


class Rung(str, Enum):
    """One rung of the ladder by which a landing is found, in the order in which they are tried."""

    MERGE_COMMIT = "merge commit"
    SUBJECT = "subject"
    TRAILER = "trailer"
    PATCH_ID = "patch-id"
    CONTENT = "content"


class Found(str, Enum):
    """What a rung, or another question, answered."""

    YES = "yes"
    NO = "no"
    NOT_TRIED = "not tried"


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """What one question answered: `detail` is one sentence, `commit` the full SHA it rests on."""

    question: str  # a Rung's value, or `revert`, `re-land`, `ancestry`, `tag`, …
    found: Found
    detail: str
    commit: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """One commit of a base branch; `time` is the committer's. `trailers` are read from `body` when asked for."""

    sha: str
    time: str
    subject: str
    body: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mention:
    """A pull request that refers to another one, as the forge's timeline tells it."""

    ref: Ref
    title: str
    state: str  # open | closed | merged
    body: str = ""
    merge_commit: str | None = None
    merged_at: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Pull:
    """A pull request as the forge tells it.

    `merge_commit` is set only with `merged_at`: REST's `merge_commit_sha` of an unmerged one is a test merge.
    `closed_by` are commits on which the forge says that it was closed: the way of landing bots. `mentions`
    are other pull requests that refer to this one (reverts, successors); None where the forge was not asked.
    """

    ref: Ref
    title: str
    state: str  # open | closed | merged
    draft: bool
    base: str
    head: str
    merge_commit: str | None
    created_at: str
    updated_at: str
    closed_at: str | None
    merged_at: str | None
    closed_by: tuple[Commit, ...] = ()
    mentions: tuple[Mention, ...] | None = None
    default_branch: str | None = None
    as_of: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Gone:
    """The forge knows no such pull request (any more)."""

    ref: Ref
    as_of: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Landing:
    """Where a pull request's change came onto its base branch; `commit` is a full SHA, None where it did not."""

    commit: str | None
    time: str | None
    evidence: tuple[Evidence, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Fate:
    """What became of one pull request.

    `merged_elsewhere` names the branch that it was merged into, where that is not the default branch and the
    change was not found there. `closed` tells that the forge says closed, and that it is not known whether it
    landed. `landed_as` is the commit by which the change is on the base branch now (the re-land, where there was one),
    or was, for a reverted one. `as_of` is when the forge last said so, else of when
    the clone is.
    """

    ref: Ref
    state: State
    title: str
    head: str | None
    landed_as: str | None
    landed_at: str | None
    reverted_by: Ref | None
    reverted_as: str | None
    superseded_by: Ref | None
    first_release: str | None
    as_of: str | None
    merged_elsewhere: str | None = None
    closed: bool = False
    evidence: tuple[Evidence, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Containment:
    """Whether one revision of a component has a change: None where that cannot be told.

    `how` is one of `ancestry`, `cherry-pick`, `content`, `release`, `reverted`, `not landed`, `unknown`.
    """

    in_image: bool | None
    how: str
    evidence: tuple[Evidence, ...]
