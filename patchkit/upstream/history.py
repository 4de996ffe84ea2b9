"""A repository's history as an index: which commit landed which pull request, which takes back which, which
revision holds what.

One walk of git's (`git log`) over the base branch, the release tags and the image's revisions is read once; all
questions after that are look-ups. What a commit says of others is in `patchkit.upstream.messages`.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from typing import TYPE_CHECKING

from packaging.version import InvalidVersion, Version

from patchkit.sources.clone import iso
from patchkit.upstream.facts import DEFAULT_HOST, Commit
from patchkit.upstream.messages import NO_CLAIMS, Title, parse_body, parse_title

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from patchkit.sources.clone import Clone, Logged, Tag
    from patchkit.upstream.messages import Claims

_TITLE_ONLY_NUMBERS = re.compile(r"revert|re-?land|re-?appl|re-?merg|back|roll|unrevert|\(#|^Merge pull", re.IGNORECASE)

#: The default branch's usual names.
_USUAL = ("main", "master")


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """That commit `at` takes back (`negates`) or does again what it speaks of; `via` is `title`, `trailer` or
    `cherry-pick`. Indexed by what it speaks of: a number or a commit."""

    at: int
    negates: bool
    via: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """A tag whose name is a version; `time` is ISO 8601, of the tag."""

    name: str
    version: Version
    commit: str
    time: str


class History:
    """An index over `log` (children before parents, as `Clone.log` gives it), whose base branch (`branch`) ends at `base`.

    A commit's place (`at`) is its number in that walk, oldest first: of two commits of which one holds the
    other, the later has the higher number. `shallow` tells that the walk was cut off: a "no" is none then.
    `as_of` is ISO 8601: when the clone was last fetched, else the newest commit of the base.
    """

    def __init__(
        self,
        log: Sequence[Logged],
        *,
        repo: str,
        host: str = DEFAULT_HOST,
        base: str,
        branch: str = "",
        tags: Iterable[Tag] = (),
        shallow: bool = False,
        kind: str = "a full clone",
        fetched_at: int | None = None,
    ) -> None:
        self.repo, self.host, self.base, self.branch = repo, host, base, branch
        self.shallow, self.kind = shallow, kind
        self._log = log[::-1]
        self._places = {entry.sha: place for place, entry in enumerate(self._log)}
        self.releases = _releases(tags, repo, self._places)
        self._masks = self._spread()
        self._reached: dict[str, frozenset[str]] = {}
        self._titles = [_title(entry.subject) for entry in self._log]
        self._claims = {
            at: said for at, e in enumerate(self._log) if e.body and (said := parse_body(e.body)) is not NO_CLAIMS
        }
        self._numbers: dict[int, list[int]] = {}
        self._carried: dict[int, list[int]] = {}
        self._texts: dict[str, list[int]] = {}
        self._lands: dict[tuple[str, int], list[int]] = {}
        self._picks: dict[str, list[int]] = {}
        self._on_number: dict[int, list[Claim]] = {}
        self._on_commit: dict[int, list[Claim]] = {}
        self._unresolved: list[int] = []
        self._partial: dict[int, list[int]] = {}
        self._not_own: set[int] = set()  # places whose number at the end is that of what they take back
        self._sorted_shas = sorted(self._places)
        self._index()
        newest = max((entry.time for entry in self._log if self.on_base(entry.sha)), default=0)
        self.as_of = iso(newest if fetched_at is None else fetched_at)

    def __len__(self) -> int:
        return len(self._log)

    def place(self, sha: str) -> int | None:
        """Return the place of the commit with the full SHA `sha`, or None where the walk does not hold it."""
        return self._places.get(sha)

    def commit(self, at: int) -> Commit:
        """Return the commit at a place."""
        entry = self._log[at]
        return Commit(sha=entry.sha, time=iso(entry.time), subject=entry.subject, body=entry.body)

    def title(self, at: int) -> Title:
        """Return the subject of the commit at a place, taken apart."""
        return self._titles[at]

    def number(self, at: int) -> int | None:
        """Return the pull request that landed the commit at a place, as far as its subject tells."""
        return None if at in self._not_own else self._titles[at].own

    def takes_back_a_part_of(self, number: int) -> tuple[int, ...]:
        """Return the places of the commits that say that they take back a part of that pull request."""
        return tuple(self._partial.get(number, ()))

    def on_base(self, sha: str) -> bool:
        """Tell whether the base branch holds the commit."""
        at = self._places.get(sha)
        return at is not None and bool(self._masks[at] & 1)

    def is_ancestor(self, a: str, b: str) -> bool | None:
        """Tell whether commit `b` holds commit `a` (full SHAs); None where the walk does not know."""
        if b not in self._places:
            return None
        holds = self.on_base(a) if b == self.base else a in self.reached(b)
        return True if holds else None if self.shallow else False

    def reached(self, sha: str) -> frozenset[str]:
        """Return every commit that `sha`, which the walk holds, reaches: itself, too."""
        known = self._reached.get(sha)
        if known is None:
            seen, left = {sha}, [sha]
            while left:
                for parent in self._log[self._places[left.pop()]].parents:
                    if parent not in seen and parent in self._places:
                        seen.add(parent)
                        left.append(parent)
            known = self._reached[sha] = frozenset(seen)
        return known

    def in_release(self, number: int, sha: str) -> bool:
        """Tell whether the release at `number` in `releases` holds the commit."""
        at = self._places.get(sha)
        return at is not None and bool(self._masks[at] >> (number + 1) & 1)

    def landed(self, number: int) -> tuple[int, ...]:
        """Return the places of the commits whose subject ends in `(#number)`, or that merge that pull request."""
        return tuple(self._numbers.get(number, ()))

    def carrying(self, number: int) -> tuple[int, ...]:
        """Return the places of the commits that name it before their own: `TITLE (#number) (#own)`."""
        return tuple(self._carried.get(number, ()))

    def landed_by_trailer(self, number: int) -> tuple[int, ...]:
        """Return the places of the commits whose trailers say that they land that pull request of this repository."""
        return tuple(self._lands.get((f"{self.host}/{self.repo}".casefold(), number), ()))

    def picks_of(self, sha: str) -> tuple[int, ...]:
        """Return the places of the commits that say that they were picked from the commit `sha` (full)."""
        return tuple(self._picks.get(sha, ()))

    def claims_on_number(self, number: int) -> tuple[Claim, ...]:
        """Return what takes back, or does again, the pull request `number`."""
        return tuple(self._on_number.get(number, ()))

    def claims_on(self, at: int) -> tuple[Claim, ...]:
        """Return what takes back, or does again, the commit at a place."""
        return tuple(self._on_commit.get(at, ()))

    def unresolved_after(self, at: int) -> tuple[int, ...]:
        """Return the places after `at` of reverts of which no word tells what they revert."""
        return tuple(self._unresolved[bisect_right(self._unresolved, at) :])

    def between(self, since: int, until: int) -> tuple[str, ...]:
        """Return the base branch's commits with a committer's time (seconds) in that span, oldest first."""
        return tuple(e.sha for e in self._log if since <= e.time <= until and self.on_base(e.sha))

    def find(self, abbreviated: str) -> int | None:
        """Return the place of the one commit whose SHA begins so, or None."""
        if len(abbreviated) == 40:
            return self._places.get(abbreviated)
        first = bisect_left(self._sorted_shas, abbreviated)
        found = [sha for sha in self._sorted_shas[first : first + 2] if sha.startswith(abbreviated)]
        return self._places[found[0]] if len(found) == 1 else None

    def _spread(self) -> list[int]:
        """For each place the set (bits) of heads that hold it: bit 0 the base, then the releases."""
        masks = [0] * len(self._log)
        for bit, sha in enumerate([self.base, *(release.commit for release in self.releases)]):
            if sha in self._places:
                masks[self._places[sha]] |= 1 << bit
        for at in range(len(self._log) - 1, -1, -1):
            mask = masks[at]
            if mask:
                for parent in self._log[at].parents:
                    place = self._places.get(parent)
                    if place is not None:
                        masks[place] |= mask
        return masks

    def _index(self) -> None:
        for at, title in enumerate(self._titles):
            if title.own is not None and self._is_another_s(title):
                self._not_own.add(at)
            elif title.own is not None:
                self._numbers.setdefault(title.own, []).append(at)
            for number in title.carried:
                self._carried.setdefault(number, []).append(at)
            self._texts.setdefault(title.text, []).append(at)
        self._index_claims()
        for at, title in enumerate(self._titles):
            said = self._claims.get(at, NO_CLAIMS)
            if title.negates is None:
                self._by_trailer(at, said, negates=True)
            elif not self._by_title(at, title, said):
                self._unresolved.append(at)

    def _index_claims(self) -> None:
        for at, said in self._claims.items():
            for pull in said.lands:
                self._lands.setdefault(pull, []).append(at)
            for sha in said.picked:
                self._index_pick(at, sha)

    def _is_another_s(self, title: Title) -> bool:
        """Whether a revert's number at the end, which an earlier commit has, is that of what it takes back."""
        earlier = self._numbers.get(title.own or 0, ())
        if title.negates is None or title.about is None or not earlier:
            return False
        return (
            title.doubtful
            or title.own == title.about.own
            or title.about.text in {self._titles[place].text for place in earlier}
        )

    def _index_pick(self, at: int, sha: str) -> None:
        origin = self.find(sha)
        self._picks.setdefault(sha if origin is None else self._log[origin].sha, []).append(at)
        if origin is not None:
            self._on_commit.setdefault(origin, []).append(Claim(at=at, negates=False, via="cherry-pick"))

    def _by_title(self, at: int, title: Title, said: Claims) -> bool:
        """Index what the revert or re-land at a place speaks of; False where that cannot be told."""
        about, negates = title.about, bool(title.negates)
        if title.partial:
            if about is not None and about.own is not None:
                self._partial.setdefault(about.own, []).append(at)
            return self._by_trailer(at, said, negates=negates)
        if title.doubtful and title.own is not None and self._numbers.get(title.own, [at])[0] < at:
            self._on_number.setdefault(title.own, []).append(Claim(at=at, negates=negates, via="title"))
            return True
        while about is not None:
            if about.own is not None and self._numbers.get(about.own, [at])[0] < at:
                self._on_number.setdefault(about.own, []).append(Claim(at=at, negates=negates, via="title"))
                return True
            target = self._by_text(at, about, said)
            if target is not None:
                self._on_commit.setdefault(target, []).append(Claim(at=at, negates=negates, via="title"))
                return True
            if about.negates is None or about.partial:
                break
            negates, about = negates != about.negates, about.about
        if self._by_trailer(at, said, negates=bool(title.negates)):
            return True
        if about is not None and about.own is not None:  # not known by that number here; it may be by another way
            self._on_number.setdefault(about.own, []).append(Claim(at=at, negates=negates, via="title"))
            return True
        return False

    def _by_text(self, at: int, about: Title, said: Claims) -> int | None:
        """The last commit before `at` with the title `about`; the one that a trailer names, where it is one of them."""
        if not about.text:
            return None
        places = [
            place
            for place in self._texts.get(about.text, ())[: bisect_left(self._texts.get(about.text, ()), at)]
            if about.own is None or about.own in (self._titles[place].own, *self._titles[place].carried)
        ]
        named = [place for sha in said.reverts if (place := self.find(sha)) in places]
        return max(named or places, default=None)

    def _by_trailer(self, at: int, said: Claims, *, negates: bool) -> bool:
        places = [place for sha in said.reverts if (place := self.find(sha)) is not None and place < at]
        for place in places:
            self._on_commit.setdefault(place, []).append(Claim(at=at, negates=negates, via="trailer"))
        numbers = [number for repo, number in said.reverts_pulls if repo in ("", self.repo.casefold())]
        for number in numbers if not places else ():
            self._on_number.setdefault(number, []).append(Claim(at=at, negates=negates, via="trailer"))
        return bool(places or numbers)


def read_history(
    clone: Clone, *, repo: str, host: str = DEFAULT_HOST, branch: str = "main", revisions: Iterable[str] = ()
) -> History | None:
    """Return the history of `branch` in `clone` with all release tags and `revisions` (whatever git understands;
    unknown ones are left out), or None where the clone does not know the branch. A few git processes for all."""
    base = clone.branch(branch, repo)
    if base is None:
        return None
    tags = [tag for tag in clone.tags() if version_of(tag.name, repo) is not None]
    more = [sha for revision in revisions if (sha := clone.resolve(revision)) is not None]
    log = clone.log(dict.fromkeys([base, *more, *(tag.commit for tag in tags)]))
    return History(
        log,
        repo=repo,
        host=host,
        base=base,
        branch=branch,
        tags=tags,
        shallow=clone.shallow,
        kind=clone.kind,
        fetched_at=clone.fetched_at(repo),
    )


def default_branches(clone: Clone, repo: str = "") -> tuple[str, ...]:
    """Return the names that the default branch of `clone` may have, the likeliest first, where no forge names it.

    A clone's HEAD tells; that of a repository which was cloned from nowhere is but what somebody works on.
    """
    head = clone.default_branch(repo)
    names = [*([head] if head else []), *_USUAL] if clone.has_remotes else [*_USUAL, *([head] if head else [])]
    return tuple(dict.fromkeys(names))


def version_of(tag: str, repo: str) -> Version | None:
    """Return the version that a tag names (`v0.28.0`, `0.1.5.post1`, `release-1.2`, `aiter-v0.1`), or None.

    Of other words before the number none is a version: `nightly-20260901` and `ciflow/trunk/17` are no releases.
    """
    words = "|".join(["v", "ver", "version", "rel", "release", re.escape(repo.rpartition("/")[2])])
    match = re.fullmatch(rf"(?:(?:{words})[-_]?)?v?(\d.*)", tag, re.IGNORECASE)
    try:
        return Version(match[1]) if match is not None else None
    except InvalidVersion:
        return None


def _releases(tags: Iterable[Tag], repo: str, known: dict[str, int]) -> tuple[Release, ...]:
    """The tags that name a version, in the order of the versions."""

    def found() -> Iterator[Release]:
        for tag in tags:
            version = version_of(tag.name, repo)
            if version is not None and tag.commit in known:
                yield Release(name=tag.name, version=version, commit=tag.commit, time=iso(tag.time))

    by: Callable[[Release], tuple[Version, str]] = lambda release: (release.version, release.name)  # noqa: E731
    return tuple(sorted(found(), key=by))


def _title(subject: str) -> Title:
    """`parse_title`, but for the many subjects that have nothing to take apart."""
    return parse_title(subject) if _TITLE_ONLY_NUMBERS.search(subject) else Title(text=subject.strip())
