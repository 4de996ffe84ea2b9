"""What is known of pull requests now: from the store where that is young enough, else from the forges.

Nothing is lost by a failure: whatever was known before is told, with its age and with what failed.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta, timezone
from typing import TYPE_CHECKING

from patchkit.core.errors import ConfigError, PatchkitError, UnreachableError
from patchkit.io.progress import working
from patchkit.upstream.facts import Gone, Pull
from patchkit.upstream.forge import Unanswered, iso
from patchkit.upstream.store import Compared

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from patchkit.upstream.facts import Ref
    from patchkit.upstream.forge import Answer, Forge
    from patchkit.upstream.store import Store

TIME_TO_LIVE = timedelta(minutes=15)
_FULL_SHA = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """What is known of one pull request.

    `fact` is None where nothing is; `age` is the time from its `as_of` to now; `failure` is why nothing
    newer is known, None where the fact is as new as was asked for.
    """

    ref: Ref
    fact: Pull | Gone | None
    age: timedelta | None
    failure: Unanswered | None


def observe(
    refs: Iterable[Ref],
    store: Store,
    forge: Callable[[str], Forge],
    *,
    now: datetime,
    ttl: timedelta = TIME_TO_LIVE,
    offline: bool = False,
    as_of: date | None = None,
) -> dict[Ref, Observed]:
    """Return what is known of each of `refs`, in their order.

    `forge(host)` gives a host's forge (`hosts.Forges`); it is called only for hosts that must be asked:
    those of pull requests of which nothing is known that is younger than `ttl`. With `offline`, or an `as_of`
    (then nothing counts that was said after that time, or after the end of that day, UTC), nothing is asked. `now` has a zone.
    Raises what the store raises; failures of forges are in the answer.
    """
    wanted = list(dict.fromkeys(refs))
    before = None if as_of is None else iso(_after(as_of))
    known: dict[Ref, Pull | Gone | None] = {ref: store.newest(ref, before) for ref in wanted}
    failures: dict[Ref, Unanswered] = {}
    if not offline and as_of is None:
        hosts: dict[str, list[Ref]] = {}
        for ref in wanted:
            if not _is_young(known[ref], now, ttl):
                hosts.setdefault(ref.host.lower(), []).append(ref)
        for host, members in hosts.items():
            answers = _ask(host, members, store, forge, now)
            failures.update({ref: answer for ref, answer in answers.items() if isinstance(answer, Unanswered)})
            known.update({ref: answer for ref, answer in answers.items() if not isinstance(answer, Unanswered)})
    return {
        ref: Observed(ref=ref, fact=fact, age=_age(fact, now), failure=failures.get(ref)) for ref, fact in known.items()
    }


def _after(as_of: date) -> datetime:
    """The first second after a day (UTC) or a time."""
    if isinstance(as_of, datetime):
        return as_of + timedelta(seconds=1)
    return datetime(as_of.year, as_of.month, as_of.day, tzinfo=timezone.utc) + timedelta(days=1)


def require_something(observed: Mapping[Ref, Observed]) -> None:
    """Raise `UnreachableError` where pull requests were asked for, all failed, and nothing is known of any."""
    failures = [one.failure for one in observed.values() if one.fact is None and one.failure is not None]
    if failures and len(failures) == len(observed):
        problems = dict.fromkeys(failure.reason for failure in failures)
        raise UnreachableError(*problems, hint=next((failure.hint for failure in failures if failure.hint), ""))


def compare(
    forge: Callable[[str], Forge], store: Store, host: str, repo: str, base: str, head: str, *, offline: bool = False
) -> str | None:
    """Return one of `forge.COMPARE_STATES` for two commits of `repo`, None where that is not known.

    Two full SHAs are asked for once and never again; names (a tag, a branch) every time. Raises
    `UnreachableError` where the forge fails, `ConfigError` for an unknown host.
    """
    host = host.lower()
    lasting = all(_FULL_SHA.fullmatch(name) for name in (base, head))
    status = store.compared(host, repo, base, head) if lasting else None
    if status is not None or offline:
        return status
    with working(f"asking {host} to compare commits of {repo}"):
        status = forge(host).compare(repo, base, head)
    if status is not None and lasting:
        store.add_compared(Compared(host=host, repo=repo, base=base, head=head, status=status))
    return status


def commit_diff(
    forge: Callable[[str], Forge], store: Store, host: str, repo: str, sha: str, *, offline: bool = False
) -> bytes | None:
    """Return what commit `sha` (a full SHA) changes as a unified diff, asked for once; None and errors as `compare`."""
    host = host.lower()
    key = f"commit-diff {host}/{repo}@{sha}"
    return _object(store, key, lambda: forge(host).commit_diff(repo, sha), offline)


def pull_diff(forge: Callable[[str], Forge], store: Store, pull: Pull, *, offline: bool = False) -> bytes | None:
    """Return what `pull` changes as a unified diff, asked for once a head; None and errors as `compare`."""
    key = f"pull-diff {pull.ref}@{pull.head}"
    return _object(store, key, lambda: forge(pull.ref.host).pull_diff(pull.ref), offline)


def _object(store: Store, key: str, ask: Callable[[], bytes | None], offline: bool) -> bytes | None:
    kept = store.object(key)
    if kept is not None or offline:
        return kept
    with working(f"asking for the {key}"):
        data = ask()
    if data is not None:
        store.add_object(key, data)
    return data


def _ask(
    host: str, refs: Sequence[Ref], store: Store, forge: Callable[[str], Forge], now: datetime
) -> dict[Ref, Answer]:
    """Ask one host, keep each batch as it comes, and return the answers that may be believed."""
    try:
        asked = forge(host)
    except ConfigError as error:
        return {ref: Unanswered(ref=ref, reason=str(error), hint=error.hint) for ref in refs}
    answers: dict[Ref, Answer] = {}

    def keep(some: Mapping[Ref, Answer]) -> None:
        news = {ref: _believed(answer, store) for ref, answer in some.items()}
        answers.update(news)
        store.add(fact for fact in news.values() if isinstance(fact, Pull | Gone))

    with working(f"asking {host} about {len(refs)} pull request{'s' if len(refs) > 1 else ''}"):
        asked.observe(refs, now, keep)
    return answers


def _believed(answer: Answer, store: Store) -> Answer:
    """Return an answer, but what is known where that was updated later: a copy that lags behind told it."""
    if not isinstance(answer, Pull):
        return answer
    known = store.newest(answer.ref)
    if isinstance(known, Pull) and known.updated_at > answer.updated_at:
        return known
    if isinstance(known, Pull) and answer.mentions is None and known.updated_at == answer.updated_at:
        # REST cannot tell these of a pull request that did not change since GraphQL told them
        return replace(answer, mentions=known.mentions, closed_by=known.closed_by)
    return answer


def _is_young(fact: Pull | Gone | None, now: datetime, ttl: timedelta) -> bool:
    age = _age(fact, now)
    return age is not None and -ttl < age < ttl


def _age(fact: Pull | Gone | None, now: datetime) -> timedelta | None:
    if fact is None:
        return None
    try:
        return now - datetime.fromisoformat(fact.as_of.replace("Z", "+00:00"))
    except ValueError as error:
        raise PatchkitError(f"{fact.ref}: as_of {fact.as_of!r} is no time") from error
