"""What GitHub's statuses and headers mean: limits, refusals, overload. Nothing is sent here.

Source: docs.github.com, "Rate limits for the REST API" and "… for the GraphQL API": a limit comes as 403 or
429; Retry-After tells seconds; x-ratelimit-reset (epoch seconds) counts where x-ratelimit-remaining is
0; a secondary limit that tells neither wants a minute.
"""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from enum import Enum
from typing import TYPE_CHECKING

from patchkit.upstream.github_json import tidy

if TYPE_CHECKING:
    from collections.abc import Mapping

#: Answers that say something: found, not changed, not found, gone, not acceptable (too large), no such commit.
ANSWERS = (200, 304, 404, 406, 410, 422)
_SECONDARY_SECONDS = 60.0


class Kind(str, Enum):
    """What a refusal means."""

    AUTH = "the token is refused"
    LIMIT = "limit"
    BUSY = "overload"
    FORBIDDEN = "forbidden"
    OTHER = "refused"


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """A refusal: `message` says status and reason, `wait` the seconds until it may end, `until` that as epoch seconds."""

    kind: Kind
    message: str
    wait: float | None = None
    until: float | None = None
    sso: bool = False


def judge(status: int, headers: Mapping[str, str], body: bytes, clock: float) -> Refusal | None:
    """Return the refusal that an answer is, None where it is none; `headers` in lower case, `clock` in epoch seconds."""
    if status in ANSWERS:
        return None
    said = _said(body)
    message = f"{status} {said}".strip()
    if status == 401:
        return Refusal(kind=Kind.AUTH, message=message)
    now = _server_time(headers, clock)
    wait = _retry_after(headers, now)
    if status in (403, 429):
        if wait is None and headers.get("x-ratelimit-remaining") == "0":
            wait = reset_wait(headers, now)
        if wait is None and (status == 429 or "secondary rate limit" in said.lower() or "abuse" in said.lower()):
            wait = _SECONDARY_SECONDS
        if wait is not None:
            return Refusal(kind=Kind.LIMIT, message=message, wait=wait, until=now + wait)
        return Refusal(kind=Kind.FORBIDDEN, message=message, sso=headers.get("x-github-sso", "").startswith("required"))
    if status >= 500:
        return Refusal(kind=Kind.BUSY, message=message, wait=wait, until=None if wait is None else now + wait)
    return Refusal(kind=Kind.OTHER, message=message)


def reset_wait(headers: Mapping[str, str], clock: float) -> float | None:
    """Return the seconds until the limit that the headers tell is reset, None where they do not tell."""
    value = headers.get("x-ratelimit-reset", "")
    if not (value.isascii() and value.isdigit()) or len(value) > 11:
        return None
    return max(0.0, float(value) - _server_time(headers, clock))


def _server_time(headers: Mapping[str, str], clock: float) -> float:
    """Return the time by the server's clock, which is the one that a reset is told in."""
    with suppress(ValueError, TypeError):
        return parsedate_to_datetime(headers.get("date", "")).timestamp()
    return clock


def _retry_after(headers: Mapping[str, str], now: float) -> float | None:
    value = headers.get("retry-after", "").strip()
    if value.isascii() and value.isdigit() and len(value) <= 9:
        return float(value)
    with suppress(ValueError, TypeError):
        return max(0.0, parsedate_to_datetime(value).timestamp() - now)
    return None


def _said(body: bytes) -> str:
    """Return the message in the body of a refusal, as far as it has one that a line can hold."""
    with suppress(ValueError, RecursionError):
        answer = json.loads(body)
        if isinstance(answer, dict):
            return tidy(answer.get("message"))
    text = tidy(body[:200].decode("utf-8", "replace"), 60)
    return "(a web page)" if text.startswith("<") else text
