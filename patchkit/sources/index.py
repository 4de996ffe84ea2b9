"""A release on a package index as a source: only the wanted files are moved, and never twice."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from patchkit.core.errors import ConfigError, RefusedByMachineError, UnreachableError
from patchkit.core.tree import FileState
from patchkit.sources import simple
from patchkit.sources.base import checked_parts
from patchkit.sources.pipconfig import IndexSettings, load_settings

if TYPE_CHECKING:
    from collections.abc import Callable

    from patchkit.io.http import Http
    from patchkit.sources.archive import Archive, WheelArchive
    from patchkit.sources.base import HttpFactory
    from patchkit.sources.cache import Cache

SPEC = re.compile(r"([A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?)==([A-Za-z0-9.!+_-]+)")
_RANGE, _WHOLE = "by range", "whole"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Choice:
    """A release's file and how it is read; `url` is None where it may not be kept (it holds a secret)."""

    name: str
    kind: str
    url: str | None
    sha256: str
    size: int | None
    yanked: bool
    how: str


class IndexSource:
    """The files of the release `NAME==VERSION`, from the index that is configured for pip.

    The wheel for `platform` (`linux/amd64`; None: that) and `python` is read by range requests;
    where the server does not serve ranges, or no wheel fits, the sdist is fetched whole. Every
    answer is kept in `cache`: the same release and path need no request later. `progress` is
    called during a whole download with the bytes so far and the total.
    """

    def __init__(
        self,
        spec: str,
        *,
        platform: str | None,
        cache: Cache,
        http_factory: HttpFactory,
        python: tuple[int, int] | None = None,
        progress: Callable[[int, int | None], None] | None = None,
    ) -> None:
        match = SPEC.fullmatch(spec)
        try:
            version = Version(match[2]) if match else None
        except InvalidVersion:
            version = None
        if match is None or version is None:
            raise ConfigError(f"{spec!r}: expected a release as NAME==VERSION, such as vllm==0.33.0")
        self.spec = spec
        self._project = canonicalize_name(match[1])
        self._version = version
        self._machine = simple.machine_of(platform)
        self._python = python
        self._cache = cache
        self._factory = http_factory
        self._progress = progress
        self._settings: IndexSettings | None = None
        self._http: Http | None = None
        self._choice: _Choice | None = None
        self._archive: Archive | None = None
        self._asked = False  # the index, in this process
        self._how = "from the cache"

    @property
    def artifact_sha256(self) -> str | None:
        """The hex sha256 of the wheel or sdist that is read; None before the first read."""
        return self._choice.sha256 if self._choice else None

    def describe(self) -> str:
        """Return the release, the file that was read, and how."""
        if self._choice is None:
            return f"{self.spec} (nothing read yet)"
        yanked = ", yanked" if self._choice.yanked else ""
        return f"{self.spec} ({self._choice.kind} {self._choice.name}, {self._how}{yanked})"

    def read(self, path: str) -> FileState | None:
        """Return the file at `path`; see `Source`."""
        checked_parts(path)
        if self._choice is None:
            self._choice = self._remembered()
        if self._choice is not None:
            held, state = self._from_cache(self._choice, path)
            if held:
                return state
        return self._read_fresh(path)

    def close(self) -> None:
        """Close the archive and the connections."""
        if self._archive is not None:
            self._archive.close()
        if self._http is not None:
            self._http.close()
        self._archive = self._http = None

    # what the cache knows

    def _release_key(self) -> str:
        urls = " ".join(_shown(url) for url in self._configured().urls)
        python = ".".join(map(str, self._python or ()))
        return f"release {self._project}=={self._version} {self._machine} python{python} {urls}"

    def _remembered(self) -> _Choice | None:
        fact = self._cache.fact(self._release_key())
        try:
            return _Choice(**fact) if fact else None
        except TypeError:
            return None

    def _from_cache(self, choice: _Choice, path: str) -> tuple[bool, FileState | None]:
        """Return whether the cache knows what stands at `path`, and that."""
        fact = self._cache.fact(f"file {choice.sha256} {path}")
        if fact is None:
            return False, None
        if fact.get("absent") is True:
            return True, None
        data = self._held(fact)
        mode, kind = fact.get("mode"), fact.get("kind")
        if data is None or not isinstance(mode, int) or not isinstance(kind, str):
            return False, None
        return True, FileState(kind=kind, mode=mode, data=data)

    def _held(self, fact: dict[str, Any]) -> bytes | None:
        """Return the blob that a fact names, or None."""
        sha256 = fact.get("sha256")
        return self._cache.blob(sha256) if isinstance(sha256, str) and simple.SHA256.fullmatch(sha256) else None

    def _keep(self, choice: _Choice, path: str, state: FileState | None) -> None:
        value: dict[str, Any] = {"absent": True}
        if state is not None:
            value = {"sha256": self._cache.add(state.data), "kind": state.kind, "mode": state.mode}
        self._cache.remember(f"file {choice.sha256} {path}", value)

    # from the index to an open archive

    def _configured(self) -> IndexSettings:
        if self._settings is None:
            self._settings = load_settings()
        return self._settings

    def _connection(self) -> Http:
        if self._http is None:
            settings = self._configured()
            self._http = self._factory(ca_bundle=settings.ca_bundle)
            for url in settings.urls:
                self._http.learn_credentials(url)
        return self._http

    def _read_fresh(self, path: str) -> FileState | None:
        """Read out of the archive; where a remembered address is gone, ask the index again, once."""
        from patchkit.io.http import HttpError, RangesRefusedError

        if self._choice is not None and (self._archive is not None or self._choice.url is not None):
            try:
                return self._read_kept(path)
            except HttpError as error:
                if self._asked or not (isinstance(error, RangesRefusedError) or error.status in (404, 410)):
                    raise
        self._open_first(self._choices())
        return self._read_kept(path)

    def _read_kept(self, path: str) -> FileState | None:
        assert self._choice is not None
        if self._archive is None:
            self._archive = self._open(self._choice)
        state = self._archive.read(path)
        self._keep(self._choice, path, state)
        self._how = self._choice.how
        return state

    def _open_first(self, choices: list[_Choice]) -> None:
        """Open the first of `choices` that the server can serve, and remember it."""
        from patchkit.io.http import RangesRefusedError

        if self._archive is not None:
            self._archive.close()
            self._archive = None
        for index, choice in enumerate(choices):
            try:
                self._archive = self._open(choice)
            except RangesRefusedError:
                if index + 1 == len(choices):
                    raise
                continue
            self._choice = choice
            kept = {field: getattr(choice, field) for field in _Choice.__slots__}
            if _is_secret(choice.url or ""):
                kept["url"] = None
            self._cache.remember(self._release_key(), kept)
            return

    def _choices(self) -> list[_Choice]:
        """Return the ways to read the release, best first; raise `ConfigError` where there is none."""
        self._asked = True
        artifacts = simple.ranked(self._listed(), self._machine, self._python)
        ways = []
        for artifact in artifacts:
            ranged = artifact.kind == simple.WHEEL and not artifact.url.startswith("file:")
            ways.append((artifact, _RANGE if ranged else _WHOLE))
        ways += [(artifact, _WHOLE) for artifact, how in ways if how == _RANGE]  # the last resort
        choices = [
            _Choice(name=a.name, kind=a.kind, url=a.url, sha256=a.sha256, size=a.size, yanked=a.yanked, how=how)
            for a, how in ways
            if a.sha256 is not None
        ]
        if not choices:
            found = "files without a sha256, which cannot be checked" if artifacts else "files for other platforms only"
            raise ConfigError(
                f"{self.spec}: expected a wheel for linux {self._machine} or an sdist, found {found}",
                hint="read from another source, such as git:DIR@REV",
            )
        return choices

    def _listed(self) -> list[simple.Artifact]:
        """Return the release's files on the first index that lists a fitting wheel, else on all of them."""
        failure: UnreachableError | None = None
        found: list[simple.Artifact] = []
        versions: set[Version] = set()
        for url in self._configured().urls:
            try:
                page = self._page(f"{url}/{self._project}/")
            except UnreachableError as error:
                failure = failure or error
                continue
            versions |= {artifact.version for artifact in page}
            here = simple.of_version(page, self._version)
            found += here
            best = simple.ranked(here, self._machine, self._python)
            if best and best[0].kind == simple.WHEEL:
                return here
        if found:
            return found
        if failure is not None:
            raise failure
        known = ", ".join(str(version) for version in sorted(versions)[-5:])
        raise ConfigError(
            f"{self.spec}: expected on {' or '.join(_shown(url) for url in self._configured().urls)}, found "
            + (f"other versions only, the newest {known}" if known else f"no project {self._project}"),
            hint="correct the release, or the index that is configured for pip: pip config list",
        )

    def _page(self, url: str) -> list[simple.Artifact]:
        if url.startswith("file:"):
            path = os.path.join(_local(url), "index.html")
            try:
                with open(path, "rb") as handle:
                    return simple.parse_page(handle.read(), "text/html", url)
            except (FileNotFoundError, NotADirectoryError):
                return []
            except OSError as error:
                raise UnreachableError(f"{path}: the index page cannot be read: {error.strerror}") from error
        answer = self._connection().get(url, {"Accept": simple.ACCEPT})
        if answer.status != 200:
            return []
        return simple.parse_page(answer.body, answer.headers.get("content-type", ""), answer.url)

    def _open(self, choice: _Choice) -> Archive:
        from patchkit.sources.archive import SdistArchive, WheelArchive  # an answer from the cache needs no archive

        assert choice.url is not None
        label = f"{self.spec} ({choice.name})"
        path = self._cache.blob_file(choice.sha256)
        if path is None and choice.how == _RANGE:
            return self._open_ranged(choice, choice.url, label)
        path = path or self._fetched(choice, choice.url)
        if choice.kind == simple.SDIST:
            return SdistArchive(path, label)
        return WheelArchive(_open_file(path), label)

    def _fetched(self, choice: _Choice, url: str) -> str:
        """Return the path of the whole artifact, checked against the index's sha256."""
        destination = self._cache.blob_destination(choice.sha256)
        if not url.startswith("file:"):
            self._connection().stream_to(url, destination, sha256=choice.sha256, progress=self._progress)
            return destination
        with _open_file(_local(url)) as handle:
            found = self._cache.add(handle.read())
        if found != choice.sha256:
            raise UnreachableError(f"{_local(url)}: expected sha256 {choice.sha256} (its index), found {found}")
        return destination

    def _open_ranged(self, choice: _Choice, url: str, label: str) -> WheelArchive:
        """Open the wheel over range requests: its tail, then its central directory, both kept in the cache."""
        from patchkit.sources.archive import TAIL_BYTES, RangedFile, WheelArchive

        http, size = self._connection(), choice.size
        key = f"directory {choice.sha256}"
        fact = self._cache.fact(key)
        tail = self._held(fact) if fact else None
        kept = tail is not None
        if fact is not None and tail is not None:
            size = int(fact["size"])
        elif size is None:
            tail, size = http.get_tail(url, TAIL_BYTES)
        else:
            tail = http.get_range(url, max(0, size - TAIL_BYTES), size, total=size)
        file = RangedFile(size, lambda start, end: http.get_range(url, start, end, total=size))
        file.keep(size - len(tail), tail)
        archive = WheelArchive(file, label)
        if not kept:
            directory = file.span(archive.directory_start)
            self._cache.remember(key, {"sha256": self._cache.add(directory), "size": size})
        self._use_record(archive, choice)
        return archive

    def _use_record(self, archive: WheelArchive, choice: _Choice) -> None:
        name = archive.record_name
        if name is None:
            return
        held, state = self._from_cache(choice, name)
        if not held or state is None:
            state = FileState(data=archive.member(name))
            self._keep(choice, name, state)
        archive.use_record(state.data)


def _open_file(path: str) -> IO[bytes]:
    try:
        return open(path, "rb")
    except OSError as error:
        raise RefusedByMachineError(f"{path}: cannot be read: {error.strerror}") from error


def _local(url: str) -> str:
    return unquote(urlsplit(url).path)


def _is_secret(url: str) -> bool:
    """Tell whether an address may hold a secret: a user, or a query (a signature, a token)."""
    parts = urlsplit(url)
    return bool(parts.query) or parts.username is not None


def _shown(url: str) -> str:
    from patchkit.io.http_failures import redact

    return redact(url)
