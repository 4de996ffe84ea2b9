"""Everything that can be asked about upstreams in one run: the forges, the clones, what was kept of both.

Holds the connections; decides nothing. What fails is kept as a sentence beside what is known.
"""

from __future__ import annotations

import re
import tempfile
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import date
from typing import TYPE_CHECKING

from packaging.version import InvalidVersion, Version

from patchkit.core.errors import BusyError, PatchkitError, RefusedByMachineError, UnreachableError
from patchkit.io.progress import working
from patchkit.sources.clone import fetch_clone, find_clone
from patchkit.upstream.containment import contains
from patchkit.upstream.facts import Containment, Evidence, Found, Pull, State
from patchkit.upstream.history import default_branches, read_history, version_of
from patchkit.upstream.hosts import Forges
from patchkit.upstream.landing import ClonePatchIds
from patchkit.upstream.observe import Observed, compare, observe
from patchkit.upstream.record import is_by, last_instant
from patchkit.upstream.reverts import Story, tell
from patchkit.upstream.store import Store
from patchkit.upstream.turns import turns_from_fate
from patchkit.upstream.versions import Versions, parse_versions

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from datetime import datetime

    from patchkit.model.image import Component, Image
    from patchkit.sources.clone import Clone
    from patchkit.upstream.facts import Fate, Ref
    from patchkit.upstream.history import History
    from patchkit.upstream.turns import Turn

_SHA = re.compile(r"[0-9a-f]{7,40}")
#: The base branch where no forge has named it, in the order in which a clone is asked for it.
_BRANCHES = ("main", "master")
#: States of which the image cannot have the change, unless its files say so.
_NEVER_LANDED = (State.OPEN, State.DRAFT, State.ABANDONED, State.SUPERSEDED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What the person allows: to ask a forge or not, to fetch clones or not; which clones to read."""

    offline: bool = False
    as_of: str | None = None
    fetch: bool = False
    clones: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Repository:
    """What one upstream's clone tells; `trouble` says why it tells nothing."""

    clone: Clone | None = None
    history: History | None = None
    trouble: str | None = None


class Upstreams:
    """The upstreams of one run, as `wish` allows to ask them; `now` is when that is. A context manager."""

    def __init__(self, wish: Wish, now: datetime) -> None:
        self._wish, self._now = wish, now
        self._stack = ExitStack()
        self._repositories: dict[tuple[str, str], _Repository] = {}
        self._observed: Mapping[Ref, Observed] = {}
        self._turns: dict[Ref, tuple[Turn, ...]] = {}
        self._fates: dict[Ref, Fate] = {}
        self._versions: dict[str, Versions] = {}
        self._notes: list[str] = []
        self._silent: dict[str, str] = {}  # hosts that refused a comparison in this run, and why

    def __enter__(self) -> Upstreams:
        self._open_store(None)
        return self

    def _open_store(self, root: str | None) -> None:
        self._store = self._stack.enter_context(Store(root))
        self._forges = self._stack.enter_context(Forges(self._store))

    def __exit__(self, *details: object) -> None:
        self._stack.close()

    @property
    def hint(self) -> str:
        """What to type where the forges said nothing."""
        failures = [one.failure for one in self._observed.values() if one.failure is not None]
        return next((failure.hint for failure in failures if failure.hint), "")

    def gather(self, refs: Sequence[Ref], images: Sequence[Image], versions: Mapping[str, str | None]) -> None:
        """Ask about `refs` all that is to be asked. `images` are all whose revisions matter; `versions` holds the
        text of /app/versions.txt by image name, where its tree has one."""
        self._versions = {name: parse_versions(text.encode()) for name, text in versions.items() if text is not None}
        try:
            self._observed = self._observe(refs)
        except (BusyError, RefusedByMachineError) as error:  # the cache cannot be used: do without it
            self._notes += [*error.problems]
            self._open_store(self._stack.enter_context(tempfile.TemporaryDirectory(prefix="patchkit-")))
            self._observed = self._observe(refs)
        for host, repo in dict.fromkeys((ref.host, ref.repo) for ref in refs):
            self._repositories[host, repo] = self._read(host, repo, images)

    def _observe(self, refs: Sequence[Ref]) -> Mapping[Ref, Observed]:
        as_of = None if self._wish.as_of is None else last_instant(self._wish.as_of)
        return observe(refs, self._store, self._forges, now=self._now, offline=self._wish.offline, as_of=as_of)

    def _read(self, host: str, repo: str, images: Sequence[Image]) -> _Repository:
        """The clone of one upstream, fetched first where that was asked for."""
        trouble = None
        try:
            if self._wish.fetch:
                with working(f"fetching the history of {host}/{repo}"):
                    fetch_clone(host, repo).close()
        except (BusyError, UnreachableError, RefusedByMachineError) as error:  # an older clone is better than none
            trouble = _told(error)
        try:
            clone = find_clone(host, repo, self._wish.clones)
            if clone is None:
                return _Repository(trouble=trouble)
            self._stack.callback(clone.close)
            with working(f"reading the history of {host}/{repo}"):
                history = self._history(clone, host, repo, images)
        except (UnreachableError, RefusedByMachineError) as error:
            return _Repository(trouble=_told(error))
        if history is None:
            return _Repository(trouble=f"the clone of {repo} knows no branch {' or '.join(self._branches(host, repo))}")
        if self._wish.as_of is not None and not is_by(history.as_of, self._wish.as_of):
            return _Repository(trouble=f"the clone of {repo} is of {history.as_of}, later than was asked for")
        return _Repository(clone=clone, history=history, trouble=trouble)

    def _history(self, clone: Clone, host: str, repo: str, images: Sequence[Image]) -> History | None:
        revisions = [revision for image in images if (revision := self._revision(image, host, repo)) is not None]
        for branch in dict.fromkeys((*self._branches(host, repo), *default_branches(clone, repo))):
            history = read_history(clone, repo=repo, host=host, branch=branch, revisions=revisions)
            if history is not None:
                return history
        return None

    def _branches(self, host: str, repo: str) -> tuple[str, ...]:
        """The default branch as the forge named it, else the usual names."""
        named = [
            one.fact.default_branch
            for ref, one in self._observed.items()
            if (ref.host, ref.repo) == (host, repo) and isinstance(one.fact, Pull) and one.fact.default_branch
        ]
        return tuple(named[:1]) or _BRANCHES

    def tell(self, ref: Ref, *, carried: bytes | None = None) -> Story:
        """What became of `ref`; `carried` is the diff that speaks for it where the clone does not hold its head."""
        place = self._repositories[ref.host, ref.repo]
        patch_ids = None
        if place.clone is not None and place.history is not None:
            patch_ids = ClonePatchIds(place.clone, place.history.base, carried)
        return tell(ref, self._observed[ref].fact, place.history, patch_ids=patch_ids)

    def learn(self, ref: Ref, fate: Fate, turns: tuple[Turn, ...]) -> None:
        """Keep what became of `ref` for the questions below; without turns those that its fate tells of."""
        self._fates[ref] = fate
        self._turns[ref] = turns or turns_from_fate(fate)

    def trouble(self, ref: Ref) -> str | None:
        """Why nothing newer is known of `ref`; None where what is known is as new as was asked for."""
        failure = self._observed[ref].failure
        return None if failure is None else failure.reason

    def contained(self, ref: Ref, image: Image, content: bool | None) -> Containment:
        """Whether `image` has the change of `ref`. `content` is what its own files say."""
        return self._contained(ref, image, content, asking=not self._wish.offline)

    def _contained(self, ref: Ref, image: Image, content: bool | None, *, asking: bool) -> Containment:
        fate, turns = self._fates[ref], self._turns[ref]
        if not turns and fate.state not in _NEVER_LANDED and content is None:
            detail = f"its state is {fate.state.value}, and no commit is known by which it landed"
            unknown = Evidence(question="ancestry", found=Found.NOT_TRIED, detail=detail)
            return self._by_release(ref, image, Containment(in_image=None, how="unknown", evidence=(unknown,)))
        history = self._repositories[ref.host, ref.repo].history
        revision = self._revision(image, ref.host, ref.repo)
        if revision is not None and history is not None:
            place = history.find(revision)
            revision = history.commit(place).sha if place is not None else self._resolved(ref, revision)

        def ancestry(a: str, b: str) -> str | None:
            return self._compared(ref, a, b, asking=asking)

        told = contains(turns, revision, history=history, ancestry=ancestry, content=content)
        if told.in_image and content is None and self._is_moving(image, ref):
            detail = (
                f"{self._revision(image, ref.host, ref.repo)} is a branch: what its end holds now, the image may not"
            )
            moving = Evidence(question="ancestry", found=Found.NOT_TRIED, detail=detail)
            told = Containment(in_image=None, how="unknown", evidence=(*told.evidence, moving))
        return told if told.in_image is not None else self._by_release(ref, image, told)

    def _by_release(self, ref: Ref, image: Image, found: Containment) -> Containment:
        """What the image's release says, where the image is exactly that release and no commit could tell."""
        component, first = _component(image, ref), self._fates[ref].first_release
        if component is None or not component.exact or component.release is None or first is None:
            return found
        has_it = _version(component.release) >= _version(first)
        detail = f"the image is release {component.release}; the first release with the change is {first}"
        said = Evidence(question="release", found=Found.YES if has_it else Found.NO, detail=detail)
        has_it = has_it and self._fates[ref].state is State.MERGED
        return Containment(in_image=has_it, how="release", evidence=(*found.evidence, said))

    def near(self, ref: Ref, image: Image) -> str | None:
        """The release that `image` is nearest to, where that is no older than the first one with the change."""
        component, first = _component(image, ref), self._fates[ref].first_release
        if component is None or component.release is None or first is None:
            return None
        return component.release if _version(component.release) >= _version(first) else None

    def _resolved(self, ref: Ref, revision: str) -> str:
        """A tag's or branch's commit, where the clone knows it; else the name itself, for the forge."""
        clone = self._repositories[ref.host, ref.repo].clone
        return (clone.resolve(revision) if clone is not None else None) or revision

    def _compared(self, ref: Ref, a: str, b: str, *, asking: bool) -> str | None:
        if not a or ref.host in self._silent:
            return None
        try:
            return compare(self._forges, self._store, ref.host, ref.repo, a, b, offline=not asking)
        except PatchkitError as error:
            self._silent[ref.host] = _told(error)
            return None

    def _revision(self, image: Image, host: str, repo: str) -> str | None:
        """The revision of the component of `image` that comes from this repository: as the image's own tree says,
        else as its description does."""
        for name, component in image.components:
            if _is_of(component, host, repo):
                return self._built_from(image, name, component)
        return None

    def _built_from(self, image: Image, name: str, component: Component) -> str | None:
        """A commit that the tree names goes before the description's, that before a tag or branch of the tree."""
        versions = self._versions.get(image.name)
        told = versions.revision(name) if versions is not None else None
        if versions is not None and not _is_same(versions.repo(name), component.repo):
            return None  # built from a fork: its commits and tags are not this repository's
        if told is not None and _SHA.fullmatch(told):
            return told
        return component.commit or told

    def _is_moving(self, image: Image, ref: Ref) -> bool:
        """Whether what is known of the image's revision is a branch, whose end moves."""
        revision = self._revision(image, ref.host, ref.repo)
        return revision is not None and not _SHA.fullmatch(revision) and version_of(revision, ref.repo) is None

    def first_image(self, ref: Ref, image: Image, others: Sequence[Image]) -> str | None:
        """The first image of the project, in the order of releases, that is not older than `image` and has the
        change. Asks no forge: what it knows of other images was asked for them."""
        own = _release(image, ref)
        for other in sorted(others, key=lambda candidate: (_release(candidate, ref), candidate.name)):
            if other.name != image.name and _release(other, ref) >= own:
                has_it = self._revision(other, ref.host, ref.repo) is not None
                if has_it and self._contained(ref, other, None, asking=False).in_image:
                    return other.name
        return None

    def basis(self, fates: Iterable[Fate], now: datetime) -> str:
        """How fresh what is known of `fates` is, in one sentence, with what kept it from being fresher."""
        known = list(fates)
        if not known:
            return "no step comes from a pull request"
        if self._wish.as_of is not None:
            text = f"as it was known at the end of {self._wish.as_of}"
        elif self._wish.offline:
            text = "no forge was asked"
        else:
            text = f"asked at {now:%Y-%m-%d %H:%M} UTC"
        times = sorted(fate.as_of for fate in known if fate.as_of is not None)
        if times:
            span = times[0] if times[0] == times[-1] else f"{times[0]} to {times[-1]}"
            age = (now.date() - _first_day(times[0])).days
            text += f"; what is known is of {span}" + (f", up to {age} days old" if age > 0 else "")
        never = sum(fate.as_of is None for fate in known)
        text += f"; of {never} of {len(known)} pull requests nothing is known" if never else ""
        troubles = [place.trouble for place in self._repositories.values() if place.trouble is not None]
        return "; ".join([text, *troubles, *self._silent.values(), *self._notes, *self._store.notes])


def _told(error: PatchkitError) -> str:
    """A failure that ends nothing, with its cure, as a part of a sentence."""
    return f"{error} ({error.hint})" if error.hint else str(error)


def _is_same(told: str | None, repo: str) -> bool:
    """Whether the repository that a tree names, `owner/name`, is `repo`; true where it names none."""
    return told is None or f"/{repo}".casefold().endswith(f"/{told}".casefold())


def _is_of(component: Component, host: str, repo: str) -> bool:
    return component.repo.casefold() in (repo.casefold() if host == "github.com" else "", f"{host}/{repo}".casefold())


def _component(image: Image, ref: Ref) -> Component | None:
    """The component of `image` that comes from the repository of `ref`."""
    return next((component for _, component in image.components if _is_of(component, ref.host, ref.repo)), None)


def _release(image: Image, ref: Ref) -> Version:
    """The release that is nearest to the image's component of this repository; 0 where none is named."""
    component = _component(image, ref)
    return _version("0" if component is None or component.release is None else component.release)


def _version(text: str) -> Version:
    """A release's or a tag's version; 0 where its name is none."""
    try:
        return Version(text)
    except InvalidVersion:
        return Version("0")


def _first_day(text: str) -> date:
    """The first day that a date of any exactness may mean."""
    return date(int(text[:4]), int(text[5:7] or 1), int(text[8:10] or 1))
