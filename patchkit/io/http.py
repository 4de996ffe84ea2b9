"""HTTP: the only module that imports the HTTP library.

One session, verified TLS, bounded waits. Whatever goes wrong is an `UnreachableError` that names
the address (without its credentials), what was expected and what was found.
"""

from __future__ import annotations

import ipaddress
import os
import re
import time
import zlib
from base64 import b64encode
from collections.abc import Callable, Container, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, BinaryIO, TypeVar
from urllib.parse import unquote, urljoin, urlsplit, urlunsplit

import requests
import urllib3
from requests.utils import get_environ_proxies, get_netrc_auth

from patchkit.core.errors import ConfigError, RefusedByMachineError
from patchkit.io.http_failures import (
    Failed,
    HttpError,
    RangesRefusedError,
    StalledError,
    WrongContentError,
    diagnose,
    given_up,
    redact,
    refused,
    stalled,
    truncated,
)
from patchkit.io.partial import Partial, Transfer

__all__ = [
    "Http",
    "HttpError",
    "Progress",
    "RangesRefusedError",
    "Response",
    "StalledError",
    "WrongContentError",
    "redact",
    "without_credentials",
]

T = TypeVar("T")
Progress = Callable[[int, "int | None"], None]

_CHUNK = 1 << 16
_REDIRECTS = (301, 302, 303, 307, 308)
_MAX_REDIRECTS = 10
_RETRY_PAUSES_CAP_SECONDS = 8.0
_DRIP_BYTES = 1024
_SCRAP_LIMIT = 1 << 16
_PAGE_LIMIT = 64 << 20
_SECRET_HEADERS = {"authorization", "cookie", "proxy-authorization", "private-token", "job-token", "x-api-key"}
_CA_VARIABLES = ("PIP_CERT", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "SSL_CERT_FILE")
_CONTENT_RANGE = re.compile(r"bytes (\d+)-(\d+)/(\d+|\*)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Response:
    """An answer: `headers` with lower-case names, `body` decoded, `url` the final address without credentials."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    url: str


@dataclass(frozen=True, slots=True)
class _Address:
    url: str
    origin: tuple[str, str, int | None]
    authorization: str | None

    @property
    def shown(self) -> str:
        return redact(self.url)


def without_credentials(url: str) -> str:
    """Return `url` without its user name and password; raise `HttpError` for one that cannot be parsed."""
    failure: Failed
    try:
        return _address(url).url
    except Failed as failed:
        failure = failed
    raise given_up(url, "an address", failure, 1)


def _address(url: str) -> _Address:
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise Failed("an address that cannot be parsed", hint="correct the address") from None
    host = (parts.hostname or "").lower()
    authorization = None
    if parts.username is not None:
        pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        authorization = "Basic " + b64encode(pair.encode()).decode()
    plain = urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, parts.query, ""))
    return _Address(plain, (parts.scheme, host, port or {"https": 443, "http": 80}.get(parts.scheme)), authorization)


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    with suppress(ValueError):
        return ipaddress.ip_address(host).is_loopback
    return False


def _check_scheme(address: _Address, came_from: _Address | None, plain: Container[str]) -> None:
    scheme, host, port = address.origin
    if (scheme == "https" and host) or (scheme == "http" and f"{host}:{port}" in plain):
        return
    if scheme == "http" and _is_loopback(host) and (came_from is None or came_from.origin[0] == "http"):
        return
    if came_from is None:
        raise Failed("an address that is not https", hint="use an https:// address (plain http is for loopback only)")
    raise Failed(
        f"a redirect to {address.shown}, which is not https", hint="the server must redirect to an https:// address"
    )


class _Session(requests.Session):
    """A session that leaves redirects alone: the library would read their bodies and parse their targets."""

    def get_redirect_target(self, resp: requests.Response) -> str | None:  # noqa: ARG002 - the library's signature
        return None


class Http:
    """A session over verified TLS: connections are reused, waits are bounded, credentials stay with their host.

    `ca_bundle` is a file with the accepted certificate authorities (else PIP_CERT,
    REQUESTS_CA_BUNDLE, CURL_CA_BUNDLE, SSL_CERT_FILE, else the library's). Timeouts and pauses are in seconds: a
    connection, each wait for bytes, the first pause before a retry, and the longest pause that
    a server's Retry-After may ask for. `plain_http` has the hosts ("HOST:PORT") that may be asked without TLS; without
    `netrc` that file is left unread. `bytes_received` counts body bytes as on the wire.
    """

    def __init__(
        self,
        *,
        ca_bundle: str | None = None,
        connect_timeout: float = 10.0,
        read_timeout: float = 30.0,
        attempts: int = 4,
        backoff: float = 0.5,
        max_wait: float = 30.0,
        plain_http: Container[str] = (),
        netrc: bool = True,
    ) -> None:
        self.bytes_received = 0
        self._plain_http = plain_http
        self._netrc = netrc
        self._timeouts = (connect_timeout, read_timeout)
        self._attempts = attempts
        self._backoff = backoff
        self._max_wait = max_wait
        bundles = [ca_bundle, *(os.environ.get(name) for name in _CA_VARIABLES)]
        self._verify: str | bool = next((bundle for bundle in bundles if bundle), True)
        if isinstance(self._verify, str) and not os.path.exists(self._verify):
            raise ConfigError(
                f"{self._verify}: expected a file with certificate authorities, found nothing",
                hint=f"correct the variable that names it ({', '.join(_CA_VARIABLES)}), or pip's `cert` for the index",
            )
        self._credentials: dict[tuple[str, str, int | None], str] = {}
        self._session = _Session()
        self._session.trust_env = False
        self._session.headers["User-Agent"] = "patchkit"

    def __enter__(self) -> Http:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the session's connections."""
        self._session.close()

    def learn_credentials(self, url: str) -> None:
        """Use the user name and password in `url`, if it has any, for all later requests to its host and port."""
        with suppress(Failed):
            address = _address(url)
            if address.authorization:
                self._credentials[address.origin] = address.authorization

    def get(
        self,
        url: str,
        headers: Mapping[str, str] | None = None,
        *,
        statuses: Container[int] = (404, 410),
        limit: int = _PAGE_LIMIT,
        body: bytes | None = None,
    ) -> Response:
        """Return the answer to a GET: status 200, or one of `statuses`, with a body of at most `limit` bytes.

        With a `body` it is a POST, for interfaces that ask that way: it is sent as it is, to that very address
        (redirects are answers then), and again where an answer breaks off, so it must not change anything there.
        Raises `HttpError` for every other status, and where no whole answer comes.
        """

        def consume(response: requests.Response) -> Response:
            if response.status_code != 200 and response.status_code not in statuses:
                raise self._refused(response)
            data = b"".join(self._decoded(response, limit))
            names = {name.lower(): value for name, value in response.headers.items()}
            return Response(status=response.status_code, headers=names, body=data, url=response.url)

        sent = {"Accept-Encoding": "gzip", **(headers or {})}
        return self._exchange(url, sent, "200", consume, body)

    def get_range(self, url: str, start: int, end: int, *, total: int | None = None) -> bytes:
        """Return the bytes [start, end) of `url`, which is `total` bytes long (None: not checked).

        Raises `RangesRefusedError` where the server answers with the whole, else `HttpError`.
        """
        expected = f"206 with bytes {start}-{end - 1} of {'any size' if total is None else total}"

        def fits(first: int, last: int, size: int | None) -> bool:
            return (first, last) == (start, end) and (total is None or size == total)

        return self._ranged(url, f"{start}-{end - 1}", expected, fits)[0]

    def get_tail(self, url: str, length: int) -> tuple[bytes, int]:
        """Return the last `length` bytes of `url` (all of it, if it is shorter) and its size in bytes.

        Raises `RangesRefusedError` where the server answers with the whole, else `HttpError`.
        """

        def fits(first: int, last: int, size: int | None) -> bool:
            return last == size and last - first == min(length, size)

        data, first = self._ranged(url, f"-{length}", f"206 with the last {length} bytes", fits)
        return data, first + len(data)

    def stream_to(
        self,
        url: str,
        destination: str | BinaryIO,
        *,
        sha256: str,
        size: int | None = None,
        progress: Progress | None = None,
        partial: str | None = None,
    ) -> int:
        """Write the body of `url` to a path (atomically) or a seekable binary file; return its size in bytes.

        A transfer that breaks off goes on where it ended, if the server says that it can: in this call, and
        where `partial` names a file to keep its bytes in meanwhile, in a later one. `progress`
        is called with the bytes so far and the expected total (None: unknown). Raises
        `WrongContentError` if the bytes are not those of `sha256` (hex), or not `size` of them;
        nothing partial is left at a path.
        """
        if not isinstance(destination, str):
            return self._stream(url, destination, sha256, size, progress)
        try:
            with Partial(partial or destination, keep=partial is not None) as part:
                received = self._stream(url, part.handle, sha256, size, progress, part)
                part.take(destination)
        except OSError as error:
            raise RefusedByMachineError(
                f"{destination}: cannot be written: {error.strerror}", hint="free space, or choose another directory"
            ) from error
        return received

    def _stream(
        self,
        url: str,
        handle: BinaryIO,
        sha256: str,
        size: int | None,
        progress: Progress | None,
        part: Partial | None = None,
    ) -> int:
        transfer = Transfer(handle, part, size)
        if transfer.is_earlier and transfer.sha256 == sha256.lower():
            return transfer.received

        def consume(response: requests.Response) -> int:
            self._require_rest(response, transfer)
            length = _content_length(response)
            total = None if length is None else transfer.received + length
            if size is not None and total not in (None, size):
                raise transfer.differs(f"{total} bytes")
            transfer.answered(response.status_code, response.headers)
            try:
                for chunk in self._body(response, limit=None if size is None else size - transfer.received):
                    transfer.write(chunk)
                    if progress is not None:
                        progress(transfer.received, total)
            finally:
                transfer.ended()
            if transfer.sha256 != sha256.lower():
                raise transfer.differs(f"sha256 {transfer.sha256} ({transfer.received} bytes)")
            return transfer.received

        expected = f"sha256 {sha256.lower()}" + ("" if size is None else f" ({size} bytes)")
        return self._exchange(url, transfer.headers, expected, consume)

    def _require_rest(self, response: requests.Response, transfer: Transfer) -> None:
        """Raise `Failed` unless the answer is what the transfer lacks, or the whole, from which it starts anew."""
        if response.status_code == 416 and transfer.is_earlier:
            raise transfer.differs("416 for the rest of the file")
        if response.status_code not in ((200, 206) if "Range" in transfer.headers else (200,)):
            raise self._refused(response)
        if response.status_code == 200 or content_range(response)[0] != transfer.received:
            transfer.start_anew()
            if response.status_code == 206:
                raise Failed("another range than was asked for", status=206, retry=True)

    def _ranged(
        self, url: str, wanted: str, expected: str, fits: Callable[[int, int, int | None], bool]
    ) -> tuple[bytes, int]:
        """Return the bytes of the range `wanted` and where they start; `fits` judges the Content-Range."""

        def consume(response: requests.Response) -> tuple[bytes, int]:
            if response.status_code == 200:
                raise Failed(
                    "200 with the whole (no ranges)",
                    kind=RangesRefusedError,
                    status=200,
                    hint="this server cannot serve parts of a file: use an index that can",
                )
            if response.status_code != 206:
                raise self._refused(response)
            first, end, size = content_range(response)
            if not fits(first, end, size):
                found = f"Content-Range: {response.headers['Content-Range']}"
                raise Failed(found, status=206, hint="the server answers wrongly")
            body = b"".join(self._body(response, limit=end - first))
            if len(body) != end - first:
                raise Failed(f"{len(body)} bytes for a range of {end - first}", status=206, retry=True)
            return body, first

        return self._exchange(url, {"Accept-Encoding": "identity", "Range": f"bytes={wanted}"}, expected, consume)

    def _exchange(
        self,
        url: str,
        headers: Mapping[str, str],
        expected: str,
        consume: Callable[[requests.Response], T],
        body: bytes | None = None,
    ) -> T:
        """Send, follow, consume; try again where that may help; end in an answer or in `HttpError`."""

        def once() -> T:
            response = self._follow(url, headers, body)
            try:
                return consume(response)
            finally:
                response.close()

        return self._trying(url, expected, once, self._attempts)

    def _trying(self, url: str, expected: str, once: Callable[[], T], attempts: int) -> T:
        """Return what `once` does; try again, `attempts` times in all, where that may help."""
        attempt = 0
        while True:
            attempt += 1
            failure: Failed
            try:
                return once()
            except Failed as failed:
                failure = failed
            except (requests.RequestException, urllib3.exceptions.HTTPError, ConnectionError, TimeoutError) as error:
                failure = diagnose(error, self._timeouts)
            if not failure.retry or attempt >= attempts:
                break
            pause = min(self._backoff * 2 ** (attempt - 1), _RETRY_PAUSES_CAP_SECONDS)
            time.sleep(pause if failure.wait is None else failure.wait)
        raise given_up(url, expected, failure, attempt)

    def _refused(self, response: requests.Response) -> Failed:
        retry_after = response.headers.get("Retry-After", "").strip()
        return refused(response.status_code, response.reason or "", retry_after, self._max_wait)

    def _follow(self, url: str, headers: Mapping[str, str], body: bytes | None, method: str = "") -> requests.Response:
        address, came_from = _address(url), None
        sent = dict(headers)
        for _ in range(_MAX_REDIRECTS):
            _check_scheme(address, came_from, self._plain_http)
            response = self._send(address, sent, body, method)
            location = response.headers.get("Location")
            if response.status_code not in _REDIRECTS or not location or body is not None:
                return response
            self._discard(response)
            came_from, address = address, _address(urljoin(address.url, location))
            if address.origin != came_from.origin:
                sent = {name: value for name, value in sent.items() if name.lower() not in _SECRET_HEADERS}
        raise Failed(f"more than {_MAX_REDIRECTS} redirects", hint="the server redirects in a circle")

    def _send(self, address: _Address, headers: dict[str, str], body: bytes | None, method: str) -> requests.Response:
        if address.authorization:
            self._credentials[address.origin] = address.authorization
        if "authorization" not in {name.lower() for name in headers}:
            known = self._credentials.get(address.origin) or (_from_netrc(address) if self._netrc else None)
            headers = {**headers, "Authorization": known} if known else headers
        loopback = _is_loopback(address.origin[1])
        proxies = {} if loopback else get_environ_proxies(address.url)
        return self._session.request(
            method or ("GET" if body is None else "POST"),
            address.url,
            headers=headers,
            data=body,
            timeout=self._timeouts,
            allow_redirects=False,
            stream=True,
            verify=self._verify,
            proxies=proxies,
        )

    def _discard(self, response: requests.Response) -> None:
        """Read a short body that nobody wants, so that the connection can serve again."""
        length = _content_length(response)
        try:
            if length is not None and length <= _SCRAP_LIMIT:
                for _ in self._body(response):
                    pass
        finally:
            response.close()

    def _body(self, response: requests.Response, limit: int | None = None) -> Iterator[bytes]:
        """Yield the body as on the wire; a server that stalls or drips, and a short body, are failures."""
        length, received = _content_length(response), 0
        raw: Any = response.raw
        since, within = time.monotonic(), 0
        while chunk := raw.read1(_CHUNK, decode_content=False):
            size = len(chunk)
            received += size
            self.bytes_received += size
            if limit is not None and received > limit:
                raise Failed(f"more than {limit} bytes", status=response.status_code, hint="the answer is too long")
            within += size
            if time.monotonic() - since > self._timeouts[1]:
                if within < _DRIP_BYTES:
                    raise stalled(self._timeouts[1], f"{within} bytes in {self._timeouts[1]:g} s")
                since, within = time.monotonic(), 0
            yield chunk
        if length is not None and received != length:
            raise truncated(f"{received} of {length} bytes")

    def _decoded(self, response: requests.Response, limit: int) -> Iterator[bytes]:
        encoding = response.headers.get("Content-Encoding", "identity").lower()
        if encoding in ("identity", ""):
            yield from self._body(response, limit)
            return
        if encoding not in ("gzip", "x-gzip"):
            raise Failed(f"Content-Encoding: {encoding}, which was not asked for", hint="the server answers wrongly")
        decoder, room = zlib.decompressobj(31), limit
        for chunk in self._body(response, limit):
            try:
                data = decoder.decompress(chunk, room + 1)
            except zlib.error:
                raise Failed("a body that is not gzip, though it says so", hint="the server answers wrongly") from None
            room -= len(data)
            if room < 0:
                raise Failed(f"more than {limit} bytes", hint="the answer is too long")
            yield data
        if not decoder.eof:
            raise truncated("a gzip body that ends early")


def _from_netrc(address: _Address) -> str | None:
    pair = get_netrc_auth(address.url)
    if pair is None:
        return None
    return "Basic " + b64encode(":".join(pair).encode()).decode()


def _content_length(response: requests.Response) -> int | None:
    value = response.headers.get("Content-Length", "")
    return int(value) if value.isascii() and value.isdigit() else None


def content_range(response: requests.Response) -> tuple[int, int, int | None]:
    """Return the half-open bounds and the total of a 206 answer."""
    value = response.headers.get("Content-Range", "none")
    match = _CONTENT_RANGE.fullmatch(value.strip())
    if match is None or int(match[2]) < int(match[1]):
        raise Failed(f"Content-Range: {value}", status=206, hint="the server answers wrongly")
    return int(match[1]), int(match[2]) + 1, None if match[3] == "*" else int(match[3])
