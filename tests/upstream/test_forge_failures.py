"""Every failure by name: what is known is kept, the rest is unknown with the reason, and nothing waits for ever."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

import pytest

from patchkit.core.errors import UnreachableError
from patchkit.io.http import Http
from patchkit.upstream.facts import Gone, Pull, Ref
from patchkit.upstream.forge import Unanswered
from patchkit.upstream.github import GitHub
from patchkit.upstream.tokens import Token

from .forge_server import TOKEN, Server

if TYPE_CHECKING:
    from patchkit.upstream.forge import Answer

NOW = datetime(2026, 8, 14, 6, 0, tzinfo=timezone.utc)
TWENTY = [Ref(repo="o/r", number=number) for number in range(1, 21)]


class Clock:
    """Time that passes only when somebody sleeps."""

    def __init__(self) -> None:
        self.slept: list[float] = []

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)


def client(
    server: Server, clock: Clock | None = None, *, token: str | None = TOKEN, patience: float = 10.0, **more: Any
) -> GitHub:
    return GitHub(
        host="github.com",
        rest=server.url,
        graphql=f"{server.url}/graphql",
        token=Token(token, "GH_TOKEN") if token else None,
        http=Http(read_timeout=patience, connect_timeout=1.0, backoff=0.01),
        sleep=(clock or Clock()).sleep,
        **more,
    )


@pytest.fixture
def full(forge: Server) -> Server:
    for number in range(1, 41):
        forge.pull("o/r", number)
    return forge


def known(answers: dict[Ref, Answer]) -> int:
    return sum(isinstance(answer, Pull | Gone) for answer in answers.values())


def reasons(answers: dict[Ref, Answer]) -> set[str]:
    return {answer.reason for answer in answers.values() if isinstance(answer, Unanswered)}


def sizes(server: Server) -> list[int]:
    return [seen.body.count(b"pullRequest(number") for seen in server.asked("/graphql")]


@pytest.mark.parametrize(
    "name", ["500", "502", "503", "504", "something-went-wrong", "truncated-json", "html", "array"]
)
def test_an_overload_halves_the_batch_and_loses_nothing(full: Server, name: str) -> None:
    full.fail(name)
    assert known(client(full).observe(TWENTY, NOW)) == 20
    assert sizes(full) == [20, 10, 10]


def test_the_batch_halves_down_to_one_and_grows_again(full: Server) -> None:
    full.fail("504", times=4)
    assert known(client(full).observe(TWENTY, NOW)) == 20
    assert sizes(full) == [20, 10, 5, 2, 1, 2, 4, 8, 5]


@pytest.mark.parametrize("name", ["502", "html", "nothing", "truncated-json"])
def test_a_server_that_never_answers_is_left_alone_soon(full: Server, name: str) -> None:
    full.fail(name, times=1000)
    answers = client(full).observe(TWENTY, NOW)
    assert known(answers) == 0
    assert len(reasons(answers)) == 1
    assert sizes(full) == [20, 10, 5, 2, 1, 1]


def test_a_stall_is_tried_with_less(full: Server) -> None:
    full.fail("stall")
    assert known(client(full, patience=1.0).observe(TWENTY, NOW)) == 20
    assert sizes(full)[:2] == [20, 10]


def test_a_server_that_stalls_again_is_left_alone(full: Server) -> None:
    full.fail("stall", times=1000)
    answers = client(full, patience=0.3).observe(TWENTY, NOW)
    assert sizes(full) == [20, 10]
    (reason,) = reasons(answers)
    assert reason == f"github.com: a stall: no byte for 0.3 s, at {full.url}"


@pytest.mark.parametrize("name", ["reset", "short-body"])
def test_a_connection_that_breaks_is_tried_again(full: Server, name: str) -> None:
    full.fail(name)
    assert known(client(full).observe(TWENTY, NOW)) == 20


def test_what_the_forge_left_out_as_too_large_is_asked_again(full: Server) -> None:
    full.fail("too-large", times=2)
    assert known(client(full).observe(TWENTY, NOW)) == 20
    assert sizes(full) == [20, 10, 5]


def test_one_pull_request_that_is_always_too_large_is_unknown_alone(full: Server) -> None:
    full.repositories["o/r"].pulls[7].broken = "RESOURCE_LIMITS_EXCEEDED"
    answers = client(full).observe(TWENTY, NOW)
    assert known(answers) == 19
    assert reasons(answers) == {"more than the forge gives at once"}


def test_a_short_wait_that_is_asked_for_is_slept(full: Server) -> None:
    full.fail("retry-after")
    clock = Clock()
    assert known(client(full, clock).observe(TWENTY, NOW)) == 20
    assert clock.slept == [1.0]


@pytest.mark.parametrize("name", ["retry-after-long", "primary", "secondary", "429", "rate-limited-graphql"])
def test_a_long_wait_is_reported_not_slept(full: Server, name: str) -> None:
    full.fail(name, times=1000)
    clock = Clock()
    asked = client(full, clock)
    for _ in range(2):  # the second time it is not even asked
        answers = asked.observe(TWENTY, NOW)
        assert known(answers) == 0
        (reason,) = reasons(answers)
        assert reason.startswith("github.com: limit until 20")
        assert all(answer.retry_at and answer.retry_at in answer.hint for answer in answers.values())
    assert full.graphql_calls == 1
    assert clock.slept == []


def test_sleeping_is_bounded_in_all(full: Server) -> None:
    full.fail("retry-after", times=1000)
    clock = Clock()
    assert known(client(full, clock, max_wait=5.0).observe(TWENTY, NOW)) == 0
    assert sum(clock.slept) <= 5.0


def test_a_limit_in_between_keeps_what_came_before(full: Server) -> None:
    wanted = [Ref(repo="o/r", number=number) for number in range(1, 41)]
    told: list[int] = []
    asked = client(full)

    def tell(some: Any) -> None:
        told.append(len(some))
        full.fail("primary")

    answers = asked.observe(wanted, NOW, tell)
    assert known(answers) == 20
    assert told == [20, 20]
    assert len(reasons(answers)) == 1


def test_the_last_request_that_a_limit_allows_is_used_and_none_after_it(full: Server) -> None:
    wanted = [Ref(repo="o/r", number=number) for number in range(1, 41)]
    full.graphql_left = 1
    answers = client(full).observe(wanted, NOW)
    assert known(answers) == 20
    assert full.graphql_calls == 1
    (reason,) = reasons(answers)
    assert "no request is left" in reason


def test_a_bad_token_is_named_by_its_variable(full: Server) -> None:
    answers = client(full, token="ghp_wrong").observe(TWENTY, NOW)
    assert reasons(answers) == {"github.com: refuses the token of GH_TOKEN: 401 Bad credentials"}
    assert {answer.hint for answer in answers.values()} == {"renew it: GH_TOKEN"}
    assert full.graphql_calls == 1


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("saml", "github.com: 403 Resource protected by organization SAML enforcement."),
        ("not-allowed", "github.com: 403 Resource not accessible by personal access token"),
        ("teapot", "github.com: 418 I'm a teapot"),
        ("unknown-field", "the query is refused: Field 'isDraft' doesn't exist on type 'PullRequest'"),
        ("no-graphql", "/graphql: expected GraphQL, found 404"),
    ],
)
def test_a_refusal_of_the_query_ends_the_asking(full: Server, name: str, text: str) -> None:
    full.fail(name, times=1000)
    answers = client(full).observe(TWENTY, NOW)
    (reason,) = reasons(answers)
    assert text in reason
    assert full.graphql_calls == 1


def test_nobody_listens(full: Server) -> None:
    full.close()
    answers = client(full).observe(TWENTY, NOW)
    (reason,) = reasons(answers)
    assert reason == f"github.com: Connection refused, at {full.url}"


@pytest.mark.parametrize("name", ["500", "502", "504"])
def test_rest_tries_once_more(full: Server, name: str) -> None:
    clock = Clock()
    full.fail(name)
    answers = client(full, clock, token=None).observe(TWENTY[:3], NOW)
    assert known(answers) == 3
    assert clock.slept == [0.5]
    full.fail(name, times=1000)
    answers = client(full, clock, token=None).observe(TWENTY[:5], NOW)
    assert known(answers) == 0
    assert len(full.seen) == 4 + 4  # two pull requests, two attempts each, then no more


@pytest.mark.parametrize("name", ["html", "truncated-json", "array"])
def test_rest_answers_that_are_none(full: Server, name: str) -> None:
    full.fail(name)
    answers = client(full, token=None).observe(TWENTY[:3], NOW)
    assert known(answers) == 2


def test_one_that_is_forbidden_by_rest_is_unknown_alone(full: Server) -> None:
    full.fail("not-allowed")
    answers = client(full, token=None).observe(TWENTY[:3], NOW)
    assert known(answers) == 2
    assert reasons(answers) == {"github.com: 403 Resource not accessible by personal access token"}


@pytest.mark.parametrize("name", ["502", "html", "teapot", "saml", "429", "stall", "array"])
def test_compare_that_fails_is_unreachable(full: Server, name: str) -> None:
    full.fail(name, times=1000)
    with pytest.raises(UnreachableError) as caught:
        client(full, patience=0.3).compare("o/r", "1" * 40, "2" * 40)
    assert caught.value.exit_code == 6
    assert caught.value.hint
