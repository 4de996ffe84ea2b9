"""Where one hunk fits."""

from __future__ import annotations

import pytest

from patchkit.core.diffs import parse
from patchkit.core.fit import merge, place, split_lines
from tests.core.trees import lines

BODY = split_lines(lines(20))


def hunks(text: bytes):
    return parse(b"--- a/f\n+++ b/f\n" + text)[0].hunks


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"", []),
        (b"\n", [b"\n"]),
        (b"a", [b"a"]),
        (b"a\r\nb\x0c\xe2\x80\xa8c\rd\n", [b"a\r\n", b"b\x0c\xe2\x80\xa8c\rd\n"]),
        (b"a\n\nb", [b"a\n", b"\n", b"b"]),
    ],
)
def test_only_a_line_feed_ends_a_line(data, expected):
    assert split_lines(data) == expected
    assert b"".join(split_lines(data)) == data


def test_a_hunk_at_line_one_is_tied_to_the_beginning():
    hunk = hunks(b"@@ -1,4 +1,4 @@\n-line 1\n+x\n line 2\n line 3\n line 4\n")
    assert place(hunk, BODY)[0].index == 0
    shifted = place(hunk, [b"new\n", *BODY])[0]
    assert (shifted.index, shifted.why) == (None, "the lines that it expects are not in the file")
    assert shifted.found == (b"new\n", b"line 1\n", b"line 2\n", b"line 3\n")


def test_a_hunk_without_trailing_context_is_tied_to_the_end():
    hunk = hunks(b"@@ -18,3 +18,3 @@\n line 18\n line 19\n-line 20\n+x\n")
    assert place(hunk, BODY)[0].index == 17
    assert place(hunk, [b"new\n", *BODY])[0].offset == 1
    assert place(hunk, [*BODY, b"new\n"])[0].index is None


def test_without_context_the_line_number_is_the_anchor():
    hunk = hunks(b"@@ -5 +5 @@\n-line 5\n+x\n")
    assert place(hunk, BODY, context_free=True)[0].index == 4
    first = hunks(b"@@ -1 +1 @@\n-line 1\n+x\n")
    assert place(first, BODY, context_free=True)[0].index == 0
    assert place(first, [b"new\n", *BODY], context_free=True)[0].index is None
    insertion = hunks(b"@@ -5,0 +6 @@\n+x\n")
    assert place(insertion, BODY, context_free=True)[0].index == 5
    assert place(insertion, BODY, context_free=True, same_file=True)[0].index == 5
    refused = place(insertion, BODY, context_free=True, same_file=False)[0]
    assert (refused.index, refused.unproven) == (None, True)
    assert refused.why == "an insertion without context has only its line number, which nothing here confirms"


def test_an_insertion_behind_the_end_is_refused():
    assert place(hunks(b"@@ -21,0 +22 @@\n+x\n"), BODY, context_free=True)[0].index is None


def test_behind_an_offset_line_numbers_decide_nothing():
    """The second hunk's lines stand at the stated line, and once more: which is meant is not known any more."""
    pair = hunks(
        b"@@ -2,3 +2,3 @@\n line 2\n-line 3\n+x\n line 4\n@@ -11,3 +11,3 @@\n line 11\n-line 12\n+x\n line 13\n"
    )
    twice = [*BODY, *BODY[9:]]
    assert [f.index for f in place(pair, twice)] == [1, 10]
    moved = place(pair, [b"new\n", *twice])
    assert [f.index for f in moved] == [2, None]
    assert moved[1].why == "it fits in 2 places (lines 12, 23) and its line number decides none"


def test_hunks_that_touch():
    pair = hunks(b"@@ -3 +3 @@\n-line 3\n+x\n@@ -4 +4 @@\n-line 4\n+y\n")
    fits = place(pair, BODY, context_free=True)
    assert merge(fits, BODY) == lines(20).replace(b"line 3\n", b"x\n").replace(b"line 4\n", b"y\n")


def test_hunks_never_overlap():
    pair = hunks(b"@@ -3,2 +3,2 @@\n-line 3\n+x\n line 4\n@@ -4,2 +4,2 @@\n line 4\n-line 5\n+y\n")
    assert [fit.index for fit in place(pair, BODY, context_free=True)] == [2, None]


@pytest.mark.parametrize(
    "body",
    [
        b"@@ -20 +20,2 @@\n-line 20\n+x\n\\ No newline\n+y\n",
        b"@@ -5 +5 @@\n-line 5\n+x\n\\ No newline\n",
    ],
)
def test_no_line_without_end_in_the_middle(body):
    fit = place(hunks(body), BODY, context_free=True)[0]
    assert (fit.index, fit.why) == (None, "it leaves a line without a line end in the middle of the file")


def test_no_insertion_behind_an_open_last_line():
    fit = place(hunks(b"@@ -20,0 +21 @@\n+x\n"), [*BODY[:-1], b"line 20"], context_free=True)[0]
    assert (fit.index, fit.why) == (None, "it leaves a line without a line end in the middle of the file")
