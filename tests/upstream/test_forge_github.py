"""The GitHub client against a GitHub on loopback: what is asked, what is understood, what the REST interfaces tell."""

from __future__ import annotations

import json
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

import pytest
from graphql import parse as parse_graphql
from graphql import validate
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from patchkit.core.errors import ConfigError
from patchkit.upstream.facts import Commit, Gone, Mention, Pull, Ref
from patchkit.upstream.forge import Unanswered
from patchkit.upstream.github import GitHub
from patchkit.upstream.github_json import MalformedError, decode, time_of
from patchkit.upstream.github_query import RefusedQueryError, build, parse
from patchkit.upstream.hosts import addresses, for_host
from patchkit.upstream.store import Store

from .forge_server import TOKEN, Server, git, sha

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

NOW = datetime(2026, 8, 14, 6, 0, tzinfo=timezone.utc)
AS_OF = "2026-08-14T06:00:00Z"


def refs(repo: str, *numbers: int) -> list[Ref]:
    return [Ref(repo=repo, number=number) for number in numbers]


@pytest.mark.parametrize("count", [1, 2, 20])
def test_the_query_is_valid_in_the_published_schema(schema: Any, count: int) -> None:
    query = build([Ref(repo=f"o/r{number % 3}", number=number) for number in range(1, count + 1)])
    assert validate(schema, parse_graphql(query.text)) == []
    assert query.text.count("pullRequest(number:") == count


def test_names_are_variables_so_nothing_can_be_smuggled_into_a_query(forge: Server) -> None:
    evil = Ref.parse('o"){x}/r(name:"b#7')
    assert '"' not in build([evil]).text
    forge.pull(evil.repo, 7)
    answer = for_host("github.com").observe([evil], NOW)[evil]
    assert isinstance(answer, Pull)


def test_many_pull_requests_of_several_repositories_in_one_query(forge: Server) -> None:
    for number in range(1, 11):
        forge.pull("ROCm/aiter", number)
        forge.pull(
            "vllm-project/vllm", number, state="MERGED", merged_at="2026-08-12T09:44:00Z", merge_commit=sha(number)
        )
    wanted = [*refs("ROCm/aiter", *range(1, 11)), *refs("vllm-project/vllm", *range(1, 11))]
    answers = for_host("github.com").observe([*wanted, *wanted], NOW)
    assert set(answers) == set(wanted)
    assert all(isinstance(answer, Pull) for answer in answers.values())
    assert forge.graphql_calls == 1
    assert forge.seen[0].headers["authorization"] == f"Bearer {TOKEN}"


def test_every_fact_of_a_pull_request(forge: Server) -> None:
    forge.pull("ROCm/aiter", 4709, title='Revert "Pull 4494"', state="MERGED", body="Reverts ROCm/aiter#4494",
               merged_at="2026-08-12T16:53:00Z", merge_commit=sha("revert"))  # fmt: skip
    forge.pull("ROCm/aiter", 4916, title="Again\x1b[31m\n", state="OPEN", body="x" * 20_000)
    forge.pull("secret/fork", 1, title="confidential")
    forge.repositories["secret/fork"].private = True
    forge.pull("ROCm/aiter", 4494, state="MERGED", merged_at="2026-08-12T09:44:00Z", merge_commit=sha("landed"),
               mentioned_by=(("ROCm/aiter", 4709), ("secret/fork", 1), ("ROCm/aiter", 4916)))  # fmt: skip
    ref = Ref.parse("ROCm/aiter#4494")
    assert for_host("github.com").observe([ref], NOW)[ref] == Pull(
        ref=ref,
        title="Pull 4494",
        state="merged",
        draft=False,
        base="main",
        head=sha("ROCm/aiter", 4494, "head"),
        merge_commit=sha("landed"),
        created_at="2026-08-01T00:00:00Z",
        updated_at="2026-08-13T00:00:00Z",
        closed_at="2026-08-12T09:44:00Z",
        merged_at="2026-08-12T09:44:00Z",
        mentions=(
            Mention(
                ref=Ref.parse("ROCm/aiter#4709"),
                title='Revert "Pull 4494"',
                state="merged",
                body="Reverts ROCm/aiter#4494",
                merge_commit=sha("revert"),
                merged_at="2026-08-12T16:53:00Z",
            ),
            Mention(ref=Ref.parse("ROCm/aiter#4916"), title="Again [31m", state="open", body="x" * 10_000),
        ),
        default_branch="main",
        as_of=AS_OF,
    )


def test_the_default_branch_is_told_by_both_interfaces(forge: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    forge.pull("o/r", 1)
    forge.repositories["o/r"].default_branch = "develop"
    (ref,) = refs("o/r", 1)
    answers = [for_host("github.com").observe([ref], NOW)[ref]]
    monkeypatch.delenv("GH_TOKEN")
    answers.append(for_host("github.com").observe([ref], NOW)[ref])
    assert [(answer.base, answer.default_branch) for answer in answers] == [("main", "develop")] * 2


def test_a_test_merge_is_no_merge_commit_and_a_bots_commit_is_told(forge: Server) -> None:
    message = "Fix it (#1)\n\nPull Request resolved: https://github.com/pytorch/pytorch/pull/1\n"
    forge.pull("pytorch/pytorch", 1, state="CLOSED", closer=message)
    forge.pull("pytorch/pytorch", 2, state="CLOSED")
    forge.pull("pytorch/pytorch", 3, draft=True)
    first, second, third = refs("pytorch/pytorch", 1, 2, 3)
    answers = for_host("github.com").observe([first, second, third], NOW)
    assert answers[first].closed_by == (
        Commit(
            sha=sha("pytorch/pytorch", 1, "closer"),
            time="2026-08-12T09:44:00Z",
            subject="Fix it (#1)",
            body="Pull Request resolved: https://github.com/pytorch/pytorch/pull/1\n",
        ),
    )
    assert [answers[ref].merge_commit for ref in (first, second, third)] == [None] * 3
    assert [answers[ref].closed_by for ref in (second, third)] == [(), ()]
    assert [(answers[ref].state, answers[ref].draft) for ref in (second, third)] == [("closed", False), ("open", True)]


def test_one_pull_request_that_is_gone_does_not_lose_the_others(forge: Server) -> None:
    for number in range(1, 20):
        forge.pull("o/r", number)
    wanted = refs("o/r", *range(1, 21))
    answers = for_host("github.com").observe(wanted, NOW)
    assert answers[wanted[-1]] == Gone(ref=wanted[-1], as_of=AS_OF)
    assert all(isinstance(answers[ref], Pull) for ref in wanted[:-1])
    assert forge.graphql_calls == 1


def test_what_is_refused_for_one_is_unknown_for_that_one_with_the_reason(forge: Server) -> None:
    forge.pull("o/r", 1)
    forge.pull("o/r", 2, broken="FORBIDDEN")
    forge.pull("sso/r", 3)
    forge.repositories["sso/r"].forbidden = "SAML"
    one, two, three, four = wanted = [*refs("o/r", 1, 2), *refs("sso/r", 3), *refs("no/r", 4)]
    answers = for_host("github.com").observe(wanted, NOW)
    assert isinstance(answers[one], Pull)
    assert answers[two].reason == "forbidden: no: FORBIDDEN"
    assert answers[three].reason.startswith("single sign-on: Resource protected by organization SAML")
    assert "Configure SSO" in answers[three].hint
    assert answers[four].reason == "no repository no/r on github.com, or none that may be seen"
    assert forge.graphql_calls == 1


def test_a_renamed_repository_is_found_under_its_old_name(forge: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    forge.pull("new/name", 5)
    forge.moved["old/name"] = "new/name"
    (ref,) = refs("old/name", 5)
    assert isinstance(for_host("github.com").observe([ref], NOW)[ref], Pull)
    monkeypatch.delenv("GH_TOKEN")
    assert isinstance(for_host("github.com").observe([ref], NOW)[ref], Pull)
    assert [seen.path for seen in forge.seen[1:]] == ["/repos/old/name/pulls/5", "/repos/new/name/pulls/5"]


def test_without_a_token_rest_alone_is_asked(forge: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GH_TOKEN")
    forge.pull("o/r", 1, state="MERGED", merged_at="2026-08-12T09:44:00Z", merge_commit=sha("landed"))
    forge.pull("o/r", 2, state="CLOSED")
    forge.pull("o/r", 3, draft=True)
    wanted = [*refs("o/r", 1, 2, 3, 4, 5), *refs("no/where", 6)]
    answers = for_host("github.com").observe(wanted, NOW)
    one, two, three, *gone, lost = (answers[ref] for ref in wanted)
    assert (one.state, one.merge_commit, one.mentions) == ("merged", sha("landed"), None)
    assert (two.state, two.merge_commit) == ("closed", None)
    assert (three.state, three.draft) == ("open", True)
    assert gone == [Gone(ref=ref, as_of=AS_OF) for ref in wanted[3:5]]
    assert isinstance(lost, Unanswered)
    assert "no repository no/where" in lost.reason
    assert all("authorization" not in seen.headers for seen in forge.seen)
    assert forge.graphql_calls == 0
    assert len(forge.asked("/repos/o/r")) == 6  # five, and once whether the repository is there


def test_the_limit_without_a_token_ends_the_asking(forge: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GH_TOKEN")
    forge.anonymous_left = 3
    for number in range(1, 9):
        forge.pull("o/r", number)
    wanted = refs("o/r", *range(1, 9))
    answers = for_host("github.com").observe(wanted, NOW)
    assert [isinstance(answers[ref], Pull) for ref in wanted] == [True] * 3 + [False] * 5
    assert len(forge.seen) == 3  # the third answer says that it is the last
    at = datetime.fromtimestamp(forge.reset, timezone.utc).strftime("%Y-%m-%dT%H:%M")
    for ref in wanted[3:]:
        assert answers[ref].reason.startswith(f"github.com: limit until {at}")
        assert answers[ref].retry_at.startswith(at)
        assert "gh auth login" in answers[ref].hint


@pytest.fixture
def history(tmp_path: Path) -> Callable[[str], str]:
    """A repository: `main` with two commits, `side` beside it; returns the SHA of a name."""
    directory = str(tmp_path / "git")
    subprocess_git(tmp_path, "init", "-q", "-b", "main", directory)
    for name in ("one", "two"):
        (tmp_path / "git" / name).write_text(f"{name}\n")
        commit(directory, name)
        git(directory, "tag", name)
    git(directory, "checkout", "-q", "-b", "side", "one")
    (tmp_path / "git" / "three").write_text("three\n")
    commit(directory, "three\n\n(cherry picked from commit 1234)")

    def full(name: str) -> str:
        return git(directory, "rev-parse", name)[1].decode().strip()

    return full


def subprocess_git(path: Path, *arguments: str) -> None:
    assert git(str(path), *arguments)[0] == 0


def commit(directory: str, message: str) -> None:
    git(directory, "add", "-A")
    date = ("-c", "user.name=t", "-c", "user.email=t@t")
    assert git(directory, *date, "commit", "-q", "-m", message)[0] == 0


def test_compare_tells_what_git_tells(forge: Server, tmp_path: Path, history: Callable[[str], str]) -> None:
    forge.pull("o/r", 1)
    forge.repositories["o/r"].git = str(tmp_path / "git")
    asked = for_host("github.com")
    one, two, side = history("one"), history("two"), history("side")
    pairs = [(one, two), (two, one), (one, one), (two, side)]
    assert [asked.compare("o/r", *pair) for pair in pairs] == ["ahead", "behind", "identical", "diverged"]
    assert asked.compare("o/r", one, "0" * 40) is None
    assert asked.compare("o/r", "one", "side") == "ahead"
    assert asked.commit("o/r", side).subject == "three"
    assert asked.commit("o/r", side).body == "(cherry picked from commit 1234)"
    assert asked.commit("o/r", "0" * 40) is None
    assert b"+++ b/three" in asked.commit_diff("o/r", side)
    assert asked.compare_diff("o/r", two, side) == git(str(tmp_path / "git"), "diff", f"{two}...{side}")[1]
    asked.close()


def test_addresses(monkeypatch: pytest.MonkeyPatch) -> None:
    assert addresses("github.com") == ("https://api.github.com", "https://api.github.com/graphql")
    assert addresses("octo.ghe.com") == ("https://api.octo.ghe.com", "https://api.octo.ghe.com/graphql")
    monkeypatch.setenv("GH_HOST", "git.corp.example")
    server = ("https://git.corp.example/api/v3", "https://git.corp.example/api/graphql")
    assert addresses("git.corp.example") == server
    monkeypatch.setenv("GITHUB_API_URL", "http://127.0.0.1:7/")
    assert addresses("github.com") == ("http://127.0.0.1:7", "http://127.0.0.1:7/graphql")
    monkeypatch.setenv("GITHUB_SERVER_URL", "https://git.corp.example")
    monkeypatch.setenv("GITHUB_API_URL", "https://git.corp.example/api/v3")
    assert addresses("git.corp.example") == server
    assert addresses("github.com")[0] == "https://api.github.com"


@pytest.mark.parametrize(
    ("host", "text"),
    [
        ("gitlab.com", "gitlab.com: expected GitHub or GitHub Enterprise, found GitLab, which patchkit cannot ask yet"),
        ("gitlab.corp.example", "found GitLab"),
        ("codeberg.org", "found Forgejo"),
        ("git.corp.example", "git.corp.example: nothing says which forge this is"),
    ],
)
def test_an_unknown_host_is_a_clear_error(host: str, text: str) -> None:
    with pytest.raises(ConfigError, match=text) as caught:
        for_host(host)
    assert caught.value.hint
    assert caught.value.exit_code == 2


def test_enterprise_server(forge: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GITHUB_SERVER_URL", "https://git.corp.example")
    monkeypatch.setenv("GITHUB_TOKEN", TOKEN)
    monkeypatch.delenv("GH_TOKEN")
    forge.pull("o/r", 1)
    ref = Ref.parse("git.corp.example/o/r#1")
    answer = for_host(ref.host).observe([ref], NOW)[ref]
    assert isinstance(answer, Pull)
    assert answer.ref == ref


@pytest.mark.parametrize(
    "answer",
    [
        [],
        {},
        {"data": 3},
        {"data": {"r0": {"p1": {"number": 2}}}},
        {"data": {"r0": {"p1": {"number": 1, "title": None, "state": "OPEN"}}}},
        {"data": {"r0": 7}},
        {"errors": "x"},
        {"errors": 5},
        {"data": {"r0": {"p1": {"number": 1, "title": "t", "state": "WEIRD"}}}},
    ],
    ids=repr,
)
def test_no_shape_of_an_answer_is_believed_or_breaks_it(answer: Any) -> None:
    (ref,) = refs("o/r", 1)
    try:
        found = parse(answer, build([ref]), AS_OF)
    except (MalformedError, RefusedQueryError):
        pass
    else:
        assert not isinstance(found.answers[ref], Pull | Gone)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(st.characters(), max_size=5) | st.just("\ud800"),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


def places(value: Any, at: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [at, *(place for key, item in inner for place in places(item, (*at, key)))]


def with_value(value: Any, at: tuple[Any, ...], new: Any) -> Any:
    if not at:
        return new
    changed = value.copy()
    changed[at[0]] = with_value(value[at[0]], at[1:], new)
    return changed


@settings(max_examples=400, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_an_answer_that_is_wrong_in_any_one_place_breaks_nothing(true_answer: Any, tmp_path: Path, data: Any) -> None:
    query, answer = true_answer
    wrong = with_value(answer, data.draw(st.sampled_from(places(answer))), data.draw(json_values))
    try:
        found = parse(wrong, query, AS_OF)
    except (MalformedError, RefusedQueryError) as error:
        assert str(error)
    else:
        assert set(found.answers) | set(found.again) == set(query.places)
        with Store(str(tmp_path)) as store:
            store.add(fact for fact in found.answers.values() if isinstance(fact, Pull | Gone))


@pytest.fixture(scope="module")
def true_answer(schema: Any) -> Any:
    server = Server(schema)
    server.pull("o/r", 3, title='Revert "it"', state="MERGED", merged_at="2026-08-12T16:53:00Z", merge_commit="a" * 40)
    server.pull("o/r", 1, state="CLOSED", closer="Land (#1)\n\nbody", mentioned_by=(("o/r", 3),))
    query = build(refs("o/r", 1, 2, 3))
    answer = server.execute({"query": query.text, "variables": query.variables})
    server.close()
    return query, json.loads(json.dumps(answer))


@pytest.mark.parametrize("body", [b"", b"<html>", b'{"a": ', b"[" * 100_000, b"\xff\xfe"])
def test_what_is_no_json(body: bytes) -> None:
    with pytest.raises(MalformedError, match="expected JSON, found"):
        decode(body)


@pytest.mark.parametrize(
    ("told", "read"),
    [
        ("2012-05-12T06:29:15-07:00", "2012-05-12T13:29:15Z"),
        ("2026-08-12T09:44:00Z", "2026-08-12T09:44:00Z"),
        ("2026-08-12T09:44:00.123Z", "2026-08-12T09:44:00Z"),
        (None, None),
    ],
)
def test_times_are_told_in_utc(told: str | None, read: str | None) -> None:
    assert time_of({"at": told}, "at") == read


@pytest.mark.parametrize("told", ["2026-13-12T09:44:00Z", "0001-01-01T00:00:00+23:00", "yesterday", "2026-08-12", 5])
def test_what_is_no_time(told: Any) -> None:
    with pytest.raises(MalformedError, match="a time as at"):
        time_of({"at": told}, "at")


def test_a_client_never_asks_for_more_than_it_was_told_to(forge: Server) -> None:
    asked = for_host("github.com")
    assert isinstance(asked, GitHub)
    assert asked.observe([], NOW) == {}
    assert forge.seen == []
