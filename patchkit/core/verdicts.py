"""The closed sets of words that results are made of. They are the contract (design.md, Words)."""

from __future__ import annotations

from enum import Enum


class Verdict(str, Enum):
    """One step against one tree."""

    APPLIED = "applied"
    APPLIES = "applies"
    OFFSET = "offset"
    UPSTREAM = "upstream"
    PARTIAL = "partial"
    CONFLICT = "conflict"
    DRIFTED = "drifted"
    MISSING = "missing"
    UNRESOLVED = "unresolved"
    DEFERRED = "deferred"
    BLOCKED = "blocked"


#: Verdicts that let a stack be applied.
GOOD = frozenset({Verdict.APPLIED, Verdict.APPLIES, Verdict.OFFSET, Verdict.UPSTREAM, Verdict.DEFERRED})


class Change(str, Enum):
    """What a step does to one file."""

    MODIFIED = "modified"
    ADDED = "added"
    DELETED = "deleted"
    RENAMED = "renamed"
    COPIED = "copied"
    MODE = "mode"
    TYPE = "type"


class Outcome(str, Enum):
    """What a command did, in one word."""

    APPLIED = "applied"
    UNCHANGED = "unchanged"
    UPGRADED = "upgraded"
    REVERTED = "reverted"
    PLANNED = "planned"
    REFUSED = "refused"
    CLEAN = "clean"
    DRIFTED = "drifted"
    REPORTED = "reported"
