"""A registry: manifests and blobs of its repositories, over `Wire`. Whatever it does wrong ends in a retry that works,
or in an `HttpError` that says what it did."""

from __future__ import annotations

import hashlib
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from threading import Lock
from typing import TYPE_CHECKING
from urllib.parse import quote

from patchkit.io.credentials import find_login
from patchkit.io.http import HttpError, StalledError
from patchkit.oci.asking import ANSWERS, ATTEMPTS, BLOB_LIMIT, Asker, MissingError, worth_another
from patchkit.oci.auth import Auth
from patchkit.oci.documents import MalformedError, Schema1Error, parse_manifest
from patchkit.oci.reference import HUB
from patchkit.oci.types import INDEXES, MANIFESTS, Descriptor, Index
from patchkit.oci.upload import Progress, Source, upload

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from patchkit.io.credentials import Login
    from patchkit.io.wire import Wire

_ACCEPT = ", ".join((*MANIFESTS, *INDEXES))
_MANIFEST_LIMIT = 16 << 20
_LOOPBACK = ("localhost", "127.", "[::1]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Fetched:
    """A manifest or index as the registry has it: its very bytes, which have this digest."""

    media_type: str
    digest: str
    raw: bytes = field(repr=False)

    @property
    def descriptor(self) -> Descriptor:
        """The manifest as an index names it."""
        return Descriptor(media_type=self.media_type, digest=self.digest, size=len(self.raw))


def hashed(digest: str, data: bytes) -> str:
    """Return the digest of `data` with the algorithm of `digest`. Raises ValueError for an unknown one."""
    algorithm = digest.partition(":")[0]
    return f"{algorithm}:{hashlib.new(algorithm, data).hexdigest()}"


class Registry:
    """One registry. `plain_http`: it is asked without TLS, by the user's wish; one on loopback is asked how it speaks.

    `wire` must have been told (`plain_http` of `Http`) that it may; `login` finds the login for (host, repository).
    """

    def __init__(
        self,
        host: str,
        wire: Wire,
        *,
        plain_http: bool = False,
        login: Callable[[str, str], Login | None] = find_login,
    ) -> None:
        self.host = host
        self.wire = wire
        self._login = login
        self._lock = Lock()
        self._base = "http" if plain_http else "" if host.startswith(_LOOPBACK) else "https"

    @property
    def base(self) -> str:
        """The address that all paths stand under, with a slash at its end."""
        with self._lock:
            if not self._base:
                self._base = "http" if self._speaks_plainly() else "https"
        return f"{self._base}://{'registry-1.' if self.host == HUB else ''}{self.host}/v2/"

    def repository(self, name: str, *, push: bool = False, mounts: tuple[str, ...] = ()) -> Repository:
        """Return a repository, to read or to push to; `mounts` are those of this registry that blobs come from."""
        scopes = {f"repository:{name}:{'pull,push' if push else 'pull'}"}
        scopes |= {f"repository:{other}:pull" for other in mounts if other != name}
        auth = Auth(self.wire, self.host, partial(self._login, self.host, name), secure=self.base.startswith("https:"))
        return Repository(self, name, Asker(self.wire, self.host, f"{self.base}{name}/", frozenset(scopes), auth))

    def _speaks_plainly(self) -> bool:
        """Whether one on loopback speaks without TLS; nothing secret is sent to find out."""
        try:
            answer = self.wire.request(
                "GET", f"http://{self.host}/v2/", {}, statuses=ANSWERS, expected="an answer", once=True
            )
        except HttpError as error:
            if error.wait is None and not isinstance(error, StalledError):
                raise  # nobody is there
            return False  # one that speaks TLS hangs up
        return not (answer.status == 400 and b"HTTPS" in answer.body)


class Repository:
    """A repository of a registry."""

    def __init__(self, registry: Registry, name: str, asker: Asker) -> None:
        self.name = name
        self.registry = registry
        self._asker = asker

    def __str__(self) -> str:
        return f"{self.registry.host}/{self.name}"

    # -- reading

    def manifest(self, ref: str) -> Fetched:
        """Return the manifest of a tag or digest. Raises MissingError where there is none."""
        what = f"{self}{'@' if ':' in ref else ':'}{ref}"
        answer = self._asker.ask("GET", f"manifests/{quote(ref)}", what, {"Accept": _ACCEPT}, limit=_MANIFEST_LIMIT)
        stated = answer.headers.get("content-type", "").partition(";")[0].strip()
        told = answer.headers.get("docker-content-digest", "")
        expected = ref if ":" in ref else told or "sha256:"
        try:
            found = hashed(expected, answer.body)
        except ValueError:
            raise self._asker.wrong(what, "a digest of sha256 or sha512", expected) from None
        if expected not in (found, "sha256:"):
            raise self._asker.wrong(what, expected, found)
        try:
            document = parse_manifest(answer.body, stated)
        except Schema1Error:
            raise HttpError(
                f"{what}: expected a manifest of schema 2, found schema 1, which this registry keeps for old engines",
                hint="push the image anew with a current engine, or copy it (skopeo copy --format v2s2)",
            ) from None
        except MalformedError as error:
            raise self._asker.wrong(what, "a manifest", str(error)) from None
        return Fetched(media_type=document.media_type, digest=found, raw=answer.body)

    def digest_at(self, ref: str) -> str:
        """Return the digest that a tag (or digest) has; empty where there is none."""
        what = f"{self}:{ref}"
        answer = self._asker.ask("HEAD", f"manifests/{quote(ref)}", what, {"Accept": _ACCEPT}, statuses=(200, 404))
        if answer.status == 404:
            return ""
        return answer.headers.get("docker-content-digest", "") or self.manifest(ref).digest

    def has(self, descriptor: Descriptor) -> bool:
        """Whether the blob is there, with that size where the registry says one."""
        path = f"blobs/{descriptor.digest}"
        answer = self._asker.ask(
            "HEAD", path, self._blob(descriptor), {"Accept-Encoding": "identity"}, statuses=(200, 404)
        )
        return answer.status == 200 and answer.headers.get("content-length", "") in ("", str(descriptor.size))

    def blob(self, descriptor: Descriptor) -> bytes:
        """Return a small blob, a config, whole and checked."""
        if descriptor.size > BLOB_LIMIT:
            raise self._asker.wrong(self._blob(descriptor), f"at most {BLOB_LIMIT} bytes", f"{descriptor.size}")
        return b"".join(self.chunks(descriptor))

    def chunks(self, descriptor: Descriptor, start: int = 0) -> Iterator[bytes]:
        """Yield a blob as it comes, from `start` on; where it breaks off, the rest is asked for.

        Read to its end from its beginning it is checked: raises WrongContentError then, at the latest.
        """
        at, failures, state = start, 0, hashlib.new(descriptor.digest.partition(":")[0])
        while at < descriptor.size:
            before = at
            try:
                for chunk in self._from(descriptor, at):
                    at += len(chunk)
                    if at > descriptor.size:
                        raise self._asker.wrong(self._blob(descriptor), f"{descriptor.size} bytes", "more")
                    state.update(chunk)
                    yield chunk
                if at < descriptor.size:
                    raise self._asker.wrong(self._blob(descriptor), f"{descriptor.size} bytes", f"{at}")
            except HttpError as error:
                failures = failures + 1 if at == before else 1
                if not worth_another(error) or failures >= ATTEMPTS:
                    raise
                self.registry.wire.pause(failures, error.wait or 0)
        found = f"{descriptor.digest.partition(':')[0]}:{state.hexdigest()}"
        if start == 0 and found != descriptor.digest:
            raise self._asker.wrong(self._blob(descriptor), descriptor.digest, found)

    def part(self, descriptor: Descriptor, start: int, end: int) -> bytes:
        """Return the bytes [start, end) of a blob, which cannot be checked."""
        what = f"{self._blob(descriptor)}, bytes {start}-{end - 1}"
        path, headers = f"blobs/{descriptor.digest}", {"Range": f"bytes={start}-{end - 1}"}
        with self._asker.opened(path, what, headers, (200, 206)) as incoming:
            skip = start if incoming.status == 200 else 0
            if incoming.status == 206 and incoming.range[:2] != (start, end):
                raise self._asker.wrong(what, "this range", incoming.headers["content-range"])
            data = bytearray()
            for chunk in incoming.chunks():
                data += chunk[skip:]
                skip = max(0, skip - len(chunk))
                if len(data) >= end - start:
                    break
        if len(data) < end - start:
            raise self._asker.wrong(what, f"{end - start} bytes", str(len(data)))
        return bytes(data[: end - start])

    def _from(self, descriptor: Descriptor, start: int) -> Iterator[bytes]:
        """Yield the blob from `start` on, in one answer; one that knows no ranges has the rest behind the beginning."""
        what = self._blob(descriptor)
        headers = {"Range": f"bytes={start}-"} if start else {}
        with self._asker.opened(
            f"blobs/{descriptor.digest}", what, headers, (200, 206) if start else (200,)
        ) as incoming:
            skip = start if incoming.status == 200 else 0
            if incoming.status == 206 and incoming.range != (start, descriptor.size, descriptor.size):
                expected = f"bytes {start}-{descriptor.size - 1}/{descriptor.size}"
                raise self._asker.wrong(what, expected, incoming.headers["content-range"])
            for chunk in incoming.chunks():
                if len(chunk) > skip:
                    yield chunk[skip:]
                skip = max(0, skip - len(chunk))

    def referrers(self, digest: str) -> tuple[Index | None, bool]:
        """Return what refers to a manifest, and whether the registry says so itself (else a tag says it, if any)."""
        answer = self._asker.ask(
            "GET", f"referrers/{digest}", f"{self}: referrers of {digest}", statuses=(200, 400, 404, 405)
        )
        if answer.status == 200:
            with suppress(MalformedError):
                found = parse_manifest(answer.body, answer.headers.get("content-type", ""))
                if isinstance(found, Index):
                    return found, True
        try:
            fetched = self.manifest(referrers_tag(digest))
        except MissingError:
            return None, False
        found = parse_manifest(fetched.raw, fetched.media_type)
        return (found if isinstance(found, Index) else None), False

    # -- writing

    def mount(self, descriptor: Descriptor, source: str) -> bool:
        """Have the registry take a blob from another of its repositories; False where it does not (copy it then).

        The session that it opens instead is cancelled.
        """
        path = f"blobs/uploads/?mount={quote(descriptor.digest)}&from={quote(source, safe='')}"
        what = f"{self._blob(descriptor)}: mount from {source}"
        try:
            answer = self._asker.ask("POST", path, what, statuses=(201, 202), body=b"")
        except HttpError as error:
            if error.status is not None and 400 <= error.status < 500:
                return False  # no right to the other repository, or no such thing as mounts
            raise
        if answer.status == 202 and "location" in answer.headers:
            with suppress(HttpError):
                where = self._asker.located(self._asker.url, answer)
                self._asker.ask("DELETE", where, what, statuses=(204, 202, 200, 404), once=True)
        return answer.status == 201

    def upload(self, descriptor: Descriptor, source: Source, progress: Progress | None = None) -> None:
        """Send a blob: `source` gives its bytes from an offset on. What breaks off is gone on with.

        Raises HttpError; then no blob of that digest is there, unless somebody else has put it there.
        """
        upload(self._asker, self._blob(descriptor), descriptor, source, lambda: self.has(descriptor), progress)

    def put_manifest(self, ref: str, raw: bytes, media_type: str) -> bool:
        """Put a manifest at a tag or at its digest, its blobs and children first. Raises HttpError.

        Return whether the registry has taken note of its `subject` (else a tag must: `referrers_tag`).
        """
        what = f"{self}{'@' if ':' in ref else ':'}{ref}"
        answer = self._asker.ask(
            "PUT", f"manifests/{quote(ref)}", what, {"Content-Type": media_type}, statuses=(200, 201, 202), body=raw
        )
        told = answer.headers.get("docker-content-digest", "")
        with suppress(ValueError):
            if told and told != hashed(told, raw):
                raise self._asker.wrong(what, hashed(told, raw), f"{told}, which the registry says that it has stored")
        return bool(answer.headers.get("oci-subject"))

    def _blob(self, descriptor: Descriptor) -> str:
        return f"{self}@{descriptor.digest}"


def referrers_tag(digest: str) -> str:
    """Return the tag that has the referrers of a manifest where the registry does not list them."""
    return digest.replace(":", "-")
