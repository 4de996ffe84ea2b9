"""Asking a registry: who asks, where an answer leads, and what a refusal means."""

from __future__ import annotations

import json
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any
from urllib.parse import urljoin, urlsplit, urlunsplit

from patchkit.io.http import HttpError, Response, StalledError, WrongContentError

if TYPE_CHECKING:
    from collections.abc import Container, Iterator

    from patchkit.io.wire import Incoming, Wire
    from patchkit.oci.auth import Auth

ATTEMPTS = 5
BLOB_LIMIT = 64 << 20
_ERROR_LIMIT, _WORDS_LIMIT = 1 << 16, 200
_MAX_HOPS, _MAX_TRIES = 3, 3
#: What is an answer; the rest (429, 5xx) the wire tries again.
ANSWERS = frozenset(range(200, 500)) - {408, 429}


class MissingError(HttpError):
    """The registry answers, and says that it has no such tag, digest, blob or repository."""


def worth_another(error: HttpError) -> bool:
    """Whether another attempt may fare better: a cut, a stall, an overload."""
    return error.wait is not None or isinstance(error, StalledError)


class Asker:
    """Asks for things of one repository, at addresses below `url`, with the rights in `scopes`.

    The login goes to the registry itself and to nobody else, wherever its answers lead.
    """

    def __init__(self, wire: Wire, host: str, url: str, scopes: frozenset[str], auth: Auth) -> None:
        self.wire, self.host, self.url, self.scopes = wire, host, url, scopes
        self._auth = auth

    def ask(
        self,
        method: str,
        path: str,
        what: str,
        headers: dict[str, str] | None = None,
        *,
        statuses: Container[int] = (200,),
        body: bytes | None = None,
        once: bool = False,
        limit: int = BLOB_LIMIT,
    ) -> Response:
        """Return the answer to a request for `what`, which is at a path of the repository, or at an address of its own.

        Authenticates itself where the registry asks for it. Raises HttpError for a status not among `statuses`.
        """
        url, tries, hops = urljoin(self.url, path), 0, 0
        while True:
            who = self._who(url)
            sent = {**(headers or {}), **who}
            expected = "a registry's answer"
            answer = self.wire.request(
                method, url, sent, statuses=ANSWERS, expected=expected, body=body, once=once, limit=limit
            )
            if answer.status in (307, 308) and hops < _MAX_HOPS and "location" in answer.headers:
                url, hops = self.located(url, answer), hops + 1
                continue
            tries += 1
            if answer.status == 401 and tries < _MAX_TRIES and self._learns(answer, who):
                continue
            if answer.status not in statuses:
                raise self.refused(what, answer)
            return answer

    @contextmanager
    def opened(self, path: str, what: str, headers: dict[str, str], statuses: Container[int]) -> Iterator[Incoming]:
        """An answer whose body is still to come; else like `ask`."""
        url, tries = urljoin(self.url, path), 0
        while True:
            tries += 1
            who = self._who(url)
            with self.wire.open(url, {**headers, **who}, statuses=ANSWERS, expected="a blob") as incoming:
                if incoming.status in statuses:
                    yield incoming
                    return
                body = b""
                for chunk in incoming.chunks():
                    body += chunk
                    if len(body) > _ERROR_LIMIT:
                        break
                answer = Response(status=incoming.status, headers=incoming.headers, body=body, url=url)
            if answer.status != 401 or tries >= _MAX_TRIES or not self._learns(answer, who):
                raise self.refused(what, answer)

    def _who(self, url: str) -> dict[str, str]:
        ours, theirs = urlsplit(self.url), urlsplit(url)
        same = (ours.scheme, ours.netloc) == (theirs.scheme, theirs.netloc)
        return self._auth.headers(self.scopes) if same else {}

    def _learns(self, answer: Response, who: dict[str, str]) -> bool:
        return self._auth.answer(answer, self.scopes, who.get("Authorization", ""))

    def located(self, url: str, answer: Response) -> str:
        """Return the address that an answer from `url` leads to.

        A registry behind a proxy that ends TLS may call itself http: it is asked as before.
        """
        found = urlsplit(urljoin(url, answer.headers["location"]))
        ours = urlsplit(self.url)
        if found.hostname == ours.hostname and found.scheme == "http" and ours.scheme == "https":
            found = found._replace(scheme=ours.scheme, netloc=ours.netloc)
        return urlunsplit(found)

    def wrong(self, what: str, expected: str, found: str) -> WrongContentError:
        """Return the error of an answer that cannot be right."""
        hint = "the registry, or a proxy before it, answers wrongly: try again, else ask who runs it"
        return WrongContentError(f"{what}: expected {expected}, found {found}", hint=hint)

    def refused(self, what: str, answer: Response) -> HttpError:
        """Return the error of a status that was not wanted, with the registry's own words."""
        codes, words = _errors(answer.body)
        found = " ".join(part for part in (str(answer.status), ", ".join(codes), f"({words})" if words else "") if part)
        message = f"{what}: expected {{}}, found {found}"
        if answer.status == 401:
            return HttpError(message.format("to be let in"), hint=self._login_hint(), status=401)
        if answer.status == 403:
            hint = f"{self._auth.source or 'nobody'} has no right to this: ask who runs {self.host}"
            if not self._auth.source:
                hint = f"log in: docker login {self.host}"
            return HttpError(message.format("to be allowed"), hint=hint, status=403)
        if answer.status == 404:
            speaks = bool(codes) or not answer.body or "docker-distribution-api-version" in answer.headers
            hint = _MISSING.get(
                codes[0] if codes else "", "check the name and the tag: the registry answers, it has none"
            )
            hint = hint if speaks else f"this is no registry's answer: check the address {self.host}"
            return MissingError(message.format("that it is there"), hint=hint, status=404)
        hint = "the registry refuses this request" + (f": {words}" if words else "")
        return HttpError(message.format("success"), hint=hint, status=answer.status)

    def _login_hint(self) -> str:
        if self._auth.source:
            return f"the login from {self._auth.source} is refused, or has no right to this: docker login {self.host}"
        return f"log in: docker login {self.host} (or name a file with credentials in REGISTRY_AUTH_FILE)"


_MISSING = {
    "MANIFEST_UNKNOWN": "the registry answers, the tag is gone: pick another, or one by its digest",
    "NAME_UNKNOWN": "the registry answers, it has no such repository: check its name",
    "BLOB_UNKNOWN": "the registry answers, it has lost this blob: push the image anew",
}


def _errors(body: bytes) -> tuple[tuple[str, ...], str]:
    """Return the codes in a registry's error, and its words; empty where it has none."""
    codes: list[str] = []
    words: list[str] = []
    with suppress(ValueError, AttributeError, TypeError, RecursionError):
        entries: list[Any] = json.loads(body)["errors"]
        for entry in entries:
            codes.append(str(entry.get("code", ""))[:_WORDS_LIMIT])
            words.append(str(entry.get("message", "")))
    text = "".join(char if char.isprintable() else " " for char in "; ".join(filter(None, words)))
    return tuple(filter(None, codes)), text[:_WORDS_LIMIT].strip()
