"""What a failed request is, and how to say it: in words that hold no credentials.

The HTTP library itself is imported by `patchkit.io.http` alone.
"""

from __future__ import annotations

import re
import time
from contextlib import suppress
from email.utils import parsedate_to_datetime

from patchkit.core.errors import UnreachableError

RETRIED_STATUSES = (429, 500, 502, 503, 504)
_NETWORK_HINT = "check network, name and proxy (HTTPS_PROXY, NO_PROXY)"
_USER_INFO = re.compile(r"(?<=://)(?:[^/\s:@]*:(?!\d{1,5}(?:[/?#]|$))\S*@|[^/\s@]*@(?:[^/\s@]*@)*)")
_QUERY = re.compile(r"(?<=[?#])[^\s'\")]+")


class HttpError(UnreachableError):
    """A request that failed; `status` is the server's answer, or None where there was none; `found` what was found.

    `wait` is how many seconds later it may go better; None: it will not.
    """

    def __init__(
        self, *problems: str, hint: str = "", status: int | None = None, found: str = "", wait: float | None = None
    ) -> None:
        super().__init__(*problems, hint=hint)
        self.status = status
        self.found = found
        self.wait = wait


class RangesRefusedError(HttpError):
    """The server answers a range request with the whole: files cannot be read out of an archive there."""


class StalledError(HttpError):
    """An answer, or the rest of one, did not come within the time for it."""


class WrongContentError(HttpError):
    """An answer with other bytes than were asked for: what is published there is not what was pinned."""


class Failed(Exception):  # noqa: N818 - one failed attempt, for the retry loop: never leaves io
    """One attempt failed: what was found, and whether another attempt may help."""

    def __init__(
        self,
        found: str,
        *,
        hint: str = "",
        status: int | None = None,
        retry: bool = False,
        wait: float | None = None,
        kind: type[HttpError] = HttpError,
    ) -> None:
        super().__init__(found)
        self.found = found
        self.hint = hint
        self.status = status
        self.retry = retry
        self.wait = wait
        self.kind = kind


def redact(text: str) -> str:
    """Return a URL, or any text with URLs in it, without user names, passwords, query values and fragments."""
    return _QUERY.sub("***", _USER_INFO.sub("***@", text))


def refused(status: int, reason: str, retry_after: str, max_wait: float) -> Failed:
    """Return the failure that an unwanted status is; `retry_after` is that header's value or empty."""
    found = f"{status} {reason}".strip()
    hints = {
        401: "give credentials: in ~/.netrc, or in the address where it is configured",
        403: "the server refuses: check the credentials (in ~/.netrc, or in the address) and their rights",
        404: "check the address: nothing is there",
        410: "check the address: what was there is gone",
    }
    if status not in RETRIED_STATUSES:
        return Failed(found, status=status, hint=hints.get(status, "the server refuses this request"))
    wait = _retry_after(retry_after)
    if wait is not None and wait > max_wait:
        hint = f"the server asks to wait {wait:.0f} s: try again then"
        return Failed(found, status=status, hint=hint)
    return Failed(found, status=status, retry=True, wait=wait, hint="the server is overloaded: try again later")


def _retry_after(value: str) -> float | None:
    if value.isascii() and value.isdigit():
        return float(value)
    with suppress(ValueError, TypeError):
        return max(0.0, parsedate_to_datetime(value).timestamp() - time.time())
    return None


def stalled(seconds: float, found: str = "") -> Failed:
    """Return the failure of a server that sends nothing, or next to nothing, for `seconds`."""
    found = f"a stall: {found or f'no byte for {seconds:g} s'}"
    hint = "check network and proxy, or wait longer: PATCHKIT_TIMEOUT=SECONDS"
    return Failed(found, hint=hint, kind=StalledError)


def truncated(found: str) -> Failed:
    """Return the failure of an answer that ends early: another attempt may help."""
    return Failed(f"a body that ends early: {found}", retry=True, hint="check network and proxy, then try again")


def _causes(error: BaseException) -> list[BaseException]:
    """Return `error` and all that it wraps, outermost first."""
    seen: list[BaseException] = []
    queue: list[object] = [error]
    while queue:
        current = queue.pop(0)
        if isinstance(current, BaseException) and all(current is not other for other in seen):
            seen.append(current)
            queue += [*current.args, getattr(current, "reason", None), current.__cause__, current.__context__]
    return seen


def diagnose(error: BaseException, timeouts: tuple[float, float]) -> Failed:
    """Say what an exception of the library means, in words that hold no address."""
    causes = _causes(error)
    names = {kind.__name__ for cause in causes for kind in type(cause).__mro__}
    last = next(
        (c.strerror for c in reversed(causes) if isinstance(c, OSError) and c.strerror), type(causes[-1]).__name__
    )
    if "SSLError" in names:
        reason = next((getattr(c, "verify_message", "") for c in reversed(causes) if hasattr(c, "verify_message")), "")
        cure = "name the certificate authority's file: PIP_CERT or REQUESTS_CA_BUNDLE, or pip's `cert` for the index"
        return Failed(f"TLS refused: {redact(reason or last)}", hint=cure)
    if "ProxyError" in names:
        return Failed(f"the proxy does not serve: {redact(last)}", hint=_NETWORK_HINT)
    if names & {"NameResolutionError", "gaierror"}:
        return Failed("a host name that cannot be resolved", hint=_NETWORK_HINT)
    if "NewConnectionError" in names:
        return Failed(redact(last), hint=_NETWORK_HINT)
    if "ConnectTimeoutError" in names:
        return Failed(f"no connection within {timeouts[0]:g} s", hint=_NETWORK_HINT)
    if names & {"ReadTimeout", "ReadTimeoutError", "TimeoutError"}:
        return stalled(timeouts[1])
    if "IncompleteRead" in names:
        return truncated("the connection was closed")
    if names & {"ConnectionResetError", "ConnectionAbortedError", "BrokenPipeError", "RemoteDisconnected"}:
        return Failed("the connection was reset", retry=True, hint=_NETWORK_HINT)
    return Failed(f"{redact(last)}", hint=_NETWORK_HINT)


def given_up(url: str, expected: str, failure: Failed, attempts: int) -> HttpError:
    """Return the error that the user sees."""
    tries = f" ({attempts} attempts)" if attempts > 1 else ""
    found = f"{failure.found}{tries}"
    message = f"{redact(url)}: expected {expected}, found {found}"
    wait = (failure.wait or 0.0) if failure.retry else None
    return failure.kind(message, hint=failure.hint, status=failure.status, found=found, wait=wait)
