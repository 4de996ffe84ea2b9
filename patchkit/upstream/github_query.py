"""GitHub's GraphQL: one query for many pull requests, and what its answer says of each. Nothing is sent here.

Fields are those of GitHub's published schema (npm `@octokit/graphql-schema`); the tests validate the
query against it. An answer may be partial: `data` with nulls, and `errors` with the path of each
(https://spec.graphql.org/October2021/#sec-Errors); GitHub adds a `type`, such as NOT_FOUND.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any

from patchkit.upstream.facts import Commit, Gone, Mention, Pull, Ref
from patchkit.upstream.forge import Unanswered
from patchkit.upstream.github_json import MalformedError, flag, sha_of, text_of, tidy, time_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from patchkit.upstream.forge import Answer

MAX_PULLS = 20  # in one query: GitHub ends a query after ten seconds
MAX_MENTIONS = 50  # the latest of each pull request
MAX_BODY = 10_000  # characters of a mention's text: a trailer stands near its beginning

_FRAGMENT = """
fragment Facts on PullRequest {
  number title state isDraft baseRefName headRefOid createdAt updatedAt closedAt mergedAt
  mergeCommit { oid }
  closings: timelineItems(last: 3, itemTypes: [CLOSED_EVENT]) {
    nodes { ... on ClosedEvent { closer { ... on Commit { oid committedDate message } } } }
  }
  mentions: timelineItems(last: %d, itemTypes: [CROSS_REFERENCED_EVENT]) {
    nodes {
      ... on CrossReferencedEvent {
        source {
          ... on PullRequest {
            number title state body mergedAt
            mergeCommit { oid }
            repository { nameWithOwner isPrivate }
          }
        }
      }
    }
  }
}
"""


class Trouble(str, Enum):
    """What an answer without any data means for the next request."""

    LIMITED = "limited"  # wait until the limit is reset
    OVERLOAD = "overload"  # ask for less at once
    REFUSED = "refused"  # asking again does not help


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """A query and its variables, as they are sent, and which pull request stands at which two aliases."""

    text: str
    variables: Mapping[str, str]
    places: Mapping[Ref, tuple[str, str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Parsed:
    """What one answer said; `again` are those that the forge left out because the query was too large."""

    answers: Mapping[Ref, Answer]
    again: tuple[Ref, ...]


class RefusedQueryError(Exception):
    """An answer without data: what the forge says, and what it means."""

    def __init__(self, trouble: Trouble, message: str) -> None:
        super().__init__(message)
        self.trouble = trouble


def build(refs: Sequence[Ref]) -> Query:
    """Return the query for `refs`: of one host, any repositories, at most MAX_PULLS, each once."""
    assert 0 < len(refs) <= MAX_PULLS
    repositories: dict[str, list[Ref]] = {}
    for ref in refs:
        repositories.setdefault(ref.repo, []).append(ref)
    variables, places, parameters, parts = {}, {}, [], []
    for index, (repo, members) in enumerate(repositories.items()):
        owner, _, name = repo.partition("/")
        variables[f"o{index}"], variables[f"n{index}"] = owner, name
        parameters.append(f"$o{index}: String!, $n{index}: String!")
        aliases = " ".join(f"p{ref.number}: pullRequest(number: {ref.number}) {{ ...Facts }}" for ref in members)
        parts.append(
            f"  r{index}: repository(owner: $o{index}, name: $n{index}) {{ defaultBranchRef {{ name }} {aliases} }}"
        )
        places.update({ref: (f"r{index}", f"p{ref.number}") for ref in members})
    text = f"query({', '.join(parameters)}) {{\n" + "\n".join(parts) + "\n}" + _FRAGMENT % MAX_MENTIONS
    return Query(text=text, variables=variables, places=places)


def parse(answer: Any, query: Query, as_of: str) -> Parsed:
    """Return what `answer` (decoded JSON) says of the pull requests of `query`; `as_of` is when it was given.

    Raises `MalformedError` where it is no answer to a query, `RefusedQueryError` where it holds no data.
    """
    if not isinstance(answer, dict) or not ("data" in answer or "errors" in answer):
        raise MalformedError("a JSON object with data or errors", answer)
    told = answer.get("errors")
    errors = [error for error in told if isinstance(error, dict)] if isinstance(told, list) else []
    data = answer.get("data")
    if not isinstance(data, dict) or (errors and not any(data.values()) and not any(map(_path, errors))):
        raise _refusal(errors)
    answers: dict[Ref, Answer] = {}
    again = []
    for ref, place in query.places.items():
        found = _one(ref, place, data, errors, as_of)
        if found is None:
            again.append(ref)
        else:
            answers[ref] = found
    return Parsed(answers=answers, again=tuple(again))


def _one(
    ref: Ref, place: tuple[str, str], data: dict[str, Any], errors: list[dict[str, Any]], as_of: str
) -> Answer | None:
    """Return what is said of one pull request, None where it must be asked for again."""
    repository = data.get(place[0])
    node = repository.get(place[1]) if isinstance(repository, dict) else None
    if isinstance(node, dict):
        try:
            return _pull(ref, node, _default_branch(repository), as_of)
        except MalformedError as malformed:
            return Unanswered(ref=ref, reason=f"an answer that is no pull request: {malformed}")
    own = [error for error in errors if _path(error) == place]
    above = [error for error in errors if _path(error) in ((place[0],), ())]
    for error in (*own, *above):
        if _trouble(error) is Trouble.OVERLOAD:
            return None
        if error.get("type") != "NOT_FOUND":
            return Unanswered(ref=ref, reason=f"{_kind(error)}: {tidy(error.get('message'))}", hint=_hint(error))
        if error in own:
            return Gone(ref=ref, as_of=as_of)
        return no_repository(ref)
    return Unanswered(ref=ref, reason="the forge left it out and gave no reason")


def no_repository(ref: Ref) -> Unanswered:
    """Return the answer for a repository that is not there, or not for this token: the two look the same."""
    return Unanswered(
        ref=ref,
        reason=f"no repository {ref.repo} on {ref.host}, or none that may be seen",
        hint=f"correct the name, or give a token that may read it: gh auth login --hostname {ref.host}",
    )


def _default_branch(repository: Any) -> str | None:
    """Return the name of the default branch; an empty repository has none."""
    branch = repository.get("defaultBranchRef")
    return text_of(branch, "name") if isinstance(branch, dict) else None


def _pull(ref: Ref, node: dict[str, Any], default_branch: str | None, as_of: str) -> Pull:
    if node.get("number") != ref.number:
        raise MalformedError(f"number {ref.number}", node.get("number"))
    merged_at = time_of(node, "mergedAt")
    return Pull(
        ref=ref,
        title=tidy(text_of(node, "title")),
        state=_state(node),
        draft=flag(node, "isDraft"),
        base=text_of(node, "baseRefName"),
        head=sha_of(node, "headRefOid"),
        merge_commit=_merge_commit(node) if merged_at else None,
        created_at=time_of(node, "createdAt") or "",
        updated_at=time_of(node, "updatedAt") or "",
        closed_at=time_of(node, "closedAt"),
        merged_at=merged_at,
        closed_by=tuple(_closer(event["closer"]) for event in _nodes(node.get("closings")) or () if _has_commit(event)),
        mentions=_mentions(ref, node),
        default_branch=default_branch,
        as_of=as_of,
    )


def _state(node: dict[str, Any]) -> str:
    state = text_of(node, "state").lower()
    if state not in ("open", "closed", "merged"):
        raise MalformedError("state OPEN, CLOSED or MERGED", state)
    return state


def _merge_commit(node: dict[str, Any]) -> str | None:
    commit = node.get("mergeCommit")
    return sha_of(commit, "oid") if isinstance(commit, dict) else None


def _nodes(connection: Any) -> list[dict[str, Any]] | None:
    nodes = connection.get("nodes") if isinstance(connection, dict) else None
    return [node for node in nodes if isinstance(node, dict)] if isinstance(nodes, list) else None


def _has_commit(event: dict[str, Any]) -> bool:
    return isinstance(event.get("closer"), dict) and "oid" in event["closer"]


def _closer(node: dict[str, Any]) -> Commit:
    subject, _, body = text_of(node, "message").partition("\n")
    time = time_of(node, "committedDate") or ""
    return Commit(sha=sha_of(node, "oid"), time=time, subject=subject, body=body.lstrip("\n"))


def _mentions(ref: Ref, node: dict[str, Any]) -> tuple[Mention, ...] | None:
    """Return the pull requests that refer to this one, None where the forge kept them back.

    Those of private repositories are left out: what is known of a pull request is shared and committed.
    """
    events = _nodes(node.get("mentions"))
    if events is None:
        return None
    found: dict[Ref, Mention] = {}
    for event in events:
        source = event.get("source")
        repository = source.get("repository") if isinstance(source, dict) else None
        if not isinstance(source, dict) or not isinstance(repository, dict) or flag(repository, "isPrivate"):
            continue
        by = _ref(repository, source, ref.host)
        merged_at = time_of(source, "mergedAt")
        found[by] = Mention(
            ref=by,
            title=tidy(text_of(source, "title")),
            state=_state(source),
            body=text_of(source, "body")[:MAX_BODY],
            merge_commit=_merge_commit(source) if merged_at else None,
            merged_at=merged_at,
        )
    return tuple(found.values())


def _ref(repository: dict[str, Any], source: dict[str, Any], host: str) -> Ref:
    text = f"{text_of(repository, 'nameWithOwner')}#{source.get('number')}"
    try:
        found = Ref.parse(text)
    except ValueError:
        raise MalformedError("a pull request that refers to it", text) from None
    return Ref(repo=found.repo, number=found.number, host=host)


def _path(error: dict[str, Any]) -> tuple[Any, ...]:
    path = error.get("path")
    return tuple(path) if isinstance(path, list) else ()


def _kind(error: dict[str, Any]) -> str:
    extensions = error.get("extensions")
    if isinstance(extensions, dict) and extensions.get("saml_failure"):
        return "single sign-on"
    return tidy(error.get("type")).lower().replace("_", " ") or "refused"


def _hint(error: dict[str, Any]) -> str:
    if _kind(error) == "single sign-on":
        return "authorise the token for the organisation (its settings: Configure SSO), or: gh auth refresh"
    return "give a token that may read the repository" if error.get("type") == "FORBIDDEN" else ""


def _trouble(error: dict[str, Any]) -> Trouble:
    kind, message = str(error.get("type") or ""), str(error.get("message") or "").lower()
    if kind in ("RATE_LIMITED", "RATE_LIMIT") or "rate limit" in message:
        return Trouble.LIMITED
    if (
        kind in ("RESOURCE_LIMITS_EXCEEDED", "MAX_NODE_LIMIT_EXCEEDED", "INTERNAL", "SERVICE_UNAVAILABLE", "TIMEOUT")
        or "something went wrong" in message
        or "timeout" in message
        or "resource limits" in message
    ):
        return Trouble.OVERLOAD
    return Trouble.REFUSED


def _refusal(errors: list[dict[str, Any]]) -> RefusedQueryError:
    """Return what the errors of an answer without data mean: a limit before an overload before all else."""
    troubles = {_trouble(error): tidy(error.get("message")) for error in reversed(errors)}
    for trouble in Trouble:
        if trouble in troubles:
            return RefusedQueryError(trouble, troubles[trouble])
    return RefusedQueryError(Trouble.OVERLOAD, "an answer with neither data nor errors")
