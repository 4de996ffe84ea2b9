"""The lock: written and read back whole; whatever is done to it, a ConfigError and never a traceback."""

from __future__ import annotations

import copy
import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from patchkit.core.errors import ConfigError
from patchkit.core.lockfile import (
    FileChange,
    FileRef,
    Lock,
    LockedImage,
    LockedInput,
    LockedSource,
    LockedStep,
    Unknown,
    parse,
    render,
)
from patchkit.core.verdicts import Change
from tests.core.jsons import mutations, sealed_text
from tests.core.stacks import build, diff, numbered

texts = st.text(max_size=12)
names = st.text("abcdé-_.0 \udcff", min_size=1, max_size=6).filter(lambda name: name not in (".", "..", ".patchkit"))
paths = st.lists(names, min_size=1, max_size=3).map("/".join)
digests = st.text("0123456789abcdef", min_size=64, max_size=64)
refs = st.none() | st.builds(
    FileRef, sha256=digests, mode=st.integers(0, 0o7777), kind=st.sampled_from(["file", "link"])
)
states = st.dictionaries(paths, refs, max_size=3)
changes = st.builds(FileChange, path=paths, change=st.sampled_from(Change), source=st.none() | paths)
inputs = st.none() | st.builds(LockedInput, path=st.none() | paths, url=st.none() | texts, sha256=digests)
patch = st.fixed_dictionaries(
    {
        "commit": st.none() | texts,
        "paths": st.lists(texts, max_size=2),
        "strip": st.integers(0, 3),
        "prefix": st.none() | texts,
    }
)
steps = st.builds(
    LockedStep,
    id=texts,
    kind=st.just("patch"),
    action=patch,
    stage=st.sampled_from(["build", "runtime"]),
    type=texts,
    upstream=st.lists(texts, max_size=2).map(tuple),
    reason=texts,
    unresolved=st.lists(st.builds(Unknown, what=texts, command=texts), max_size=1).map(tuple),
    input=inputs,
    touches=st.none() | st.lists(paths | paths.map(lambda p: p + "/"), max_size=2).map(tuple),
    changes=st.lists(changes, max_size=2).map(tuple),
    before=states,
    after=states,
)
images = st.builds(
    LockedImage,
    name=texts,
    reference=texts,
    digest=st.none() | texts,
    platform=texts,
    site=st.lists(paths, max_size=2).map(tuple),
    identity_file=st.just("") | paths,
    identity_commit=texts,
)
locks = st.builds(
    Lock,
    digest=st.just(""),
    image=images,
    version=st.integers(1, 99),
    governed=st.booleans(),
    ungoverned_reason=texts,
    exact=st.booleans(),
    sources=st.lists(st.builds(LockedSource, spec=texts, commit=texts), max_size=2).map(tuple),
    inputs=st.dictionaries(paths, digests, max_size=2),
    versions=st.dictionaries(st.integers(1, 9).map(str), texts, max_size=2),
    support=states,
    steps=st.lists(steps, max_size=3).map(tuple),
)


@settings(max_examples=60, deadline=None)
@given(lock=locks)
def test_a_lock_is_read_back_as_it_was_written(lock: Lock) -> None:
    text = render(lock).encode("ascii")
    back = parse(text, "x")
    assert {**vars_of(back), "digest": ""} == vars_of(lock)
    assert render(back).encode("ascii") == text


def vars_of(lock: Lock) -> dict[str, Any]:
    return {name: getattr(lock, name) for name in Lock.__slots__}


A = {"pkg/a.txt": numbered()}
REAL = build(
    {**A, "b.py": "X = 1\n"},
    {
        "one": diff(A, {"pkg/a.txt": numbered(20, _5="x"), "new/file": "n\n"}),
        "two": {"path": "b.py", "find": "1", "with": "2"},
    },
    identity="b.py",
)
DOCUMENT: dict[str, Any] = json.loads(render(REAL.lock))
ESCAPES = ["/etc/passwd", "../x", "a/../../x", "", "a//b", "a/./b", "a\0b", ".patchkit/ledger.json", "."]


@settings(max_examples=400, deadline=None)
@given(document=mutations(DOCUMENT))
def test_any_mutation_is_a_lock_or_a_config_error(document: Any) -> None:
    try:
        lock = parse(sealed_text(document), "patches/x/stack.lock.json")
    except ConfigError as error:
        assert error.exit_code == 2
        assert str(error).startswith("patches/x/stack.lock.json: ")
        assert error.hint
        return
    assert replace(parse(render(lock).encode(), "again"), digest="") == replace(lock, digest="")


@settings(max_examples=100, deadline=None)
@given(text=st.binary(max_size=60))
@example(text=b"[" * 100000)
@example(text=b'{"digest": ' + b"[" * 900 + b"]" * 900 + b"}")
@example(text=b"\xff\xfe{\x00}\x00")
@example(text=b"1" * 5000)
def test_any_bytes(text: bytes) -> None:
    with pytest.raises(ConfigError):
        parse(text, "x")


def test_one_changed_character_breaks_the_seal() -> None:
    text = render(REAL.lock)
    for old, new in (
        ("pkg/a.txt", "pkg/b.txt"),
        ('"version": 1', '"version": 2'),
        ("0644", "0755"),
        ('"exact": true', '"exact": false'),
    ):
        assert old in text
        with pytest.raises(ConfigError, match="it was changed by hand: its content has the digest sha256:"):
            parse(text.replace(old, new).encode(), "x")


@pytest.mark.parametrize("path", ESCAPES)
@pytest.mark.parametrize(
    "place",
    [
        ("image", "site", 0),
        ("steps", 0, "touches", 0),
        ("steps", 0, "changes", 0, "path"),
        ("steps", 0, "changes", 0, "source"),
        ("steps", 0, "before"),
        ("steps", 0, "after"),
        ("steps", 1, "action", "path"),
        ("steps", 0, "input", "path"),
        ("support",),
        ("inputs",),
        ("image", "identity", "file"),
    ],
    ids=lambda place: ".".join(map(str, place)),
)
def test_a_path_that_leaves_the_root_is_refused(place: tuple[str | int, ...], path: str) -> None:
    if place[-1] == "file" and path == "":
        return  # no identity
    document = copy.deepcopy(DOCUMENT)
    *way, last = place
    where = document
    for key in way:
        where = where[key]  # type: ignore[index]
    if isinstance(where[last], dict):  # type: ignore[index]
        where[last][path] = None if last != "inputs" else "0" * 64  # type: ignore[index]
    else:
        where[last] = path  # type: ignore[index]
    with pytest.raises(ConfigError, match="it is no whole lock: ValueError: "):
        parse(sealed_text(document), "x")


def test_another_format() -> None:
    with pytest.raises(ConfigError) as caught:
        parse(sealed_text({**DOCUMENT, "format": 2}), "x")
    assert str(caught.value) == "x: expected a lock of format 1, found 2"
    assert caught.value.hint == "use the patchkit release that wrote it, or make it anew: patchkit lock"


def test_spec_tells_every_input_apart() -> None:
    one = REAL.lock.steps[0]
    assert one.input is not None
    others = (
        replace(one, input=replace(one.input, sha256="0" * 64)),
        replace(one, action={**one.action, "strip": 2}),
        replace(one, stage="runtime"),
        REAL.lock.steps[1],
    )
    assert len({one.spec, *(other.spec for other in others)}) == 5
    assert replace(one, reason="why", upstream=("a/b#1",)).spec == one.spec
