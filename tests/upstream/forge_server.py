"""A GitHub on loopback: real HTTP, the published GraphQL schema over a data set, REST, and every bad habit by name.

`Server.fail("secondary")` makes the next request meet that failure; `habits()` lists them. REST compares and
commits come from a real git repository.
"""

from __future__ import annotations

import hashlib
import json
import re
import socket
import struct
import subprocess
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

from graphql import GraphQLError, graphql_sync

if TYPE_CHECKING:
    from graphql import GraphQLSchema

TOKEN = "ghp_T0kenThatNobodyMaySee0123456789abcd"
Habit = Callable[["Handler"], None]


def sha(*parts: object) -> str:
    return hashlib.sha1(repr(parts).encode()).hexdigest()


@dataclass
class Pull:
    """A pull request of the data set; `closer` is the commit message by which a bot closed it."""

    number: int
    title: str = ""
    state: str = "OPEN"  # OPEN | CLOSED | MERGED
    draft: bool = False
    body: str = ""
    merge_commit: str | None = None
    merged_at: str | None = None
    updated_at: str = "2026-08-13T00:00:00Z"
    closer: str | None = None
    mentioned_by: tuple[tuple[str, int], ...] = ()
    broken: str = ""  # an error type that the forge answers with, for this one


@dataclass
class Repository:
    pulls: dict[int, Pull] = field(default_factory=dict)
    private: bool = False
    git: str | None = None  # a directory
    forbidden: str = ""  # an error type for all of it
    default_branch: str = "main"


@dataclass(frozen=True)
class Seen:
    method: str
    path: str
    headers: dict[str, str]
    body: bytes


class Server:
    """`repositories` is the data set by OWNER/NAME; `moved` old names to new ones; `seen` what was asked."""

    def __init__(self, schema: GraphQLSchema | None, *, token: str = TOKEN) -> None:
        self.schema = schema
        self.token = token
        self.repositories: dict[str, Repository] = {}
        self.moved: dict[str, str] = {}
        self.seen: list[Seen] = []
        self.delay = 0.0
        self.anonymous_left = 60
        self.graphql_left = 5000
        self.reset = int(time.time()) + 1800
        self.habits: list[tuple[str, Habit, str]] = []
        outer = self

        class Bound(Handler):
            server_of = outer

        class Quiet(ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, request: object, client_address: object) -> None:
                pass

        self.http = Quiet(("127.0.0.1", 0), Bound)
        self.url = f"http://127.0.0.1:{self.http.server_address[1]}"
        threading.Thread(target=self.http.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()

    def close(self) -> None:
        self.http.shutdown()
        self.http.server_close()

    def pull(self, repo: str, number: int, **more: Any) -> Pull:
        pull = Pull(number, **{"title": f"Pull {number}", **more})
        self.repositories.setdefault(repo, Repository()).pulls[number] = pull
        return pull

    def fail(self, name: str, times: int = 1, path: str = "") -> None:
        """Let the next `times` requests whose path holds `path` meet the failure `name`."""
        self.habits += [(name, HABITS[name], path)] * times

    def asked(self, text: str = "") -> list[Seen]:
        return [seen for seen in self.seen if text in seen.path]

    @property
    def graphql_calls(self) -> int:
        return len(self.asked("/graphql"))

    def execute(self, asked: dict[str, Any]) -> dict[str, Any]:
        """Return what GitHub answers: errors with their type beside the message."""
        assert self.schema is not None
        root = {"repository": lambda info, **where: self._repository(where["owner"], where["name"])}
        result = graphql_sync(self.schema, asked["query"], root, variable_values=asked.get("variables"))
        answer: dict[str, Any] = {"data": result.data}
        if result.errors:
            answer["errors"] = [
                {**(error.extensions or {}), "message": error.message, **({"path": error.path} if error.path else {})}
                for error in result.errors
            ]
        return answer

    def _repository(self, owner: str, name: str) -> dict[str, Any]:
        full = self.moved.get(f"{owner}/{name}", f"{owner}/{name}")
        repository = self.repositories.get(full)
        if repository is None:
            message = f"Could not resolve to a Repository with the name '{owner}/{name}'."
            raise GraphQLError(message, extensions={"type": "NOT_FOUND"})
        if repository.forbidden:
            message = "Resource protected by organization SAML enforcement. You must grant your token access."
            more = {"extensions": {"saml_failure": True}} if repository.forbidden == "SAML" else {}
            raise GraphQLError(message, extensions={"type": "FORBIDDEN", **more})

        def pull_request(info: Any, number: int) -> dict[str, Any]:
            pull = repository.pulls.get(number)
            if pull is None:
                message = f"Could not resolve to a PullRequest with the number of {number}."
                raise GraphQLError(message, extensions={"type": "NOT_FOUND"})
            if pull.broken:
                raise GraphQLError(f"no: {pull.broken}", extensions={"type": pull.broken})
            return self._node(full, pull)

        branch = {"__typename": "Ref", "name": repository.default_branch}
        return {"__typename": "Repository", "pullRequest": pull_request, "defaultBranchRef": branch}

    def _node(self, repo: str, pull: Pull) -> dict[str, Any]:
        def timeline(info: Any, last: int, itemTypes: list[str]) -> dict[str, Any]:  # noqa: N803 - GitHub's name
            items = []
            if pull.closer is not None:
                closer = {
                    "__typename": "Commit",
                    "oid": sha(repo, pull.number, "closer"),
                    "committedDate": "2026-08-12T09:44:00Z",
                    "message": pull.closer,
                }
                items.append({"__typename": "ClosedEvent", "closer": closer})
            elif pull.state != "OPEN":
                items.append({"__typename": "ClosedEvent", "closer": None})
            for other, number in pull.mentioned_by:
                source = self._node(other, self.repositories[other].pulls[number])
                items.append({"__typename": "CrossReferencedEvent", "source": source})
            kinds = {"ClosedEvent": "CLOSED_EVENT", "CrossReferencedEvent": "CROSS_REFERENCED_EVENT"}
            return {"nodes": [item for item in items if kinds[str(item["__typename"])] in itemTypes][-last:]}

        closed = pull.merged_at or (None if pull.state == "OPEN" else "2026-08-12T10:00:00Z")
        return {
            "__typename": "PullRequest",
            "number": pull.number,
            "title": pull.title,
            "body": pull.body,
            "state": pull.state,
            "isDraft": pull.draft,
            "baseRefName": "main",
            "headRefOid": sha(repo, pull.number, "head"),
            "createdAt": "2026-08-01T00:00:00Z",
            "updatedAt": pull.updated_at,
            "closedAt": closed,
            "mergedAt": pull.merged_at,
            # an unmerged one may have a test merge
            "mergeCommit": {"oid": pull.merge_commit or sha(repo, pull.number, "test merge")},
            "repository": {"nameWithOwner": repo, "isPrivate": self.repositories[repo].private},
            "timelineItems": timeline,
        }


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server_of: Server

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its signature
        pass

    def do_GET(self) -> None:
        self._serve(b"")

    def do_POST(self) -> None:
        self._serve(self.rfile.read(int(self.headers["Content-Length"])))

    def _serve(self, body: bytes) -> None:
        server = self.server_of
        self.asked = body
        headers = {name.lower(): value for name, value in self.headers.items()}
        server.seen.append(Seen(self.command, self.path, headers, body))
        if server.delay:
            time.sleep(server.delay)
        place = next((i for i, (_, _, path) in enumerate(server.habits) if path in self.path), None)
        if place is not None:
            server.habits.pop(place)[1](self)
        else:
            self.answer()

    def answer(self) -> None:
        server = self.server_of
        given = self.headers.get("Authorization", "")
        if given and given != f"Bearer {server.token}":
            self.send(401, {"message": "Bad credentials"})
        elif self.path == "/graphql":
            if not given:
                self.send(401, {"message": "This endpoint requires you to be authenticated."})
            else:
                server.graphql_left -= 1
                left = {"x-ratelimit-remaining": str(server.graphql_left), "x-ratelimit-reset": str(server.reset)}
                self.send(200, server.execute(json.loads(self.asked)), **left)
        elif not given and server.anonymous_left <= 0:
            limit = {"x-ratelimit-remaining": "0", "x-ratelimit-reset": str(server.reset)}
            self.send(403, {"message": "API rate limit exceeded for 127.0.0.1."}, **limit)
        else:
            server.anonymous_left -= not given
            self._rest(self.path.partition("?")[0])

    def _rest(self, path: str) -> None:
        server = self.server_of
        match = re.fullmatch(r"/repos/([^/]+/[^/]+)(/.*)?", path)
        if match and match[1] in server.moved:
            self.send(301, {"message": "Moved"}, Location=f"/repos/{server.moved[match[1]]}{match[2] or ''}")
            return
        repository = server.repositories.get(match[1]) if match else None
        if match is None or repository is None:
            self.send(404, {"message": "Not Found"})
            return
        rest = match[2] or ""
        if pull := re.fullmatch(r"/pulls/(\d+)", rest):
            self._pull(match[1], repository.pulls.get(int(pull[1])))
        elif pair := re.fullmatch(r"/compare/(.+)\.\.\.(.+)", rest):
            self._compare(repository.git or "/nowhere", pair[1], pair[2])
        elif commit := re.fullmatch(r"/commits/(.+)", rest):
            self._commit(repository.git or "/nowhere", commit[1])
        else:
            self.send(404 if rest else 200, {"message": "Not Found"} if rest else {"full_name": match[1]})

    def _pull(self, repo: str, pull: Pull | None) -> None:
        if pull is None:
            self.send(404, {"message": "Not Found"})
            return
        if "diff" in self.headers.get("Accept", ""):
            self.send(200, f"diff of {repo}#{pull.number}\n".encode())
            return
        node = self.server_of._node(repo, pull)
        answer = {
            "number": pull.number,
            "title": pull.title,
            "state": "open" if pull.state == "OPEN" else "closed",
            "draft": pull.draft,
            "base": {
                "ref": "main",
                "sha": sha(repo, "main"),
                "repo": {"default_branch": self.server_of.repositories[repo].default_branch},
            },
            "head": {"ref": "fix", "sha": node["headRefOid"]},
            "merge_commit_sha": node["mergeCommit"]["oid"],
            "created_at": node["createdAt"],
            "updated_at": pull.updated_at,
            "closed_at": node["closedAt"],
            "merged_at": pull.merged_at,
        }
        tag = f'W/"{sha(json.dumps(answer), self.headers.get("Authorization"))}"'
        left = (
            {} if self.headers.get("Authorization") else {"x-ratelimit-remaining": str(self.server_of.anonymous_left)}
        )
        reset = {"x-ratelimit-reset": str(self.server_of.reset)}
        if self.headers.get("If-None-Match") == tag:
            self.send(304, None, ETag=tag, **left, **reset)
        else:
            self.send(200, answer, ETag=tag, **left, **reset)

    def _compare(self, directory: str, base: str, head: str) -> None:
        if not all(
            git(directory, "rev-parse", "-q", "--verify", f"{name}^{{commit}}")[0] == 0 for name in (base, head)
        ):
            self.send(404, {"message": "Not Found"})
            return
        if "diff" in self.headers.get("Accept", ""):
            self.send(200, git(directory, "diff", f"{base}...{head}")[1])
            return
        counts = git(directory, "rev-list", "--left-right", "--count", f"{base}...{head}")[1].split()
        behind, ahead = (int(count) for count in counts)
        status = {(False, False): "identical", (True, False): "ahead", (False, True): "behind"}
        kind = status.get((ahead > 0, behind > 0), "diverged")
        self.send(200, {"status": kind, "ahead_by": ahead, "behind_by": behind, "total_commits": ahead, "commits": []})

    def _commit(self, directory: str, name: str) -> None:
        code, out = git(directory, "log", "-1", "--format=%H%n%cI%n%B", name)
        if code:
            self.send(422, {"message": f"No commit found for SHA: {name}"})
        elif "diff" in self.headers.get("Accept", ""):
            self.send(200, git(directory, "diff-tree", "-p", "--root", "--no-commit-id", name)[1])
        else:
            full, date, message = out.decode().split("\n", 2)
            commit = {"message": message.rstrip("\n"), "committer": {"date": date.replace("+00:00", "Z")}}
            self.send(200, {"sha": full, "commit": commit})

    def send(self, status: int, data: object, **headers: str) -> None:
        body = b"" if data is None else data if isinstance(data, bytes) else json.dumps(data).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        for name, value in {"Content-Type": "application/json; charset=utf-8", **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)


def git(directory: str, *arguments: str) -> tuple[int, bytes]:
    done = subprocess.run(["git", "-C", directory, *arguments], capture_output=True, check=False)
    return done.returncode, done.stdout


def refused(status: int, message: str, **headers: str) -> Habit:
    return lambda handler: handler.send(status, {"message": message}, **headers)


def _limit_for_long(handler: Handler) -> None:
    headers = {"x-ratelimit-remaining": "0", "x-ratelimit-reset": str(handler.server_of.reset)}
    handler.send(403, {"message": "API rate limit exceeded for user ID 1."}, **headers)


def _graphql_limit(handler: Handler) -> None:
    headers = {"x-ratelimit-remaining": "0", "x-ratelimit-reset": str(handler.server_of.reset)}
    handler.send(200, {"errors": [{"type": "RATE_LIMITED", "message": "API rate limit exceeded"}]}, **headers)


def _reset(handler: Handler) -> None:
    handler.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    handler.connection.close()
    handler.close_connection = True


def _short(handler: Handler) -> None:
    handler.send_response(200)
    handler.send_header("Content-Length", "1000")
    handler.end_headers()
    handler.wfile.write(b'{"data": {')
    handler.close_connection = True


def _echo(handler: Handler) -> None:
    given = handler.headers.get("Authorization", "")
    handler.send(403, {"message": f"who is {given}\x1b[31m?\n"}, **{"X-Echo": given})


def _wrong(handler: Handler) -> None:
    message = "Something went wrong while executing your query. This may be the result of a timeout."
    handler.send(200, {"data": None, "errors": [{"message": message}]})


def _too_large(handler: Handler) -> None:
    """Answer for the first half; leave the rest out as too large a query."""
    answer = handler.server_of.execute(json.loads(handler.asked))
    answer["errors"] = []
    for repository, pulls in answer["data"].items():
        del pulls["defaultBranchRef"]
        for alias in list(pulls)[len(pulls) // 2 :]:
            pulls[alias] = None
            answer["errors"].append(
                {
                    "type": "RESOURCE_LIMITS_EXCEEDED",
                    "path": [repository, alias],
                    "message": "Resource limits for this query exceeded.",
                }
            )
    handler.send(200, answer)


HABITS: dict[str, Habit] = {
    "retry-after": refused(403, "You have exceeded a secondary rate limit.", **{"Retry-After": "1"}),
    "retry-after-long": refused(429, "slow down", **{"Retry-After": "3600"}),
    "primary": _limit_for_long,
    "secondary": refused(403, "You have exceeded a secondary rate limit. Please wait a few minutes."),
    "429": refused(429, "Too many requests"),
    "rate-limited-graphql": _graphql_limit,
    "500": refused(500, "Server Error"),
    "502": lambda handler: handler.send(502, b"<html><body>Unicorn!</body></html>"),
    "503": refused(503, "Service unavailable"),
    "504": refused(504, "We couldn't respond to your request in time."),
    "something-went-wrong": _wrong,
    "too-large": _too_large,
    "stall": lambda handler: time.sleep(3),
    "reset": _reset,
    "html": lambda handler: handler.send(200, b"<!DOCTYPE html><title>Log in to the network</title>"),
    "truncated-json": lambda handler: handler.send(200, b'{"data": {"r0": {"p1": {"num'),
    "short-body": _short,
    "array": lambda handler: handler.send(200, [1, 2]),
    "saml": refused(403, "Resource protected by organization SAML enforcement.", **{"X-GitHub-SSO": "required; url=x"}),
    "not-allowed": refused(403, "Resource not accessible by personal access token"),
    "teapot": refused(418, "I'm a teapot"),
    "echo": _echo,
    "unknown-field": lambda handler: handler.send(
        200, {"errors": [{"message": "Field 'isDraft' doesn't exist on type 'PullRequest'"}]}
    ),
    "nothing": lambda handler: handler.send(200, {"data": None}),
    "no-graphql": refused(404, "Not Found"),
}
