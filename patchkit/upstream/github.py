"""GitHub and GitHub Enterprise: many pull requests a GraphQL query with a token, one a REST request without.

Requests go out one after another. A wait that the server asks for is slept up to a bound, else it is
reported; what was answered before a failure is kept. No message holds the token.
"""

from __future__ import annotations

import json
import time
from collections import deque
from datetime import datetime, timezone
from typing import TYPE_CHECKING, NoReturn, TypeVar
from urllib.parse import quote

from patchkit.io.http_failures import HttpError, StalledError, redact
from patchkit.upstream.facts import Gone
from patchkit.upstream.forge import ForgeError, Unanswered, iso
from patchkit.upstream.github_json import MalformedError, decode, rest_commit, rest_compare, rest_pull
from patchkit.upstream.github_limits import Kind, Refusal, judge, reset_wait
from patchkit.upstream.github_query import (
    MAX_PULLS,
    Parsed,
    RefusedQueryError,
    Trouble,
    build,
    no_repository,
    parse,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from patchkit.io.http import Http, Response
    from patchkit.upstream.facts import Commit, Pull, Ref
    from patchkit.upstream.forge import Answer, Memory, Told
    from patchkit.upstream.tokens import Token

T = TypeVar("T")

MAX_WAIT_SECONDS = 30.0  # that one client sleeps in all because a server asks for it
_JSON = {"Accept": "application/vnd.github+json", "X-GitHub-Api-Version": "2022-11-28"}
_DIFF = {**_JSON, "Accept": "application/vnd.github.diff"}
_EVERY_STATUS = range(100, 1000)
_MAX_BYTES = 64 << 20
_IN_A_ROW = 2  # failures after which a server is left alone
_PAUSE_SECONDS = 0.5


class _OverloadError(Exception):
    """So much at once does not come through: less may. `stall`: it also took long."""

    def __init__(self, problem: str, *, stall: bool = False) -> None:
        super().__init__(problem)
        self.stall = stall


class GitHub:
    """One GitHub host (see `forge.Forge`).

    `rest` and `graphql` are the addresses of its interfaces, `token_hint` says how to give it a token where
    one is needed, `memory` keeps ETags between runs,
    `max_wait` bounds the seconds slept in all, `clock` (epoch seconds) and `sleep` are the time's.
    """

    def __init__(
        self,
        *,
        host: str,
        rest: str,
        graphql: str,
        token: Token | None,
        token_hint: str = "",
        memory: Memory | None = None,
        http: Http | None = None,
        max_wait: float = MAX_WAIT_SECONDS,
        clock: Callable[[], float] = time.time,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.host = host
        self._rest = rest
        self._graphql = graphql
        self._token = token
        self._token_hint = token_hint
        self._memory = memory
        self._http = http
        self._own_http = http is None
        self._waits_left = max_wait
        self._clock = clock
        self._sleep = sleep
        self._stopped: dict[str, ForgeError] = {}

    def close(self) -> None:
        """Close the session, if it is this object's own."""
        if self._own_http and self._http is not None:
            self._http.close()
            self._http = None

    def observe(self, refs: Sequence[Ref], now: datetime, told: Told | None = None) -> dict[Ref, Answer]:
        """Return an answer for each of `refs`; see `Forge`."""
        answers: dict[Ref, Answer] = {}

        def tell(some: Mapping[Ref, Answer]) -> None:
            answers.update(some)
            if told is not None and some:
                told(some)

        queue = deque(dict.fromkeys(refs))
        try:
            if self._token is not None:
                self._ask_graphql(queue, iso(now), tell)
            else:
                self._ask_rest(queue, iso(now), tell)
        except ForgeError as error:
            tell({ref: error.about(ref) for ref in refs if ref not in answers})
        return answers

    def compare(self, repo: str, base: str, head: str) -> str | None:
        """Return how `head` stands to `base`; see `Forge`."""
        url = f"{self._repository(repo)}/compare/{quote(base, safe='')}...{quote(head, safe='')}?per_page=1"
        return self._read(url, _JSON, lambda body: rest_compare(decode(body)))

    def commit(self, repo: str, sha: str) -> Commit | None:
        """Return a commit's time and message; see `Forge`."""
        url = f"{self._repository(repo)}/commits/{quote(sha, safe='')}"
        return self._read(url, _JSON, lambda body: rest_commit(decode(body)))

    def commit_diff(self, repo: str, sha: str) -> bytes | None:
        """Return what a commit changes; see `Forge`."""
        return self._read(f"{self._repository(repo)}/commits/{quote(sha, safe='')}", _DIFF, bytes)

    def compare_diff(self, repo: str, base: str, head: str) -> bytes | None:
        """Return what `head` changes since its merge base with `base`; see `Forge`."""
        url = f"{self._repository(repo)}/compare/{quote(base, safe='')}...{quote(head, safe='')}"
        return self._read(url, _DIFF, bytes)

    def pull_diff(self, ref: Ref) -> bytes | None:
        """Return what a pull request changes; see `Forge`."""
        return self._read(f"{self._repository(ref.repo)}/pulls/{ref.number}", _DIFF, bytes)

    # many pull requests

    def _ask_graphql(self, queue: deque[Ref], as_of: str, tell: Told) -> None:
        """Ask in batches: half as many after an overload, twice as many after an answer."""
        size, barren, stalls = MAX_PULLS, 0, 0
        while queue:
            batch = [queue.popleft() for _ in range(min(size, len(queue)))]
            try:
                parsed = self._query(batch, as_of)
            except _OverloadError as overload:
                size, stalls = max(1, len(batch) // 2), stalls + overload.stall
                if len(batch) > 1 and stalls < _IN_A_ROW:
                    queue.extendleft(reversed(batch))
                    continue
                problem = self._problem(str(overload))
                tell({ref: problem.about(ref) for ref in batch})
                barren += 1
                if _IN_A_ROW in (barren, stalls):
                    self._stop(problem, "graphql")
                continue
            barren = stalls = 0
            tell(parsed.answers)
            size = min(MAX_PULLS, 2 * size) if not parsed.again else max(1, len(batch) // 2)
            if parsed.again and len(batch) == 1:
                tell({batch[0]: self._problem("more than the forge gives at once").about(batch[0])})
            else:
                queue.extendleft(reversed(parsed.again))

    def _query(self, batch: list[Ref], as_of: str) -> Parsed:
        query = build(batch)
        body = json.dumps({"query": query.text, "variables": query.variables}).encode()
        response = self._exchange("graphql", self._graphql, {**_JSON, "Content-Type": "application/json"}, body)
        if response.status != 200:
            self._stop(self._problem(f"{response.url}: expected GraphQL, found {response.status}"), "graphql")
        try:
            return parse(decode(response.body), query, as_of)
        except MalformedError as malformed:
            raise _OverloadError(f"{response.url}: {malformed}") from None
        except RefusedQueryError as refused:
            if refused.trouble is Trouble.OVERLOAD:
                raise _OverloadError(str(refused)) from None
            if refused.trouble is Trouble.LIMITED:
                wait = reset_wait(response.headers, self._clock())
                self._stop(self._limit(str(refused), None if wait is None else self._clock() + wait), "graphql")
            self._stop(self._problem(f"the query is refused: {refused}"), "graphql")

    def _ask_rest(self, queue: deque[Ref], as_of: str, tell: Told) -> None:
        """Ask for one after the other, until the limit is reached."""
        barren, seen = 0, dict[str, bool]()
        while queue:
            ref = queue[0]
            try:
                tell({ref: self._pull(ref, as_of, seen)})
                barren = 0
            except _OverloadError as overload:
                problem, barren = self._problem(str(overload)), barren + 1
                tell({ref: problem.about(ref)})
                if barren >= _IN_A_ROW or overload.stall:
                    self._stop(problem, "rest")
            queue.popleft()

    def _pull(self, ref: Ref, as_of: str, seen: dict[str, bool]) -> Pull | Gone | Unanswered:
        """Return one pull request; `seen` remembers which repositories there are."""
        url = f"{self._repository(ref.repo)}/pulls/{ref.number}"
        try:
            response = self._tagged(url)
            if response.status == 200:
                pull = rest_pull(decode(response.body), ref, as_of)
                self._keep(url, response)
                return pull
            if response.status in (404, 410):
                if ref.repo not in seen:
                    seen[ref.repo] = self._patiently(self._repository(ref.repo), _JSON).status == 200
                return Gone(ref=ref, as_of=as_of) if seen[ref.repo] else no_repository(ref)
            return self._problem(f"{response.url}: found {response.status}").about(ref)
        except _ForbiddenError as refused:
            return refused.error.about(ref)
        except MalformedError as malformed:
            raise _OverloadError(f"{url}: {malformed}") from None

    def _tagged(self, url: str) -> Response:
        """GET what may not have changed since it was kept: then the kept body is the answer's."""
        kept = self._memory.tagged(self._owner, url) if self._memory is not None else None
        headers = {**_JSON, **({"If-None-Match": kept[0]} if kept else {})}
        response = self._patiently(url, headers)
        if response.status != 304:
            return response
        if kept is None:
            raise MalformedError("an answer", "304, though nothing was known")
        return type(response)(status=200, headers=response.headers, body=kept[1], url=response.url)

    def _keep(self, url: str, response: Response) -> None:
        tag = response.headers.get("etag", "")
        if self._memory is not None and tag:
            self._memory.keep_tagged(self._owner, url, tag, response.body)

    @property
    def _owner(self) -> str:
        return self._token.digest if self._token is not None else ""

    # one thing by REST

    def _repository(self, repo: str) -> str:
        return f"{self._rest}/repos/{'/'.join(quote(part, safe='') for part in repo.split('/'))}"

    def _read(self, url: str, headers: dict[str, str], read: Callable[[bytes], T]) -> T | None:
        """GET `url` and return what `read` makes of the body, None for what is not there."""
        try:
            response = self._patiently(url, headers)
            if response.status in (404, 410, 422):
                return None
            if response.status != 200:
                raise self._problem(f"{response.url}: found {response.status}")
            return read(response.body)
        except _ForbiddenError as refused:
            raise refused.error from None
        except (_OverloadError, MalformedError) as failure:
            raise self._problem(f"{url}: {failure}" if isinstance(failure, MalformedError) else str(failure)) from None

    def _patiently(self, url: str, headers: dict[str, str]) -> Response:
        """GET `url`, once more after an overload."""
        try:
            return self._exchange("rest", url, headers)
        except _OverloadError as overload:
            if overload.stall:
                raise
        self._pause(_PAUSE_SECONDS)
        return self._exchange("rest", url, headers)

    # one request

    def _exchange(self, interface: str, url: str, headers: dict[str, str], body: bytes | None = None) -> Response:
        """Send one request, again after a wait that is short enough; refusals are raised, answers returned."""
        if interface in self._stopped:
            self._raise_again(interface)
        if self._token is not None:
            headers = {**headers, "Authorization": self._token.authorization()}
        while True:
            response = self._send(url, headers, body)
            refusal = judge(response.status, response.headers, response.body, self._clock())
            if refusal is None:
                self._mind_the_limit(interface, response)
                return response
            if refusal.wait is None or not self._pause(refusal.wait):
                self._refused(interface, refusal)

    def _send(self, url: str, headers: dict[str, str], body: bytes | None) -> Response:
        if self._http is None:
            from patchkit.io.http import Http

            self._http = Http()
        try:
            return self._http.get(url, headers, statuses=_EVERY_STATUS, limit=_MAX_BYTES, body=body)
        except StalledError as error:
            raise _OverloadError(f"{self.host}: {error.found}, at {redact(self._rest)}", stall=True) from None
        except HttpError as error:
            problem = f"{self.host}: {error.found}, at {redact(self._rest)}"
            self._stop(self._problem(problem, hint=error.hint), "graphql", "rest")

    def _refused(self, interface: str, refusal: Refusal) -> NoReturn:
        """Raise what a refusal means for this request, or for all later ones too."""
        if refusal.kind is Kind.BUSY:
            raise _OverloadError(f"{self.host}: {refusal.message}")
        if refusal.kind is Kind.LIMIT:
            self._stop(self._limit(refusal.message, refusal.until), interface)
        if refusal.kind is Kind.AUTH:
            self._stop(self._unauthorised(refusal), "graphql", "rest")
        hint = "give a token that may read it"
        if refusal.sso:
            hint = "authorise the token for the organisation (its settings: Configure SSO), or: gh auth refresh"
        error = self._problem(f"{self.host}: {refusal.message}", hint=hint)
        if interface == "graphql" or refusal.kind is Kind.OTHER:
            self._stop(error, interface)
        raise _ForbiddenError(error)

    def _mind_the_limit(self, interface: str, response: Response) -> None:
        """Take the last answer that a limit gives as the last one: the next request would be refused."""
        if response.headers.get("x-ratelimit-remaining") == "0":
            wait = reset_wait(response.headers, self._clock())
            until = None if wait is None else self._clock() + wait
            self._stopped[interface] = self._limit("no request is left", until)

    def _pause(self, seconds: float) -> bool:
        """Sleep, if that is within what may be slept; return whether it was."""
        if seconds > self._waits_left:
            return False
        self._waits_left -= max(seconds, _PAUSE_SECONDS)
        self._sleep(seconds)
        return True

    def _stop(self, error: ForgeError, *interfaces: str) -> NoReturn:
        self._stopped.update(dict.fromkeys(interfaces, error))
        raise error from None

    def _raise_again(self, interface: str) -> NoReturn:
        first = self._stopped[interface]
        raise ForgeError(*first.problems, hint=first.hint, retry_at=first.retry_at)

    # what is said

    def _limit(self, message: str, until: float | None) -> ForgeError:
        at = None if until is None else iso(datetime.fromtimestamp(until, timezone.utc))
        when = f" until {at}" if at else ""
        hint = (f"try again after {at}" if at else "try again later") if self._token else self._token_hint
        return ForgeError(self._clean(f"{self.host}: limit{when}: {message}"), hint=hint, retry_at=at)

    def _unauthorised(self, refusal: Refusal) -> ForgeError:
        if self._token is None:
            return self._problem(f"{self.host}: wants a token: {refusal.message}", hint=self._token_hint)
        source = self._token.source
        hint = f"renew it: {source}" if source.isupper() else f"gh auth login --hostname {self.host}"
        return self._problem(f"{self.host}: refuses the token of {source}: {refusal.message}", hint=hint)

    def _problem(self, text: str, hint: str = "try again later") -> ForgeError:
        return ForgeError(self._clean(text), hint=hint)

    def _clean(self, text: str) -> str:
        return self._token.hidden_in(text) if self._token is not None else text


class _ForbiddenError(Exception):
    """One thing is refused; others may be answered."""

    def __init__(self, error: ForgeError) -> None:
        super().__init__(str(error))
        self.error = error
