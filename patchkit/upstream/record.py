"""The committed record, `patches/upstream.json`: what was known of each pull request, since when, and from where.

    {"version": 1, "pulls": {"ROCm/aiter#4494": {"state": "reverted", "as_of": "2026-09", ...}}}

Sorted, a line a fact, nothing that is not known: its diffs are small. `status --save` writes it; `status --offline`
and the waivers read it. `evidence` holds sentences: what was found, and where.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from dataclasses import dataclass, replace
from datetime import date, datetime, time, timezone
from typing import TYPE_CHECKING, Any

from patchkit.core.errors import ConfigError
from patchkit.upstream.facts import Evidence, Fate, Found, Ref, State

if TYPE_CHECKING:
    from collections.abc import Mapping

VERSION = 1
_TEXTS = (
    "title", "head", "landed_as", "landed_at", "reverted_as", "first_release", "merged_elsewhere", "as_of",
)  # fmt: skip
_REFS = ("reverted_by", "superseded_by")
_KEYS = {"state", "closed", "evidence", *_TEXTS, *_REFS}
#: A sentence that a machine wrote: what was asked, and the answer. Others were written by people, and stay.
_MADE = re.compile(r"[a-z][a-z -]*: (?:yes|no): ")
#: A date or a time in UTC; a date may be less exact: 2026, 2026-09, 2026-09-12.
_TIME = r"[0-9]{4}(?:-[0-9]{2}(?:-[0-9]{2}(?:T[0-9]{2}:[0-9]{2}:[0-9]{2}Z)?)?)?"
_FORMS = {
    "as_of": (_TIME, "a date or time in UTC"),
    "landed_at": (_TIME, "a date or time in UTC"),
    "head": (r"[0-9a-f]{40}", "40 hex digits of a commit"),
    "landed_as": (r"[0-9a-f]{40}", "40 hex digits of a commit"),
    "reverted_as": (r"[0-9a-f]{40}", "40 hex digits of a commit"),
}
_HINT = "correct it, or take the committed one: git checkout patches/upstream.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """What was known, by ref."""

    fates: Mapping[Ref, Fate]

    def as_of(self, date: str) -> Record:
        """What this record says of the time up to the end of `date` (ISO 8601, day or time)."""
        return Record(fates={ref: fate for ref, fate in self.fates.items() if is_by(fate.as_of, date)})


def is_by(when: str | None, date_: str) -> bool:
    """Whether `when` (of any exactness) lies, to its very end, not after the end of `date_`."""
    return when is not None and _end(when) <= _end(date_)


def last_day(text: str) -> date:
    """The last day that a date of any exactness may mean: of 2026-09 the 30th. Raises ValueError for none."""
    year, month, day = int(text[:4]), text[5:7], text[8:10]
    if day:
        return date(year, int(month), int(day))
    following = date(year + 1, 1, 1) if not month or month == "12" else date(year, int(month) + 1, 1)
    return date.fromordinal(following.toordinal() - 1)


def last_instant(text: str) -> datetime:
    """The last second that a date or time of any exactness may mean, in UTC. Raises ValueError for none."""
    if len(text) > 10:
        return datetime.fromisoformat(text.replace("Z", "+00:00"))
    return datetime.combine(last_day(text), time(23, 59, 59), timezone.utc)


def _end(text: str | None) -> datetime:
    """The last instant of `text`; the beginning of time for None."""
    return datetime.min.replace(tzinfo=timezone.utc) if text is None else last_instant(text)


def render(record: Record) -> str:
    """The file's text."""
    pulls = {str(ref): _plain(record.fates[ref]) for ref in sorted(record.fates, key=str)}
    return json.dumps({"version": VERSION, "pulls": pulls}, indent=2, ensure_ascii=False, sort_keys=True) + "\n"


def _plain(fate: Fate) -> dict[str, Any]:
    known: dict[str, Any] = {"state": fate.state.value, **({"closed": True} if fate.closed else {})}
    for name in (*_TEXTS, *_REFS):
        value = getattr(fate, name)
        if value not in (None, ""):
            known[name] = str(value)
    tried = (item for item in fate.evidence if item.found is not Found.NOT_TRIED)
    evidence = list(dict.fromkeys(_sentence(item) for item in tried))
    return {**known, "evidence": evidence} if evidence else known


def _sentence(evidence: Evidence) -> str:
    prefix = "" if evidence.question == "record" else f"{evidence.question}: {evidence.found.value}: "
    return prefix + evidence.detail


def parse(text: str, name: str) -> Record:
    """The record in `text`; `name` is the file's in messages. Raises ConfigError with every problem at once."""
    problems: list[str] = []

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        twice = [key for key, count in Counter(key for key, _ in pairs).items() if count > 1]
        problems.extend(f"{name}: the key {key!r} is there twice" for key in twice)
        return dict(pairs)

    try:
        document = json.loads(text, object_pairs_hook=unique)
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{name}: expected JSON: {error}", hint=_HINT) from None
    if not isinstance(document, dict) or document.get("version") != VERSION:
        found = document.get("version") if isinstance(document, dict) else type(document).__name__
        raise ConfigError(f"{name}: expected version {VERSION} of the record, found {found!r}", hint=_HINT)
    pulls = document.get("pulls")
    if not isinstance(pulls, dict):
        raise ConfigError(f"{name}: pulls: expected an object, found {type(pulls).__name__}", hint=_HINT)
    fates = {}
    for key, value in pulls.items():
        fate = _fate(key, value, f"{name}: pulls[{key!r}]", problems)
        if fate is not None:
            fates[fate.ref] = fate
    if problems:
        raise ConfigError(*problems, hint=_HINT)
    return Record(fates=fates)


def _fate(key: str, value: object, where: str, problems: list[str]) -> Fate | None:
    before = len(problems)
    ref = _ref(key, where, problems)
    if not isinstance(value, dict):
        problems.append(f"{where}: expected an object, found {type(value).__name__}")
        return None
    problems += [f"{where}.{name}: there is no such key" for name in sorted(set(value) - _KEYS)]
    states = [state.value for state in State]
    if value.get("state") not in states:
        problems.append(f"{where}.state: expected one of {', '.join(states)}, found {value.get('state')!r}")
    texts = {name: _text(name, value.get(name), f"{where}.{name}", problems) for name in _TEXTS}
    if texts["as_of"] is None and value.get("as_of") is None:
        problems.append(f"{where}.as_of: expected since when this is known, found nothing")
    refs = {name: None if value.get(name) is None else _ref(value[name], f"{where}.{name}", problems) for name in _REFS}
    evidence = value.get("evidence", [])
    if not isinstance(evidence, list) or not all(_is_text(item) for item in evidence):
        problems.append(f"{where}.evidence: expected a list of sentences")
    closed = value.get("closed", False)
    if not isinstance(closed, bool):
        problems.append(f"{where}.closed: expected true or false, found {closed!r}")
    if len(problems) > before or ref is None:
        return None
    told = tuple(Evidence(question="record", found=Found.YES, detail=sentence) for sentence in evidence)
    title = texts.pop("title") or ""
    return Fate(ref=ref, state=State(value["state"]), title=title, closed=closed, evidence=told, **texts, **refs)  # type: ignore[arg-type]


def _ref(value: object, where: str, problems: list[str]) -> Ref | None:
    try:
        return Ref.parse(value if isinstance(value, str) else repr(value))
    except ValueError as error:
        problems.append(f"{where}: {error}")
        return None


def _text(name: str, value: object, where: str, problems: list[str]) -> str | None:
    if value is None:
        return None
    form, meaning = _FORMS.get(name, (r"(?s).*", "a text"))
    if not _is_text(value) or not re.fullmatch(form, str(value)) or not (form is not _TIME or _is_time(str(value))):
        problems.append(f"{where}: expected {meaning}, found {value!r}")
        return None
    return str(value)


def _is_text(value: object) -> bool:
    """Whether `value` is a text that can be written as UTF-8."""
    return isinstance(value, str) and not any("\ud800" <= character <= "\udfff" for character in value)


def _is_time(text: str) -> bool:
    try:
        last_instant(text)
    except ValueError:
        return False
    return True


def combine(recorded: Fate | None, fresh: Fate | None) -> Fate | None:
    """One fate from what was recorded and what was found now: the newer one, with what only the older one knows.

    A landing that was recorded as taken back stays so until a later one is found: a forge that was not asked for
    what refers to the pull request says only "merged".
    """
    if recorded is None or fresh is None:
        return fresh if recorded is None else recorded
    if _end(recorded.as_of) > _end(fresh.as_of):
        recorded, fresh = fresh, recorded
    told = tuple(item for item in recorded.evidence if not _MADE.match(item.detail))
    evidence = tuple(dict.fromkeys((*told, *fresh.evidence)))
    filled = replace(
        fresh,
        evidence=evidence,
        **{
            name: getattr(fresh, name) or getattr(recorded, name)
            for name in ("title", "head", "landed_as", "landed_at", "superseded_by", "first_release")
        },
    )
    if fresh.state is State.UNKNOWN and _outlives(recorded, fresh):
        return replace(recorded, evidence=tuple(dict.fromkeys((*recorded.evidence, *fresh.evidence))))
    relanded = fresh.landed_as is not None and recorded.landed_as is not None and fresh.landed_as != recorded.landed_as
    if fresh.state is State.MERGED and recorded.state is State.REVERTED and not relanded:
        return replace(filled, state=State.REVERTED, reverted_by=recorded.reverted_by, reverted_as=recorded.reverted_as)
    landed_before = recorded.state is State.MERGED and recorded.landed_as is not None
    if fresh.state is State.ABANDONED and landed_before:  # closed by the bot that landed it: seen then, not seen now
        return replace(filled, state=State.MERGED)
    return filled


def _outlives(recorded: Fate, fresh: Fate) -> bool:
    """Whether what was known holds, though nothing is known now: but for an open one that is closed now."""
    if fresh.closed:
        return recorded.state not in (State.OPEN, State.DRAFT, State.UNKNOWN)
    return recorded.state is not State.UNKNOWN
