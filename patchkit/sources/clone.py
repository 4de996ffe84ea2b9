"""A clone as a history: what was committed when, which commit holds which, which release has it.

Nothing here fetches, but `fetch_clone`, which is called only where the person asked for it. A treeless clone
(`--filter=tree:0`) serves messages and ancestry; patch-ids need a full one (`Clone.full`).

Cached clones live at `CACHE/clones/HOST/OWNER/REPO.git` (`patchkit.sources.cache.default_root`).
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import TYPE_CHECKING

from patchkit.core.errors import BusyError, ConfigError, RefusedByMachineError, UnreachableError
from patchkit.sources import patchids
from patchkit.sources.cache import default_root
from patchkit.sources.repository import GitFailedError, Repository, clone_bare

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

TREELESS = "tree:0"
#: git-log(1), "PRETTY FORMATS": name, parents, committer's seconds, subject, body; each ends in NUL.
_FORMAT = "%H%x00%P%x00%ct%x00%s%x00%b"
_PLAIN = ("--no-color", "--no-decorate", "--no-notes", "--no-show-signature", "--no-mailmap", "--encoding=UTF-8")
_HOST = re.compile(r"[A-Za-z0-9-]+(\.[A-Za-z0-9-]+)*(:[0-9]+)?")
_REPO = re.compile(r"(?!\.)[A-Za-z0-9._-]+/(?!\.{1,2}$)[A-Za-z0-9._-]+")
_SHA = re.compile(r"[0-9a-f]{40}")
#: The address of a repository on another machine: an URL with a host, or `user@host:path`.
_FAR = re.compile(r"(?:(?!file:)[a-z][a-z0-9+.-]*://[^/]|[^/:\\]{2,}:(?!//))", re.IGNORECASE)
_REFS = ("+refs/heads/*:refs/heads/*", "+refs/tags/*:refs/tags/*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Logged:
    """One commit: full SHAs, `time` in seconds of the committer's clock (UTC), `body` without the subject."""

    sha: str
    parents: tuple[str, ...]
    time: int
    subject: str
    body: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Tag:
    """A tag and the commit it leads to; `time` in seconds is when it was made (of a light one: the commit's)."""

    name: str
    commit: str
    time: int


class Clone:
    """The repository at `directory`, read only and without the network.

    `cure` is the hint for a damaged one. `filter` is what a partial clone left out, or None; `shallow` tells a clone whose history was cut off: there
    a "no" is no answer. Raises `ConfigError` for a directory that is no repository; each method raises
    `UnreachableError` for a damaged one and `RefusedByMachineError` where git is missing or refuses it.
    """

    def __init__(self, directory: str, *, cure: str = "") -> None:
        self.directory = directory
        self._cure = cure or f"git -C {directory} fsck, or name another clone"
        self._spec = f"git:{directory}"
        self._repository = Repository(directory, self._spec)
        self.filter = self._repository.filter()
        self.shallow = os.path.exists(os.path.join(self._repository.common_directory, "shallow"))

    @property
    def full(self) -> bool:
        """Whether it holds every file of every commit."""
        return self.filter is None and not self.shallow

    @property
    def kind(self) -> str:
        """What kind of clone it is, as a noun."""
        if self.shallow:
            return "a shallow clone"
        return "a full clone" if self.filter is None else f"a partial clone ({self.filter})"

    def fetched_at(self, repo: str = "") -> int | None:
        """Return when the upstream `repo` was last fetched (seconds), or None where that left no trace: the last
        fetch was from another remote, or there was none since the clone was made."""
        path = os.path.join(self._repository.own_directory, "FETCH_HEAD")
        try:
            if len(self._repository.remotes()) > 1:
                with open(path, encoding="utf-8", errors="replace") as handle:
                    if repo.casefold() not in handle.read().casefold():
                        return None
            return int(os.stat(path).st_mtime)
        except OSError:
            return None

    def close(self) -> None:
        """End git's processes."""
        self._repository.close()

    def resolve(self, revision: str) -> str | None:
        """Return the full SHA of the commit that `revision` names, or None where the clone knows none."""
        sha, complaint = self._repository.ask("rev-parse", "--verify", "--end-of-options", f"{revision}^{{commit}}")
        return None if complaint else sha

    def branch(self, name: str, repo: str = "") -> str | None:
        """Return the newest known commit of the upstream branch `name`, or None; raise `UnreachableError` where it is
        there and cannot be read.

        In a work clone that is the remote's, whose address ends in `repo`, then `origin`'s; a branch of the
        same name that somebody works on comes last.
        """
        refs = [*(f"refs/remotes/{remote}/{name}" for remote in self._upstreams(repo)), f"refs/heads/{name}"]
        found = next((sha for ref in refs if (sha := self.resolve(ref))), None)
        if found is None:
            known = self._ask("for-each-ref", "--format=%(refname)").split("\n")  # fails where the refs are rubbish
            directory = self._repository.common_directory
            broken = [ref for ref in refs if ref in known or os.path.isfile(os.path.join(directory, ref))]
            if broken:
                raise self._damaged(f"{broken[0]} leads to no commit")
        return found

    def default_branch(self, repo: str = "") -> str | None:
        """Return the branch that HEAD of the upstream `repo` led to when this was cloned; where no remote tells, the
        one that HEAD leads to here. None where that is none."""
        for remote in self._upstreams(repo):
            name = self._repository.ask("symbolic-ref", "--quiet", f"refs/remotes/{remote}/HEAD")[0]
            if name:
                return name.removeprefix(f"refs/remotes/{remote}/")
        name = self._repository.ask("symbolic-ref", "--quiet", "HEAD")[0]
        return name.removeprefix("refs/heads/") or None

    @property
    def has_remotes(self) -> bool:
        """Whether it was cloned from somewhere."""
        return bool(self._repository.remotes())

    def _upstreams(self, repo: str) -> list[str]:
        """The remotes that may be the upstream, the likeliest first."""
        remotes, wanted = self._repository.remotes(), repo.casefold()
        return [*(at for at, url in remotes.items() if wanted and _path_of(url).endswith(f"/{wanted}")), "origin"]

    def others_than(self, repo: str) -> tuple[str, ...]:
        """Return which repositories its remotes name (`owner/repo`) where none of them is `repo`: it is not its
        clone. A remote on this machine, which may be anybody's copy, names none."""
        named = [_path_of(url) for url in self._repository.remotes().values()]
        if any(path.endswith(f"/{repo.casefold()}") for path in named):
            return ()
        far = [url for url in self._repository.remotes().values() if _FAR.match(url)]
        if len(far) < len(named):
            return ()
        return tuple(dict.fromkeys("/".join(_path_of(url).split("/")[-2:]) for url in far))

    def tags(self) -> tuple[Tag, ...]:
        """Return the tags that lead to a commit, in no order. One git process."""
        form = "%(refname)%00%(objecttype)%00%(objectname)%00%(*objecttype)%00%(*objectname)%00%(creatordate:unix)"
        found = []
        for line in self._ask("for-each-ref", f"--format={form}", "refs/tags").split("\n"):
            if line:
                name, kind, sha, peeled_kind, peeled, time = line.split("\0")
                if "commit" in (kind, peeled_kind):
                    commit = sha if kind == "commit" else peeled
                    found.append(Tag(name=name.removeprefix("refs/tags/"), commit=commit, time=int(time or 0)))
        return tuple(found)

    def log(self, revisions: Iterable[str]) -> tuple[Logged, ...]:
        """Return every commit that `revisions` (full SHAs) reach, children before parents. One git process."""
        named = "".join(f"{sha}\n" for sha in revisions)
        if not named:
            return ()
        output = self._run("log", "--stdin", "--topo-order", "-z", f"--format={_FORMAT}", *_PLAIN, stdin=named)
        cells = output.decode("utf-8", "replace").split("\0")
        return tuple(
            Logged(sha=sha, parents=tuple(parents.split()), time=int(time), subject=subject, body=body)
            for sha, parents, time, subject, body in zip(*(iter(cells[:-1]),) * 5, strict=True)
        )

    def is_ancestor(self, a: str, b: str) -> bool | None:
        """Tell whether commit `b` contains `a`; None where this clone cannot say (not known to it, shallow)."""
        for sha in (a, b):
            if self.resolve(sha) is None:
                return None
        try:
            self._repository.run("merge-base", "--is-ancestor", a, b)
        except GitFailedError as error:
            if error.status != 1:
                raise self._damaged(error.complaint) from error
            return None if self.shallow else False
        return True

    def merge_base(self, a: str, b: str) -> str | None:
        """Return the best common ancestor of two commits, or None."""
        return self._repository.ask("merge-base", a, b)[0] or None

    def patch_ids(
        self, commits: Iterable[str], paths: Iterable[str] = (), *, reverse: bool = False
    ) -> dict[str, dict[str, str]]:
        """Return commit to path to patch-id; see `patchids.of_commits`."""
        try:
            return patchids.of_commits(self._repository, commits, paths, reverse=reverse)
        except GitFailedError as error:
            raise self._lacking(error.complaint) from error

    def patch_ids_between(self, old: str, new: str) -> dict[str, str]:
        """Return path to patch-id of the change from commit `old` to `new`."""
        try:
            return patchids.between(self._repository, old, new)
        except GitFailedError as error:
            raise self._lacking(error.complaint) from error

    def patch_ids_of(self, diff: bytes) -> dict[str, str]:
        """Return path to patch-id of a diff; see `patchids.of_diff`."""
        try:
            return patchids.of_diff(self._repository, diff)
        except GitFailedError as error:
            raise self._lacking(error.complaint) from error

    def _run(self, command: str, *arguments: str, stdin: str = "") -> bytes:
        try:
            return self._repository.run(command, *arguments, stdin=stdin.encode())
        except GitFailedError as error:
            raise self._damaged(error.complaint) from error

    def _ask(self, command: str, *arguments: str) -> str:
        return self._run(command, *arguments).decode("utf-8", "replace")

    def _damaged(self, complaint: str, found: str = "a damaged or incomplete clone") -> UnreachableError:
        return UnreachableError(
            f"{self._spec}: expected a readable history, found {found} ({complaint})", hint=self._cure
        )

    def _lacking(self, complaint: str) -> UnreachableError:
        """Files are missing: a partial clone is none the worse for that."""
        if self.filter is None:
            return self._damaged(complaint)
        return self._damaged(complaint, f"{self.kind} without it: nothing is fetched")


def clone_path(host: str, repo: str, root: str | None = None) -> str:
    """Return where the cached clone of `repo` (`owner/name`) on `host` lives; raise `ConfigError` for bad names."""
    if _HOST.fullmatch(host) is None or _REPO.fullmatch(repo) is None:
        raise ConfigError(f"{host}/{repo}: expected a host and owner/repo")
    return os.path.join(root or default_root(), "clones", host.replace(":", "_"), f"{repo}.git")


def find_clone(host: str, repo: str, given: Mapping[str, str], root: str | None = None) -> Clone | None:
    """Return the clone of `repo` on `host` that `given` names (by `host/owner/repo` or `owner/repo`), else the
    cached one, else None. Raises what `Clone` raises, for a cached one that is damaged `UnreachableError`, and
    `ConfigError` for a given one whose remotes are all other repositories."""
    wanted = {f"{host}/{repo}".casefold(), repo.casefold()}
    named = next((directory for key, directory in given.items() if key.casefold() in wanted), None)
    if named is not None:
        clone = Clone(named)
        others = clone.others_than(repo)
        if others:
            clone.close()
            raise ConfigError(
                f"--clone {repo}={named}: expected a clone of {repo}, found one of {', '.join(others)}",
                hint=f"name another clone, or: git -C {named} remote add -f upstream https://{host}/{repo}.git",
            )
        return clone
    directory = clone_path(host, repo, root)
    if not os.path.isdir(directory):
        return None
    try:
        return Clone(directory, cure=_cure(directory))
    except ConfigError as error:
        raise UnreachableError(
            f"{directory}: expected the cached clone of {repo}, found no repository", hint=_cure(directory)
        ) from error


def fetch_clone(host: str, repo: str, url: str | None = None, root: str | None = None) -> Clone:
    """Make or refresh the cached clone of `repo` on `host`: bare, treeless, with a commit-graph; return it.

    This is the one place that fetches; `url` defaults to https://HOST/OWNER/REPO.git. A clone is put in place
    whole or not at all. Raises `UnreachableError` where the remote cannot be read (an older clone stays as it
    was), `BusyError` where another run fetches the same, `RefusedByMachineError` for a cache that cannot be
    written.
    """
    directory, url = clone_path(host, repo, root), url or f"https://{host}/{repo}.git"
    spec = f"{host}/{repo}"
    try:
        os.makedirs(os.path.dirname(directory), mode=0o700, exist_ok=True)
        with _held(f"{directory}.lock"):
            if not _is_usable(directory):
                _make(url, directory, spec)
            else:
                _refresh(Repository(directory, spec), url)
                if not _is_usable(directory):  # its default branch has another name now
                    _make(url, directory, spec)
            clone = Clone(directory, cure=_cure(directory))
            clone._run("commit-graph", "write", "--reachable", "--no-progress")  # noqa: SLF001 - its own kind
            return clone
    except GitFailedError as error:
        raise UnreachableError(
            f"{spec}: {url} cannot be fetched: {error.complaint}",
            hint=f"git ls-remote {url}  # tells whether this machine may read it",
        ) from error
    except OSError as error:
        raise RefusedByMachineError(
            f"{directory}: the cache cannot be used: {error.strerror}",
            hint="name another directory: PATCHKIT_CACHE=DIR",
        ) from error


def _cure(directory: str) -> str:
    return f"rm -r {directory}; patchkit status --fetch"


def _is_usable(directory: str) -> bool:
    """Whether a repository stands there whose refs can be read; what is broken is taken away."""
    if not os.path.isdir(directory):
        return False
    try:
        usable = Clone(directory).resolve("HEAD") is not None
    except ConfigError:
        usable = False
    if not usable:
        shutil.rmtree(directory)
    return usable


def _make(url: str, directory: str, spec: str) -> None:
    temporary = f"{directory}.{os.getpid()}.tmp"
    try:
        clone_bare(url, temporary, filter_=TREELESS, spec=spec)
        with open(os.path.join(temporary, "FETCH_HEAD"), "w"):
            pass  # its time tells when this was fetched, as after `git fetch`
        os.rename(temporary, directory)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _refresh(repository: Repository, url: str) -> None:
    """Fetch into a clone that is there; its remote keeps the filter, so that it stays treeless."""
    repository.run("config", "remote.origin.url", url)
    repository.fetching("--quiet", "--prune", "--force", "origin", *_REFS)
    repository.close()


@contextmanager
def _held(path: str) -> Iterator[None]:
    with open(path, "w") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise BusyError(f"{path}: another run fetches this clone", hint="wait for it, then try again") from error
        yield


def _path_of(url: str) -> str:
    """A remote's address as `…/owner/repo`, folded: `git@host:owner/repo.git` and URLs alike."""
    return f"/{url.removesuffix('/').removesuffix('.git').replace(':', '/')}".casefold()


def iso(seconds: int) -> str:
    """Return a time in seconds as `2026-08-12T09:44:00Z`."""
    return datetime.fromtimestamp(seconds, tz=timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
