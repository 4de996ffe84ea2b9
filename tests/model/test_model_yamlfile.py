"""The restricted YAML: what a value means, where it stands, and laws that hold for any input."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from patchkit.core.errors import ConfigError
from patchkit.model.yamlfile import MAX_DEPTH, Plain, parse, shorten, spell

MEANINGS: dict[str, Plain] = {
    "": None,
    "~": None,
    "null": None,
    "true": True,
    "false": False,
    "0": 0,
    "-7": -7,
    "123456789012345678": 123456789012345678,
    "6e448d0ea": "6e448d0ea",
    "1e5": "1e5",
    "0x10": "0x10",
    "1_000": "1_000",
    "1:30": "1:30",
    "2026-08-11": "2026-08-11",
    "1.0": "1.0",
    ".inf": ".inf",
    "yes": "yes",
    "Null": "Null",
    "TRUE": "TRUE",
    "'0123'": "0123",
    '"null"': "null",
    "''": "",
    '"a\\r\\n"': "a\r\n",
    "|-\n  a\n  \tb": "a\n\tb",
    "[a, 1]": ["a", 1],
    "{a: {b: c}}": {"a": {"b": "c"}},
}


@pytest.mark.parametrize("text", MEANINGS)
def test_what_a_value_means(text: str) -> None:
    document = parse(f"key: {text}\n".encode(), "f")
    assert document.problems == ()
    value = document.data["key"] if isinstance(document.data, dict) else None
    assert value == MEANINGS[text]
    assert type(value) is type(MEANINGS[text])


@pytest.mark.parametrize("text", ["0123456", "00", "+1", "-01", "1" * 19])
def test_digits_that_other_readers_take_differently_are_refused(text: str) -> None:
    document = parse(f"key: {text}\n".encode(), "f")
    expected = f"{text} is read in different ways: put it in quotes if it is text, or write a plain decimal number"
    assert [problem.text for problem in document.problems] == [expected]


def test_lines_of_keys_and_items() -> None:
    document = parse(b"\xef\xbb\xbf# c\na:\n  - b\n  - c: 1\n    d: 2\n", "f")
    assert document.data == {"a": ["b", {"c": 1, "d": 2}]}
    wanted = {(): 2, ("a",): 2, ("a", 0): 3, ("a", 1): 4, ("a", 1, "c"): 4, ("a", 1, "d"): 5}
    assert document.lines == wanted
    assert document.line(("a", 1, "nothing", 3)) == 4


def test_paths_are_spelt_as_people_write_them() -> None:
    assert spell(("steps", 2, "patch", "paths", 0)) == "steps[2].patch.paths[0]"
    assert spell(()) == ""


def test_long_and_unprintable_text_is_shortened() -> None:
    assert shorten("a" * 61) == "a" * 57 + "..."
    assert shorten("a\x1b\n\u202e") == "a\\x1b\\n\\u202e"


def _plain() -> st.SearchStrategy[Plain]:
    text = st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs", "Cn"]), max_size=20)
    leaves = st.none() | st.booleans() | st.integers(-(10**18) + 1, 10**18 - 1) | text
    keys = text.filter(bool)
    return st.recursive(leaves, lambda inner: st.lists(inner) | st.dictionaries(keys, inner), max_leaves=20)


@given(_plain())
def test_what_json_says_is_what_is_read(value: Plain) -> None:
    document = parse(json.dumps({"key": value}, ensure_ascii=False).encode(), "f")
    assert document.problems == ()
    assert document.data == {"key": value}


@given(st.binary(max_size=200) | st.text("[]{}:,-?&*!|>'\"%@`# \n\tab01<~\\", max_size=60).map(str.encode))
def test_any_bytes_give_a_document_or_a_configuration_error(data: bytes) -> None:
    try:
        document = parse(data, "f")
    except ConfigError as error:
        assert all(problem.startswith("f:") for problem in error.problems)
    else:
        assert all(problem.render("f").startswith(f"f:{problem.line}: ") for problem in document.problems)


@given(st.integers(1, 60), st.sampled_from(["[", "{a: ", "- ", "? "]))
def test_depth_is_bounded(depth: int, opening: str) -> None:
    closing = {"[": "]", "{a: ": "}"}.get(opening, "")
    data = (opening * depth + "1" + closing * depth).encode()
    if depth <= MAX_DEPTH and opening != "? ":
        assert parse(data, "f").problems == ()
    elif depth > MAX_DEPTH:
        with pytest.raises(ConfigError, match="nested more than 20 deep"):
            parse(data, "f")


@pytest.mark.parametrize("text", ['a: "\\UFFFFFFFF"', "%YAML 9" + "9" * 5000 + "\n---\na: b", "%TAG"])
def test_what_trips_the_parser_is_no_crash(text: str) -> None:
    try:
        parse(text.encode(), "f")
    except ConfigError as error:
        assert str(error).startswith("f:1: ")
