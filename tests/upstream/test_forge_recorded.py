"""GitHub's own answers, as PyGithub recorded them (its sdist, tests/ReplayData), read by this client."""

from __future__ import annotations

import json
import re
import threading
from datetime import datetime, timezone
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING

import pytest

from patchkit.upstream.facts import Pull, Ref
from patchkit.upstream.github import GitHub
from patchkit.upstream.github_json import decode, rest_commit, rest_compare, rest_pull
from patchkit.upstream.github_limits import Kind, judge
from patchkit.upstream.store import Store

from .forge_material import Record, recordings, records

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.index

NOW = datetime(2026, 8, 14, 6, 0, tzinfo=timezone.utc)
AS_OF = "2026-08-14T06:00:00Z"
PULL = re.compile(r"(?:/api/v3)?/repos/([^/]+/[^/]+)/pulls/(\d+)")


@pytest.fixture(scope="session")
def recorded() -> list[Record]:
    return list(records(recordings()))


def host_of(record: Record) -> str:
    """The host of a reference: one recording is of an Enterprise server."""
    return "github.com" if record.host == "api.github.com" else record.host


def pulls(recorded: list[Record]) -> list[tuple[Ref, Record]]:
    found = [(PULL.fullmatch(record.path), record) for record in recorded if record.method == "GET"]
    return [
        (Ref(repo=match[1], number=int(match[2]), host=host_of(record)), record) for match, record in found if match
    ]


def test_every_recorded_pull_request_is_understood(recorded: list[Record]) -> None:
    found = pulls(recorded)
    assert len(found) == 32
    read = {}
    for ref, record in found:
        assert judge(record.status, record.headers, record.body, 0.0) is None
        if record.status == 200:
            read[ref] = rest_pull(decode(record.body), ref, AS_OF)
    assert sum(record.status == 304 for _, record in found) == 1
    assert {pull.state for pull in read.values()} == {"open", "closed", "merged"}
    for pull in read.values():
        assert pull.merge_commit is None or pull.merged_at is not None  # one of 2012 is merged and tells no commit
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", pull.updated_at)
        assert pull.title
        assert pull.base
        assert re.fullmatch(r"[0-9a-f]{40}", pull.head)
    tested = [json.loads(r.body) for _, r in found if r.status == 200]
    assert any(answer["merge_commit_sha"] and not answer["merged_at"] for answer in tested)  # the trap is among them


def test_every_recorded_compare_is_understood(recorded: list[Record]) -> None:
    found = [r for r in recorded if r.method == "GET" and "/compare/" in r.path and r.status == 200]
    assert len(found) == 27
    assert {rest_compare(decode(record.body)) for record in found} == {"ahead"}


def test_every_recorded_commit_is_understood(recorded: list[Record]) -> None:
    found = [
        r
        for r in recorded
        if re.fullmatch(r"/repos/[^/]+/[^/]+/commits/[0-9a-f]{40}(\?page=1)?", r.path) and r.status == 200
    ]
    assert len(found) > 5
    for record in found:
        commit = rest_commit(decode(record.body))
        assert commit.sha in record.path
        assert commit.subject
        assert commit.time.endswith("Z")


def test_every_recorded_304_is_an_answer_to_an_etag(recorded: list[Record]) -> None:
    found = [record for record in recorded if record.status == 304]
    assert len(found) == 28
    for record in found:
        assert judge(record.status, record.headers, record.body, 0.0) is None
        assert not record.body
        asked = record.sent.get("If-None-Match")
        given = record.headers.get("etag")
        assert None in (asked, given) or asked.removeprefix("W/") == given.removeprefix("W/")


def test_every_recorded_refusal_is_told_apart(recorded: list[Record]) -> None:
    kinds = {}
    for record in recorded:
        refusal = judge(record.status, record.headers, record.body, 1_700_000_000.0)
        if record.status >= 400 and refusal is not None:
            kinds.setdefault((record.status, refusal.kind), []).append(refusal)
    assert {kind for status, kind in kinds if status == 401} == {Kind.AUTH}
    assert Kind.LIMIT in {kind for status, kind in kinds if status == 403}
    assert all(
        refusal.wait is not None for (_, kind), found in kinds.items() if kind is Kind.LIMIT for refusal in found
    )


@pytest.fixture
def replay(recorded: list[Record]) -> Iterator[tuple[str, list[str | None]]]:
    """A server that gives the recorded answers of pull requests, 304 where the recorded ETag is given."""
    answers: dict[str, Record] = {}
    for _, record in pulls(recorded):
        if record.status == 200 and record.host == "api.github.com":
            answers[record.path] = record
    seen: list[str | None] = []

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            record = answers[self.path]
            tag = record.headers.get("etag")
            seen.append(self.headers.get("If-None-Match"))
            same = tag is not None and self.headers.get("If-None-Match") == tag
            body = b"" if same else record.body
            self.send_response(304 if same else 200)
            for name, value in record.headers.items():
                if name not in ("content-length", "transfer-encoding", "content-encoding", "connection", "date"):
                    self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its signature
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}", seen
    server.shutdown()
    server.server_close()


def test_the_recorded_pull_requests_over_http_and_again_by_their_etags(
    recorded: list[Record], replay: tuple[str, list[str | None]], tmp_path: Path
) -> None:
    url, seen = replay
    public = [ref for ref, record in pulls(recorded) if record.status == 200 and record.host == "api.github.com"]
    refs = list(dict.fromkeys(public))
    with Store(str(tmp_path)) as store:
        results = []
        for _ in range(2):
            asked = GitHub(host="github.com", rest=url, graphql=f"{url}/graphql", token=None, memory=store)
            results.append(asked.observe(refs, NOW))
            asked.close()
    assert results[0] == results[1]
    assert all(isinstance(answer, Pull) for answer in results[0].values())
    assert len(seen) == 2 * len(refs)
    assert seen[: len(refs)] == [None] * len(refs)
    assert all(seen[len(refs) :])
