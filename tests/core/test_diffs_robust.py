"""Whatever bytes come: a DiffError or sections, in time that grows with the input."""

from __future__ import annotations

import time
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from patchkit.core.diffs import DiffError, parse
from patchkit.core.fit import place, split_lines
from patchkit.core.sections import apply_sections, reverse
from tests.core.edits import FEW, MANY
from tests.core.trees import MemoryTree, file, lines, run

CASES = Path(__file__).parents[1] / "cases" / "diffs"
REAL = [path.read_bytes() for path in sorted(CASES.glob("*/p.diff"))]
PIECES = sorted({line for diff in REAL for line in diff.splitlines(keepends=True)})


def survives(data: bytes, strip: int = 1) -> None:
    try:
        sections = parse(data, strip=strip)
    except DiffError as error:
        str(error).encode("utf-8")
        return
    for turned in (sections, reverse(sections)):
        _, reports = apply_sections(turned, MemoryTree({"f": file(lines()), "f.py": file(lines()), "s.sh": file(b"")}))
        assert len(reports) == len(sections)


@settings(FEW, max_examples=400)
@given(data=st.binary(max_size=300), strip=st.integers(0, 2))
def test_arbitrary_bytes(data, strip):
    survives(data, strip)


@settings(FEW, max_examples=400)
@given(pieces=st.lists(st.sampled_from(PIECES) | st.binary(max_size=9), max_size=12))
def test_lines_of_real_diffs_in_any_order(pieces):
    survives(b"".join(pieces))


@st.composite
def mutated(draw: st.DrawFn) -> bytes:
    data = bytearray(draw(st.sampled_from(REAL)))
    for _ in range(draw(st.integers(1, 5))):
        at = draw(st.integers(0, len(data)))
        what = draw(st.sampled_from(("flip", "cut", "insert", "line", "double")))
        if what == "flip" and at < len(data):
            data[at] = draw(st.integers(0, 255))
        elif what == "cut":
            del data[at : at + draw(st.integers(1, 40))]
        elif what == "insert":
            data[at:at] = draw(st.binary(max_size=6))
        elif what == "line":
            data[at:at] = draw(st.sampled_from(PIECES))
        else:
            data[at:at] = data[at : at + draw(st.integers(1, 80))]
    return bytes(data)


@settings(FEW, max_examples=400)
@given(data=mutated())
def test_mutated_diffs(data):
    survives(data)


@pytest.mark.slow
@MANY
@given(data=mutated())
def test_mutated_diffs_many(data):
    survives(data)


# -- size


def timed(limit: float, work):
    start = time.process_time()
    made = work()
    assert time.process_time() - start < limit
    return made


def hunks_of(count: int, shift: int = 0, gap: int = 10) -> bytes:
    out = [b"diff --git a/f b/f\n--- a/f\n+++ b/f\n"]
    for i in range(count):
        at = i * gap + 1
        out.append(b"@@ -%d,7 +%d,7 @@\n" % (at + shift, at + shift))
        out += [b" line number %d\n" % n for n in range(at, at + 3)]
        out.append(b"-line number %d\n+LINE number %d\n" % (at + 3, at + 3))
        out += [b" line number %d\n" % n for n in range(at + 4, at + 7)]
    return b"".join(out)


@pytest.fixture(scope="module")
def million() -> bytes:
    return b"".join(b"line number %d\n" % n for n in range(1_000_007))


@pytest.mark.parametrize("shift", [1, 40])
def test_a_hundred_thousand_hunks_in_a_million_lines(million, shift):
    """Shift 1 states every line exactly, 40 makes every hunk be searched for."""
    diff = hunks_of(100_000, shift)
    assert len(diff) > 15_000_000
    sections = timed(8, lambda: parse(diff))
    data = timed(15, lambda: run({"f": file(million)}, sections))["f"].data
    assert data.count(b"LINE") == 100_000


def test_one_far_off_hunk_in_a_million_lines(million):
    diff = hunks_of(90_001).split(b"@@ -900001,7")[1]
    diff = b"--- a/f\n+++ b/f\n@@ -5,7" + diff
    assert timed(3, lambda: run({"f": file(million)}, parse(diff)))["f"].data.count(b"LINE") == 1


def test_a_file_of_equal_lines_is_not_searched_for_hours():
    """100,000 hunks that stand nowhere, in a file whose lines all look like theirs."""
    target = b"a\nb\n" * 250_000
    hunk = b"@@ -%d,6 +%d,6 @@\n a\n a\n-b\n+c\n b\n a\n b\n"
    diff = b"--- a/f\n+++ b/f\n" + b"".join(hunk % (i * 9 + 5, i * 9 + 5) for i in range(100_000))
    sections = parse(diff)
    reports = timed(60, lambda: apply_sections(sections, MemoryTree({"f": file(target)}))[1])
    assert not reports[0].ok
    assert "too many places" in reports[0].fits[-1].why


def test_many_files_and_many_commits():
    one = b"From %040x Mon\ndiff --git a/d/%d b/d/%d\nnew file mode 100644\n"
    diff = b"".join(one % (i, i, i) for i in range(20_000))
    sections = timed(5, lambda: parse(diff))
    assert len(timed(10, lambda: run({}, sections))) == 20_000


def test_a_header_of_spaces_and_a_line_without_end():
    survives(b"diff --git " + b"a " * 500_000 + b"\nold mode 100644\nnew mode 100755\n")
    survives(b"x" * 50_000_000)
    survives(b"--- a/f\n+++ b/f\n@@ -1 +1 @@\n-" + b"x" * 50_000_000)


def test_a_large_diff_takes_less_than_five_times_its_size():
    diff = hunks_of(3_000).replace(b"line number", b"line number " + b"and so on " * 5)
    tracemalloc.start()
    try:
        sections = parse(diff)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert len(sections[0].hunks) == 3_000
    assert peak < 4 * len(diff)  # the diff itself is not counted


def test_hunks_are_placed_in_order_and_apart():
    body = split_lines(lines(40))
    later = b"@@ -20,3 +20,3 @@\n line 20\n-line 21\n+x\n line 22\n"
    earlier = b"@@ -5,3 +5,3 @@\n line 5\n-line 6\n+x\n line 7\n"
    fits = place(parse(b"--- a/f\n+++ b/f\n" + later + earlier)[0].hunks, body)
    assert [fit.index for fit in fits] == [19, None]
    fits = place(parse(b"--- a/f\n+++ b/f\n" + earlier + later)[0].hunks, body)
    assert [fit.index for fit in fits] == [4, 19]
