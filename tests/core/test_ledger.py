"""The ledger: written and read back whole; whatever is done to it, a DriftError; and its public keys."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from patchkit.core import journal as journals
from patchkit.core.errors import DriftError
from patchkit.core.journal import Entry, Journal
from patchkit.core.ledger import Kept, KeptDir, Ledger, LedgerFile, LedgerStep, parse, render
from tests.core.jsons import mutations, sealed_text
from tests.core.test_lockfile import changes, digests, paths, texts

owners = st.none() | st.integers(0, 2**31)
kept = st.builds(
    Kept,
    sha256=digests,
    kind=st.sampled_from(["file", "link"]),
    mode=st.integers(0, 0o7777),
    uid=owners,
    gid=owners,
    xattrs=st.dictionaries(texts, st.binary(max_size=4).map(bytes.hex), max_size=2).map(
        lambda d: tuple(sorted(d.items()))
    ),
)
ledgers = st.builds(
    Ledger,
    image=texts,
    version=st.integers(),
    lock=texts,
    stand_in=st.booleans(),
    pinned=st.booleans(),
    steps=st.lists(
        st.builds(
            LedgerStep, id=texts, spec=texts, upstream=st.booleans(), changes=st.lists(changes, max_size=2).map(tuple)
        ),
        max_size=2,
    ).map(tuple),
    files=st.dictionaries(
        paths,
        st.builds(
            LedgerFile, before=st.none() | kept, after=st.none() | kept, steps=st.lists(texts, max_size=2).map(tuple)
        ),
        max_size=3,
    ),
    dirs_created=st.lists(paths, max_size=2).map(tuple),
    dirs_removed=st.lists(
        st.builds(KeptDir, path=paths, mode=st.integers(0, 0o7777), uid=st.integers(0), gid=st.integers(0)), max_size=2
    ).map(tuple),
)
entries = st.one_of(
    st.builds(Entry, path=paths, before=st.none() | kept, after=kept, temp=paths),
    st.builds(Entry, path=paths, before=st.none() | kept, after=st.none(), temp=st.none()),
)
all_journals = st.builds(
    Journal,
    phase=st.sampled_from(["prepare", "commit"]),
    entries=st.lists(entries, max_size=3).map(tuple),
    temp_dirs=st.lists(paths, max_size=2).map(tuple),
    moves=st.lists(st.tuples(paths, paths), max_size=2).map(tuple),
    rmdirs=st.lists(paths, max_size=2).map(tuple),
    ledger=st.just("") | digests,
)
LEDGER = Ledger(
    image="i",
    version=1,
    lock="sha256:" + "a" * 64,
    stand_in=True,
    pinned=False,
    steps=(LedgerStep(id="s", spec="sha256:x", upstream=False, changes=()),),
    files={
        "a/b": LedgerFile(
            before=Kept(sha256="b" * 64, kind="file", mode=0o644, uid=0, gid=0, xattrs=(("user.x", "00"),)),
            after=None,
            steps=("s",),
        )
    },
    dirs_created=("c",),
    dirs_removed=(KeptDir(path="a", mode=0o755, uid=0, gid=0),),
)
JOURNAL = Journal(
    phase="commit",
    entries=(Entry(path="a", before=None, after=LEDGER.files["a/b"].before, temp=".patchkit-1.tmp"),),
    temp_dirs=("t",),
    moves=((".patchkit-1.tmp", "a"),),
    rmdirs=("r",),
    ledger="c" * 64,
)


@settings(max_examples=60, deadline=None)
@given(ledger=ledgers, journal=all_journals)
def test_read_back_as_written(ledger: Ledger, journal: Journal) -> None:
    assert parse(render(ledger).encode("ascii"), "x") == ledger
    assert journals.parse(journals.render(journal).encode("ascii"), "x") == journal


def test_the_keys_that_a_serving_process_reads() -> None:
    """A patched vLLM reports these: they are a contract."""
    document = json.loads(render(LEDGER))
    assert document["format"] == 1
    assert document["image"] == "i"
    assert document["stack"] == {"version": 1, "lock": "sha256:" + "a" * 64}
    assert document["stand_in"] is True
    assert [step["id"] for step in document["steps"]] == ["s"]


@settings(max_examples=300, deadline=None)
@given(document=mutations(json.loads(render(LEDGER))))
def test_any_mutation_of_a_ledger(document: Any) -> None:
    try:
        ledger = parse(sealed_text(document), "/site/.patchkit/ledger.json")
    except DriftError as error:
        assert str(error).startswith("/site/.patchkit/ledger.json: ")
        return
    assert parse(render(ledger).encode(), "again") == ledger


@settings(max_examples=300, deadline=None)
@given(document=mutations(json.loads(journals.render(JOURNAL))))
def test_any_mutation_of_a_journal(document: Any) -> None:
    try:
        journal = journals.parse(sealed_text(document), "/site/.patchkit/journal.json")
    except DriftError as error:
        assert str(error).startswith("/site/.patchkit/journal.json: it is no whole journal: ")
        return
    assert journals.parse(journals.render(journal).encode(), "again") == journal


@settings(max_examples=60, deadline=None)
@given(text=st.binary(max_size=40))
def test_any_bytes(text: bytes) -> None:
    for read in (parse, journals.parse):
        with pytest.raises(DriftError):
            read(text, "x")
