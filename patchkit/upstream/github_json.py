"""GitHub's JSON, read with suspicion: one kind of error for whatever is not what it should be.

Also GitHub's REST answers: a pull request, a compare, a commit (docs.github.com/rest; api version 2022-11-28).
"""

from __future__ import annotations

import json
import re
from contextlib import suppress
from datetime import datetime
from typing import Any

from patchkit.upstream.facts import Commit, Pull, Ref
from patchkit.upstream.forge import COMPARE_STATES, iso

_SHA = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_TIME = re.compile(r"([0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2})(?:\.[0-9]+)?(Z|[+-][0-9]{2}:[0-9]{2})")
_LONG = 200


class MalformedError(Exception):
    """Something else than was expected: what was, and what was found (in short)."""

    def __init__(self, expected: str, found: Any) -> None:
        super().__init__(f"expected {expected}, found {tidy(repr(found), 60)}")


def decode(body: bytes) -> Any:
    """Return the JSON that `body` holds; raise `MalformedError` for HTML, JSON that ends early and the rest."""
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        start = body.lstrip()[:40].decode("utf-8", "replace")
        if start.startswith("<"):
            raise MalformedError("JSON", f"a web page: {start}") from None
        raise MalformedError("JSON", f"{len(body)} bytes that are none: {start}") from None


def tidy(text: Any, limit: int = _LONG) -> str:
    """Return text of others on one line, without control characters, cut at `limit` characters."""
    line = " ".join("".join(c if c.isprintable() else " " for c in text).split()) if isinstance(text, str) else ""
    return line if len(line) <= limit else line[: limit - 1] + "…"


def text_of(node: dict[str, Any], name: str) -> str:
    """Return a field that is text, "" where it is null; half a character (a lone surrogate) becomes `?`."""
    value = node.get(name)
    if value is None and name in node:
        return ""
    if not isinstance(value, str):
        raise MalformedError(f"text as {name}", value)
    return value.encode("utf-8", "replace").decode()


def flag(node: dict[str, Any], name: str) -> bool:
    """Return a field that is true or false; false where it is left out, as by older servers."""
    value = node.get(name, False)
    if not isinstance(value, bool):
        raise MalformedError(f"true or false as {name}", value)
    return value


def sha_of(node: dict[str, Any], name: str) -> str:
    """Return a field that is a full commit SHA."""
    value = node.get(name)
    if not isinstance(value, str) or not _SHA.fullmatch(value):
        raise MalformedError(f"a full SHA as {name}", value)
    return value


def time_of(node: dict[str, Any], name: str) -> str | None:
    """Return a field that is a time with a zone, in UTC (`2026-08-12T09:44:00Z`), or None where it is null."""
    value = node.get(name)
    if value is None:
        return None
    match = _TIME.fullmatch(value) if isinstance(value, str) else None
    if match is not None:
        with suppress(ValueError, OverflowError):  # month 13; a time before year 1
            return iso(datetime.fromisoformat(match[1] + match[2].replace("Z", "+00:00")))
    raise MalformedError(f"a time as {name}", value)


def part_of(node: Any, name: str) -> dict[str, Any]:
    """Return a field that is an object."""
    value = node.get(name) if isinstance(node, dict) else None
    if not isinstance(value, dict):
        raise MalformedError(f"an object as {name}", value)
    return value


def rest_pull(answer: Any, ref: Ref, as_of: str) -> Pull:
    """Return the pull request in the answer of `GET /repos/O/R/pulls/N`; raises `MalformedError`.

    `merge_commit_sha` counts only with `merged_at`: before, it is a test merge. REST tells no mentions.
    """
    if not isinstance(answer, dict) or answer.get("number") != ref.number:
        raise MalformedError(f"pull request {ref.number}", answer)
    state, merged_at = text_of(answer, "state"), time_of(answer, "merged_at")
    if state not in ("open", "closed"):
        raise MalformedError("state open or closed", state)
    return Pull(
        ref=ref,
        title=tidy(text_of(answer, "title")),
        state="merged" if merged_at else state,
        draft=flag(answer, "draft"),
        base=text_of(part_of(answer, "base"), "ref"),
        head=sha_of(part_of(answer, "head"), "sha"),
        merge_commit=sha_of(answer, "merge_commit_sha") if merged_at and answer.get("merge_commit_sha") else None,
        created_at=time_of(answer, "created_at") or "",
        updated_at=time_of(answer, "updated_at") or "",
        closed_at=time_of(answer, "closed_at"),
        merged_at=merged_at,
        default_branch=_default_branch(answer),
        as_of=as_of,
    )


def _default_branch(answer: dict[str, Any]) -> str | None:
    """Return the default branch of the repository that a pull request goes to; none where that is gone (or of 2012)."""
    repository = part_of(answer, "base").get("repo")
    if not isinstance(repository, dict) or "default_branch" not in repository:
        return None
    return text_of(repository, "default_branch")


def rest_compare(answer: Any) -> str:
    """Return the status in the answer of `GET /repos/O/R/compare/A...B`; raises `MalformedError`."""
    status = answer.get("status") if isinstance(answer, dict) else None
    if status not in COMPARE_STATES:
        raise MalformedError(f"a status ({', '.join(COMPARE_STATES)})", status)
    return str(status)


def rest_commit(answer: Any) -> Commit:
    """Return the commit in the answer of `GET /repos/O/R/commits/SHA`; raises `MalformedError`."""
    inner = part_of(answer, "commit")
    subject, _, body = text_of(inner, "message").partition("\n")
    time = time_of(part_of(inner, "committer"), "date") or ""
    return Commit(sha=sha_of(answer, "sha"), time=time, subject=subject, body=body.lstrip("\n"))
