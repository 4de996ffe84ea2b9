"""HTTP for what changes things at the other end, and for bodies that are read as they come: registries need both."""

from __future__ import annotations

import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from patchkit.io.http import Http, Response, content_range

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterator, Mapping

T = TypeVar("T")

_PAGE_LIMIT = 64 << 20
_PAUSES_CAP_SECONDS = 8.0


class Incoming:
    """An answer whose body is still to come: `chunks` yields it as on the wire; a cut is an `HttpError` with `wait`."""

    def __init__(self, wire: Wire, response: Any, url: str) -> None:
        self.status: int = response.status_code
        self.headers = {name.lower(): value for name, value in response.headers.items()}
        self._wire, self._response, self._url = wire, response, url

    @property
    def range(self) -> tuple[int, int, int | None]:
        """The half-open bounds and the total of the range that came (206). Raises `HttpError` where it says none."""
        return self._wire.told(self._url, "206 with a range", lambda: content_range(self._response))

    def chunks(self) -> Iterator[bytes]:
        """Yield the body."""
        body = self._wire.body_of(self._response)
        while chunk := self._wire.told(self._url, "the whole body", lambda: next(body, b"")):
            yield chunk


class Wire(Http):
    """`Http` with every method. `bytes_sent` counts the bytes of bodies that were sent."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.bytes_sent = 0

    def request(
        self,
        method: str,
        url: str,
        headers: Mapping[str, str],
        *,
        statuses: Container[int],
        expected: str,
        body: bytes | None = None,
        once: bool = False,
        limit: int = _PAGE_LIMIT,
    ) -> Response:
        """Return the answer, with a status among `statuses` and a body of at most `limit` bytes.

        With a `body` redirects are answers. It is sent again where an answer breaks off, but for `once`: then the
        caller knows better. Raises `HttpError` for every other status, and where no whole answer comes.
        """
        size = len(body or b"")

        def attempt() -> Response:
            self.bytes_sent += size
            response = self._follow(url, headers, body, method)
            try:
                if response.status_code not in statuses:
                    raise self._refused(response)
                data = b"" if method == "HEAD" else b"".join(self._decoded(response, limit))
            finally:
                response.close()
            names = {name.lower(): value for name, value in response.headers.items()}
            return Response(status=response.status_code, headers=names, body=data, url=response.url)

        return self._trying(url, expected, attempt, 1 if once else self._attempts)

    @contextmanager
    def open(
        self, url: str, headers: Mapping[str, str], *, statuses: Container[int], expected: str
    ) -> Iterator[Incoming]:
        """An answer with a status among `statuses`, its body still to be read; errors like those of `request`."""

        def attempt() -> Any:
            response = self._follow(url, {"Accept-Encoding": "identity", **headers}, None)
            if response.status_code not in statuses:
                response.close()
                raise self._refused(response)
            return response

        response = self._trying(url, expected, attempt, self._attempts)
        try:
            yield Incoming(self, response, url)
        finally:
            response.close()

    def told(self, url: str, expected: str, once: Callable[[], T]) -> T:
        """Return what `once` does with an answer; its failures are told as `HttpError`."""
        return self._trying(url, expected, once, 1)

    def body_of(self, response: Any) -> Iterator[bytes]:
        """Return the body as it comes."""
        return self._body(response)

    def pause(self, attempt: int, wait: float) -> None:
        """Wait before the attempt after number `attempt` (from 1 on), at least `wait` seconds."""
        time.sleep(max(wait, min(self._backoff * 2 ** (attempt - 1), _PAUSES_CAP_SECONDS)))
