"""How a registry is told who asks: Basic, a token from the service that the registry names, or nothing at all."""

from __future__ import annotations

import json
import re
import time
from base64 import b64encode
from contextlib import suppress
from dataclasses import dataclass
from threading import RLock
from typing import TYPE_CHECKING
from urllib.parse import urlencode, urlsplit

from patchkit.io.http import HttpError, redact

if TYPE_CHECKING:
    from collections.abc import Callable

    from patchkit.io.credentials import Login
    from patchkit.io.http import Response
    from patchkit.io.wire import Wire

_CHALLENGE = re.compile(r"(?:^|,)\s*([A-Za-z][\w-]*)\s+(?=[\w-]+\s*=)")
_PARAMETER = re.compile(r'([\w-]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^\s,"]+))')
_TOKEN = re.compile(r"[\x21-\x7e]+")
_DEFAULT_SECONDS, _MARGIN_SECONDS = 60.0, 5.0
_ANSWER_LIMIT = 1 << 20
_STATUSES = frozenset((200, 400, 401, 403, 404, 405))


@dataclass(frozen=True, slots=True, kw_only=True)
class Challenge:
    """One way that a registry offers: its scheme in lower case, and what it says of it."""

    scheme: str
    realm: str = ""
    service: str = ""


def parse_challenges(header: str) -> tuple[Challenge, ...]:
    """Return what a WWW-Authenticate header offers; what is not understood is left out."""
    starts = list(_CHALLENGE.finditer(header))
    found = []
    for number, match in enumerate(starts):
        end = starts[number + 1].start() if number + 1 < len(starts) else len(header)
        said = {
            name.lower(): re.sub(r"\\(.)", r"\1", quoted) if quoted else plain
            for name, quoted, plain in _PARAMETER.findall(header[match.end() : end])
        }
        found.append(Challenge(scheme=match[1].lower(), realm=said.get("realm", ""), service=said.get("service", "")))
    return tuple(found)


class Auth:
    """What one registry wants to be told. `find` looks for a login, once, when the registry asks for one.

    `secure`: the registry is asked over TLS, and then its token service must be, too.
    """

    def __init__(self, wire: Wire, host: str, find: Callable[[], Login | None], *, secure: bool) -> None:
        self._wire, self._host, self._find, self._secure = wire, host, find, secure
        self._lock = RLock()
        self._login: Login | None = None
        self._searched = False
        self._basic = False
        self._tokens: dict[frozenset[str], tuple[str, float]] = {}
        self._bearer: Challenge | None = None

    @property
    def source(self) -> str:
        """Where the login that was used is from; empty: nobody is logged in."""
        return self._login.source if self._login else ""

    def headers(self, scopes: frozenset[str]) -> dict[str, str]:
        """Return the headers for a request that needs `scopes`; none before the registry has asked."""
        with self._lock:
            if self._basic and self._login is not None:
                return {"Authorization": _basic(self._login)}
            if self._bearer is None:
                return {}
            token, until = self._tokens.get(scopes, ("", 0.0))
            if time.monotonic() >= until:
                token = self._fetch(self._bearer, scopes)
            return {"Authorization": f"Bearer {token}"}

    def answer(self, response: Response, scopes: frozenset[str], sent: str) -> bool:
        """Take note of a 401 to a request with the Authorization `sent`; whether another attempt may fare better."""
        offers = {offer.scheme: offer for offer in parse_challenges(response.headers.get("www-authenticate", ""))}
        with self._lock:
            if not self._searched:
                self._login, self._searched = self._find(), True
            bearer = offers.get("bearer")
            if bearer is not None:
                known = self._tokens.get(scopes, ("", 0.0))[0]
                if sent != f"Bearer {known}":
                    self._bearer = bearer
                    return True  # another thread has fetched one, or none was there
                self._tokens.pop(scopes, None)
                self._bearer = bearer
                return True
            if "basic" in offers and self._login is not None and self._login.user and not sent:
                self._basic = True
                return True
        return False

    def _fetch(self, bearer: Challenge, scopes: frozenset[str]) -> str:
        """Return a new token for `scopes` from the service."""
        self._check_realm(bearer.realm)
        login = self._login
        query = [*([("service", bearer.service)] if bearer.service else []), *(("scope", s) for s in sorted(scopes))]
        if login is not None and login.identity_token:
            form = [
                ("grant_type", "refresh_token"),
                ("refresh_token", login.identity_token),
                ("client_id", "patchkit"),
                ("service", bearer.service),
                ("scope", " ".join(sorted(scopes))),
            ]
            headers = {"Content-Type": "application/x-www-form-urlencoded"}
            answer = self._ask("POST", bearer.realm, headers, urlencode(form).encode())
        else:
            mark = "&" if urlsplit(bearer.realm).query else "?"
            headers = {"Authorization": _basic(login)} if login is not None else {}
            answer = self._ask("GET", f"{bearer.realm}{mark}{urlencode(query)}", headers, None)
        token, seconds = self._token_of(answer)
        self._tokens[scopes] = (token, time.monotonic() + max(1.0, seconds - _MARGIN_SECONDS))
        return token

    def _ask(self, method: str, url: str, headers: dict[str, str], body: bytes | None) -> Response:
        answer = self._wire.request(
            method, url, headers, statuses=_STATUSES, expected="a token", body=body, limit=_ANSWER_LIMIT
        )
        if answer.status == 200:
            return answer
        if self._login is None:
            hint = f"log in: docker login {self._host} (or name a file with credentials in REGISTRY_AUTH_FILE)"
        else:
            hint = f"the login from {self._login.source} is refused: docker login {self._host}"
        raise HttpError(
            f"{self._host}: its token service {redact(answer.url)}: expected a token, found {answer.status}",
            hint=hint,
            status=answer.status,
        )

    def _check_realm(self, realm: str) -> None:
        if not self._secure or realm.startswith("https://"):
            return
        raise HttpError(
            f"{self._host}: expected a token service over https, found {redact(realm) or 'none'}",
            hint="a login is not sent there: ask who runs the registry",
        )

    def _token_of(self, answer: Response) -> tuple[str, float]:
        token, seconds = "", _DEFAULT_SECONDS
        with suppress(ValueError, AttributeError, RecursionError):
            document = json.loads(answer.body)
            token = document.get("token") or document.get("access_token") or ""
            given = document.get("expires_in")
            seconds = float(given) if isinstance(given, int | float) and given > 0 else _DEFAULT_SECONDS
        if not isinstance(token, str) or not _TOKEN.fullmatch(token):
            raise HttpError(
                f"{self._host}: its token service {redact(answer.url)}: expected a token, found none in its answer",
                hint="the service answers wrongly: ask who runs the registry",
            )
        return token, seconds


def _basic(login: Login) -> str:
    return "Basic " + b64encode(f"{login.user}:{login.password}".encode()).decode()
