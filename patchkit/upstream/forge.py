"""What every forge answers to: the interface, and the shapes of its answers and refusals.

GitHub is the one that is built (`github`). A forge with another notion of a pull request, such as
GitLab's merge requests, is a second class with these methods and a line in `hosts.for_host`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Protocol, TypeAlias

from patchkit.core.errors import UnreachableError
from patchkit.upstream.facts import Commit, Gone, Pull, Ref

#: How commit `a` stands to commit `b` in compare(a, b): `ahead` and `identical` mean that b contains a.
COMPARE_STATES = ("ahead", "behind", "identical", "diverged")


@dataclass(frozen=True, slots=True, kw_only=True)
class Unanswered:
    """The forge said nothing of this pull request, and why. `retry_at` is when it may (ISO 8601, UTC), if it says so."""

    ref: Ref
    reason: str
    hint: str = ""
    retry_at: str | None = None


Answer: TypeAlias = Pull | Gone | Unanswered
#: Called with each batch of answers as it comes.
Told: TypeAlias = Callable[[Mapping[Ref, Answer]], None]


class ForgeError(UnreachableError):
    """A forge that refuses, or cannot be asked; `retry_at` is when it may answer again (ISO 8601, UTC), if known."""

    def __init__(self, problem: str, *, hint: str = "", retry_at: str | None = None) -> None:
        super().__init__(problem, hint=hint)
        self.retry_at = retry_at

    def about(self, ref: Ref) -> Unanswered:
        """Return this failure as what is known of `ref`."""
        return Unanswered(ref=ref, reason=str(self), hint=self.hint, retry_at=self.retry_at)


class Forge(Protocol):
    """One host that has repositories and pull requests. All SHAs are full ones."""

    host: str

    def observe(self, refs: Sequence[Ref], now: datetime, told: Told | None = None) -> dict[Ref, Answer]:
        """Return an answer for each of `refs`, all of this host; `now` becomes their `as_of`. Raises nothing."""

    def compare(self, repo: str, base: str, head: str) -> str | None:
        """Return one of COMPARE_STATES; None where the forge does not know one of the two. Raises `UnreachableError`."""

    def commit(self, repo: str, sha: str) -> Commit | None:
        """Return a commit's time and message; None where the forge does not know it. Raises `UnreachableError`."""

    def commit_diff(self, repo: str, sha: str) -> bytes | None:
        """Return what a commit changes, against its first parent, as a unified diff; None and errors as `commit`."""

    def compare_diff(self, repo: str, base: str, head: str) -> bytes | None:
        """Return what `head` changes since its merge base with `base` as a unified diff; None, errors as `commit`."""

    def pull_diff(self, ref: Ref) -> bytes | None:
        """Return what a pull request changes, as it is now, as a unified diff; None and errors as `commit`."""

    def close(self) -> None:
        """Close the connections."""


class Memory(Protocol):
    """Where a forge keeps bodies by address and ETag, for whoever may see them: `owner` is the token's digest."""

    def tagged(self, owner: str, url: str) -> tuple[str, bytes] | None:
        """Return the ETag and the body that were kept, or None."""

    def keep_tagged(self, owner: str, url: str, etag: str, body: bytes) -> None:
        """Keep a body with its ETag, in place of an earlier one."""


def iso(time: datetime) -> str:
    """Return a time with a zone as this package writes times: `2026-08-12T09:44:00Z`."""
    return time.astimezone(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
