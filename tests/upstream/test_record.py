"""patches/upstream.json: parse(render(x)) = x, every problem at once, and how an older word and a newer one combine."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from patchkit.core.errors import ConfigError
from patchkit.upstream.facts import Evidence, Fate, Found, Ref, State
from patchkit.upstream.record import Record, combine, is_by, parse, render

ROOT = Path(__file__).parents[2]
SHA = st.text("0123456789abcdef", min_size=40, max_size=40)
TIMES = st.sampled_from(["2026", "2026-09", "2026-09-12", "2026-09-12T09:44:00Z"])
REFS = st.builds(
    Ref,
    repo=st.sampled_from(["ROCm/aiter", "vllm-project/vllm"]),
    number=st.integers(1, 99999),
    host=st.sampled_from(["github.com", "git.example.com"]),
)
FATES = st.builds(
    Fate,
    ref=REFS,
    state=st.sampled_from(State),
    title=st.text(),
    head=st.none() | SHA,
    landed_as=st.none() | SHA,
    landed_at=st.none() | TIMES,
    reverted_by=st.none() | REFS,
    reverted_as=st.none() | SHA,
    superseded_by=st.none() | REFS,
    first_release=st.none() | st.just("0.28.0"),
    as_of=TIMES,
    merged_elsewhere=st.none() | st.just("feature"),
    evidence=st.lists(
        st.builds(Evidence, question=st.just("record"), found=st.just(Found.YES), detail=st.text(min_size=1)),
        unique=True,
    ).map(tuple),
)


@given(st.lists(FATES, unique_by=lambda fate: fate.ref))
def test_what_is_written_is_read(fates: list[Fate]) -> None:
    record = Record(fates={fate.ref: fate for fate in fates})
    assert parse(render(record), "upstream.json") == record
    assert render(parse(render(record), "upstream.json")) == render(record)


def test_the_shipped_record_is_as_it_would_be_written() -> None:
    text = (ROOT / "patches/upstream.json").read_text()
    assert render(parse(text, "upstream.json")) == text


BAD: dict[str, tuple[Any, tuple[str, ...]]] = {
    "no object": ([], ("u: expected version 1 of the record, found 'list'",)),
    "another version": ({"version": 2}, ("u: expected version 1 of the record, found 2",)),
    "no pulls": ({"version": 1}, ("u: pulls: expected an object, found NoneType",)),
    "several at once": (
        {
            "version": 1,
            "pulls": {
                "aiter#1": {"state": "merged", "as_of": "2026"},
                "a/b#1": {"state": "landed", "landed_as": "c6ce60c", "by": "me"},
            },
        },
        (
            "u: pulls['aiter#1']: expected owner/repo#N, found 'aiter#1'",
            "u: pulls['a/b#1'].by: there is no such key",
            (
                "u: pulls['a/b#1'].state: expected one of open, draft, merged, reverted, superseded, abandoned, gone,"
                " unknown, found 'landed'"
            ),
            "u: pulls['a/b#1'].landed_as: expected 40 hex digits of a commit, found 'c6ce60c'",
            "u: pulls['a/b#1'].as_of: expected since when this is known, found nothing",
        ),
    ),
}

for time in ("2026-19", "2026-02-31", "0000", "2026-09-01T25:00:00Z"):
    BAD[f"no date: {time}"] = (
        {"version": 1, "pulls": {"a/b#1": {"state": "open", "as_of": time}}},
        (f"u: pulls['a/b#1'].as_of: expected a date or time in UTC, found {time!r}",),
    )
BAD["a text that is none"] = (
    {"version": 1, "pulls": {"a/b#1": {"state": "open", "as_of": "2026", "title": "\ud800"}}},
    ("u: pulls['a/b#1'].title: expected a text, found '\\ud800'",),
)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[" * 100_000, "u: expected JSON: "),
        ('{"version": 1, "version": 1, "pulls": {}}', "u: the key 'version' is there twice"),
        ('{"version": 1, "pulls": {"a/b#1": {}, "a/b#1": {}}}', "u: the key 'a/b#1' is there twice"),
    ],
)
def test_json_that_is_damaged(text: str, problem: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse(text, "u")
    assert caught.value.problems[0].startswith(problem)


@pytest.mark.parametrize("name", BAD)
def test_every_problem_at_once(name: str) -> None:
    document, problems = BAD[name]
    with pytest.raises(ConfigError) as caught:
        parse(json.dumps(document), "u")
    assert caught.value.problems == problems


@given(st.binary())
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    try:
        parse(data.decode("utf-8", "replace"), "u")
    except ConfigError as error:
        assert error.hint


def test_what_is_less_exact_counts_to_its_end() -> None:
    assert is_by("2026-09-12T09:44:00Z", "2026-09-12")
    assert is_by("2026-09", "2026-09-30")
    assert is_by("2024-02", "2024-02-29")
    assert not is_by("2026-09", "2026-09-29")
    assert not is_by("2026-09", "2026-09-30T23:59:58Z")
    assert is_by("2026-09", "2026-10-01")
    assert not is_by("2026-10-01T00:00:00Z", "2026-09")
    assert not is_by(None, "2026")


def at(time: str, state: State, **facts: Any) -> Fate:
    ref = Ref.parse("a/b#1")
    unknown = dict.fromkeys(
        ("head", "landed_as", "landed_at", "reverted_by", "reverted_as", "superseded_by", "first_release")
    )
    return Fate(**{**unknown, "ref": ref, "title": "", "state": state, "as_of": time, **facts})


A, B, R = "a" * 40, "b" * 40, "c" * 40


def test_a_recorded_revert_outlives_a_forge_that_only_says_merged() -> None:
    recorded = at("2026-09", State.REVERTED, landed_as=A, reverted_as=R, reverted_by=Ref.parse("a/b#2"))
    combined = combine(recorded, at("2026-12-01", State.MERGED, landed_as=A))
    assert combined is not None
    assert (combined.state, combined.reverted_as, combined.as_of) == (State.REVERTED, R, "2026-12-01")
    relanded = combine(recorded, at("2026-12-01", State.MERGED, landed_as=B))
    assert relanded is not None
    assert (relanded.state, relanded.landed_as, relanded.reverted_as) == (State.MERGED, B, None)


def test_the_newer_word_counts_and_keeps_what_only_the_older_knows() -> None:
    old = at("2026-09", State.OPEN, title="T", first_release="1.0", head=A)
    new = at("2026-12-01", State.MERGED, landed_as=B, head=B)
    for combined in (combine(old, new), combine(new, old)):
        assert combined is not None
        assert (combined.state, combined.title, combined.head, combined.first_release) == (State.MERGED, "T", B, "1.0")


def test_what_was_open_and_is_closed_now_is_not_open() -> None:
    closed = at("2026-12-01", State.UNKNOWN, closed=True)
    combined = combine(at("2026-09", State.OPEN, title="T"), closed)
    assert combined is not None
    assert (combined.state, combined.closed, combined.title) == (State.UNKNOWN, True, "T")
    landed = combine(at("2026-09", State.MERGED, landed_as=A), closed)
    assert landed is not None
    assert landed.state is State.MERGED


def test_sentences_of_people_stay_and_those_of_machines_are_renewed() -> None:
    def sentence(text: str) -> Evidence:
        return Evidence(question="record", found=Found.YES, detail=text)

    old = at("2026-09", State.OPEN, evidence=(sentence("seen in its release notes"), sentence("subject: no: none")))
    new = at("2026-12-01", State.MERGED, evidence=(Evidence(question="subject", found=Found.YES, detail="here"),))
    text = render(Record(fates={new.ref: combine(old, new) or new}))
    assert "seen in its release notes" in text
    assert "subject: yes: here" in text
    assert "subject: no" not in text


@given(FATES.filter(lambda fate: fate.as_of != "2026" and fate.state is not State.UNKNOWN))
def test_unknown_takes_nothing_away(fate: Fate) -> None:
    unknown = at("2026-12-01", State.UNKNOWN)
    combined = combine(fate, unknown)
    assert combined is not None
    assert (combined.state, combined.landed_as, combined.as_of) == (fate.state, fate.landed_as, fate.as_of)
    assert combine(None, fate) == combine(fate, None) == fate


def test_of_two_that_know_nothing_the_one_with_a_date_stays() -> None:
    dated, never = at("2026-09", State.UNKNOWN), replace(at("2026", State.UNKNOWN), as_of=None)
    for combined in (combine(dated, never), combine(never, dated)):
        assert combined is not None
        assert combined.as_of == "2026-09"
