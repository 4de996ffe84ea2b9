"""The store: nothing is lost or changed, several processes write at once, and damage is moved aside."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from patchkit.core.errors import BusyError, RefusedByMachineError
from patchkit.upstream.facts import Commit, Gone, Mention, Pull, Ref
from patchkit.upstream.payload import from_json, to_json
from patchkit.upstream.store import Compared, Store

if TYPE_CHECKING:
    from pathlib import Path

REF = Ref.parse("ROCm/aiter#4494")
SHA = "a" * 40


def pull(as_of: str, **more: Any) -> Pull:
    facts = {
        "title": "Fix",
        "state": "open",
        "draft": False,
        "base": "main",
        "head": SHA,
        "merge_commit": None,
        "created_at": "2026-08-01T00:00:00Z",
        "updated_at": "2026-08-02T00:00:00Z",
        "closed_at": None,
        "merged_at": None,
    }
    return Pull(ref=REF, as_of=as_of, **{**facts, **more})


text = st.text(max_size=20)
optional = st.none() | text
commits = st.builds(Commit, sha=text, time=text, subject=text, body=text)
ref_texts = st.sampled_from(["o/r#1", "git.corp.example/o/r#22"]).map(Ref.parse)
mentions = st.builds(
    Mention, ref=ref_texts, title=text, state=text, body=text, merge_commit=optional, merged_at=optional
)
pulls = st.builds(
    Pull, ref=ref_texts, title=text, state=text, draft=st.booleans(), base=text, head=text, merge_commit=optional,
    created_at=text, updated_at=text, closed_at=optional, merged_at=optional,
    closed_by=st.lists(commits, max_size=2).map(tuple),
    mentions=st.none() | st.lists(mentions, max_size=2).map(tuple), as_of=text,
)  # fmt: skip


@given(fact=pulls | st.builds(Gone, ref=ref_texts, as_of=text))
def test_facts_come_back_as_they_went(fact: Pull | Gone) -> None:
    kind, content = to_json(fact)
    assert from_json(fact.ref, kind, content, fact.as_of) == fact
    assert "as_of" not in content


@pytest.mark.parametrize(
    ("kind", "content"), [("pull", {}), ("pull", []), ("pull", None), ("other", {}), ("pull", {"closed_by": 3})]
)
def test_no_fact_is_made_of_anything_else(kind: str, content: Any) -> None:
    with pytest.raises(ValueError, match=r"no fact|kind"):
        from_json(REF, kind, content, "2026-08-01T00:00:00Z")


def test_nothing_is_made_before_something_is_written(tmp_path: Path) -> None:
    with Store(str(tmp_path / "cache")) as store:
        assert store.newest(REF) is None
        assert store.compared("github.com", "o/r", SHA, SHA) is None
        assert store.tagged("", "u") is None
    assert list(tmp_path.iterdir()) == []


def test_observations_are_only_added(tmp_path: Path) -> None:
    first, same, landed = (
        pull("2026-08-10T06:00:00Z"),
        pull("2026-08-11T06:00:00Z"),
        pull("2026-08-12T12:00:00Z", state="merged", merged_at="2026-08-12T09:44:00Z", merge_commit=SHA),
    )
    with Store(str(tmp_path)) as store:
        assert store.newest(REF) is None
        store.add([landed])
        store.add([first, same])
        store.add([Gone(ref=REF, as_of="2026-08-20T00:00:00Z")])
        store.add([pull("2026-08-11T06:00:00Z", title="another at the same instant")])
    with Store(str(tmp_path)) as store:
        assert store.newest(REF) == Gone(ref=REF, as_of="2026-08-20T00:00:00Z")
        assert store.newest(REF, "2026-08-20T00:00:00Z") == landed
        assert store.newest(REF, "2026-08-12T00:00:00Z") == same
        assert store.newest(REF, "2026-08-11T00:00:00Z") == first
        assert store.newest(REF, "2026-08-10T00:00:00Z") is None
        assert store.newest(Ref.parse("ROCm/aiter#449")) is None
    with sqlite3.connect(tmp_path / "upstream.sqlite") as connection:
        assert connection.execute("SELECT count(*) FROM sightings").fetchone() == (4,)
    connection.close()


def test_compares_objects_and_tagged_bodies(tmp_path: Path) -> None:
    with Store(str(tmp_path)) as store:
        store.add_compared(Compared(host="github.com", repo="o/r", base=SHA, head="b" * 40, status="ahead"))
        store.add_compared(Compared(host="github.com", repo="o/r", base=SHA, head="b" * 40, status="behind"))
        store.add_object("diff", b"\0\xff")
        store.keep_tagged("me", "u", "one", b"1")
        store.keep_tagged("me", "u", "two", b"2")
        assert store.compared("github.com", "o/r", SHA, "b" * 40) == "ahead"
        assert store.compared("github.com", "o/r", "b" * 40, SHA) is None
        assert store.object("diff") == b"\0\xff"
        assert store.tagged("me", "u") == ("two", b"2")
        assert store.tagged("you", "u") is None
    assert (tmp_path / "upstream.sqlite").stat().st_mode & 0o777 == 0o600


WRITER = """
import sys
from patchkit.upstream.facts import Gone, Ref
from patchkit.upstream.store import Store
me = int(sys.argv[2])
with Store(sys.argv[1]) as store:
    for number in range(1, 11):
        store.add([Gone(ref=Ref(repo="o/r", number=number), as_of=f"2026-08-{me:02}T00:00:00Z")])
"""


def test_several_processes_write_at_once(tmp_path: Path) -> None:
    writers = [subprocess.Popen([sys.executable, "-c", WRITER, str(tmp_path), str(me)]) for me in range(1, 5)]
    assert [writer.wait(timeout=60) for writer in writers] == [0] * 4
    with Store(str(tmp_path)) as store:
        store.add([])
        for number in range(1, 11):
            ref = Ref(repo="o/r", number=number)
            assert store.newest(ref) == Gone(ref=ref, as_of="2026-08-04T00:00:00Z")
    with sqlite3.connect(tmp_path / "upstream.sqlite") as connection:
        assert connection.execute("SELECT count(*) FROM sightings").fetchone() == (40,)
    connection.close()


def test_a_writer_that_is_killed_leaves_a_whole_store(tmp_path: Path) -> None:
    endless = WRITER.replace("range(1, 11)", "__import__('itertools').count(1)").replace(
        "        store.add", "        print(number, flush=True)\n        store.add"
    )
    for me in range(1, 4):
        writer = subprocess.Popen([sys.executable, "-c", endless, str(tmp_path), str(me)], stdout=subprocess.PIPE)
        assert writer.stdout is not None
        for _ in range(5 * me):
            last = int(writer.stdout.readline())
        writer.kill()
        writer.wait()
        writer.stdout.close()
        with Store(str(tmp_path)) as store:
            assert store.newest(Ref(repo="o/r", number=last - 1)) is not None


@pytest.mark.parametrize("damage", ["text", "header", "middle"])
def test_a_damaged_file_is_moved_aside_and_never_lost(tmp_path: Path, damage: str) -> None:
    with Store(str(tmp_path)) as store:
        store.add([pull("2026-08-10T06:00:00Z")])
    path = tmp_path / "upstream.sqlite"
    data = bytearray(path.read_bytes())
    if damage == "text":
        data = bytearray(b"hello\n" * 500)
    else:
        begin = 0 if damage == "header" else 100
        data[begin : begin + 200] = b"\xee" * 200
    path.write_bytes(data)
    with Store(str(tmp_path)) as store:
        assert store.newest(REF) is None
        (note,) = store.notes
        store.add([pull("2026-08-11T06:00:00Z")])
        assert store.newest(REF) == pull("2026-08-11T06:00:00Z")
    aside = tmp_path / "upstream.sqlite.damaged-1"
    assert aside.read_bytes() == data
    assert note == f"{path}: damaged; it is kept as {aside}, a new one is begun"


def test_damage_that_shows_later_is_refused_with_the_way_out(tmp_path: Path) -> None:
    with Store(str(tmp_path)) as store:
        store.add([pull(f"2026-08-10T06:00:{second:02}Z", title="x" * 3000 + str(second)) for second in range(60)])
    path = tmp_path / "upstream.sqlite"
    data = bytearray(path.read_bytes())
    data[4096 * 2 :] = b"\xee" * (len(data) - 4096 * 2)
    path.write_bytes(data)
    with Store(str(tmp_path)) as store, pytest.raises(RefusedByMachineError, match="expected the store") as caught:
        store.newest(REF)
    assert caught.value.hint.startswith(f"mv {path} {path}.aside")
    assert path.read_bytes() == data


@pytest.mark.parametrize(
    ("statement", "found"),
    [
        ("PRAGMA user_version = 9", "version 9; this patchkit knows 1"),
        ("PRAGMA application_id = 7", "another program's database"),
    ],
)
def test_files_of_others_are_left_alone(tmp_path: Path, statement: str, found: str) -> None:
    with Store(str(tmp_path)) as store:
        store.add([])
    with sqlite3.connect(tmp_path / "upstream.sqlite") as connection:
        connection.execute(statement)
    connection.close()
    before = (tmp_path / "upstream.sqlite").read_bytes()
    with Store(str(tmp_path)) as store, pytest.raises(RefusedByMachineError, match=found):
        store.add([pull("2026-08-10T06:00:00Z")])
    assert (tmp_path / "upstream.sqlite").read_bytes() == before


def test_a_held_file_is_busy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("patchkit.upstream.store._BUSY_SECONDS", 0.1)
    with Store(str(tmp_path)) as store:
        store.add([])
    holder = sqlite3.connect(tmp_path / "upstream.sqlite", isolation_level=None)
    holder.execute("BEGIN EXCLUSIVE")
    try:
        with Store(str(tmp_path)) as store, pytest.raises(BusyError, match="another process has held it"):
            store.add([])
    finally:
        holder.close()


def test_a_directory_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with Store(str(tmp_path / "file")) as store, pytest.raises(RefusedByMachineError) as caught:
        store.add([])
    assert "PATCHKIT_CACHE" in caught.value.hint
    assert os.listdir(tmp_path) == ["file"]
