"""The diff that is written is read back to the same tree, by patchkit and by git apply."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from patchkit.core.diffs import parse
from patchkit.core.line_diff import changed_ranges
from patchkit.core.render_diff import render_diff
from patchkit.core.sections import reverse
from tests.core.edits import FEW, LINES, edits, trees
from tests.core.trees import Files, file, git_apply, lines, link, plain, run


def pairs(before: Files, after: Files) -> dict:
    return {path: (before.get(path), after.get(path)) for path in {*before, *after}}


@FEW
@given(data=st.data())
def test_read_back_to_the_same_tree(data, tmp_path_factory):
    before = data.draw(trees())
    after = data.draw(edits(before))
    diff = render_diff(pairs(before, after))
    if plain(before) == plain(after):
        assert diff == b""
        return
    sections = parse(diff)
    assert plain(run(before, sections)) == plain(after)
    assert plain(run(after, reverse(sections))) == plain(before)
    made = git_apply(tmp_path_factory.getbasetemp() / "rendered", before, diff)
    assert made is not None
    assert plain(made) == plain(after)


@FEW
@given(old=LINES, new=LINES)
def test_what_is_not_in_a_changed_range_is_the_same(old, new):
    changes = changed_ranges(old, new)
    made, at = [], 0
    for i1, i2, j1, j2 in changes:
        assert (i1, i2) >= (at, at)
        assert i1 < i2 or j1 < j2
        made += old[at:i1] + new[j1:j2]
        at = i2
    assert made + old[at:] == new


def test_the_exact_text():
    before = {"d/f": file(lines(12)), "gone": file(b""), "l": link(b"a"), "m": file(b"x", x=True), "same": file(b"")}
    after = {
        "d/f": file(lines(12).replace(b"line 6\n", b"six\n")),
        "l": link(b"b"),
        "m": file(b"x"),
        "new name": file(b"a", x=True),
        "same": file(b""),
    }
    assert (
        render_diff(pairs(before, after)).decode()
        == """\
diff --git a/d/f b/d/f
index 624b469cb073d1245cfe818f6622ed2fa7b74606..e4094e0e73b766590ecabb27320c03812a548f9f 100644
--- a/d/f
+++ b/d/f
@@ -3,7 +3,7 @@
 line 3
 line 4
 line 5
-line 6
+six
 line 7
 line 8
 line 9
diff --git a/gone b/gone
deleted file mode 100644
index e69de29bb2d1d6434b8b29ae775ad8c2e48c5391..0000000000000000000000000000000000000000
diff --git a/l b/l
index 2e65efe2a145dda7ee51d1741299f848e5bf752e..63d8dbd40c23542e740659a7168a0ce3138ea748 120000
--- a/l
+++ b/l
@@ -1 +1 @@
-a
\\ No newline at end of file
+b
\\ No newline at end of file
diff --git a/m b/m
old mode 100755
new mode 100644
diff --git a/new name b/new name
new file mode 100755
index 0000000000000000000000000000000000000000..2e65efe2a145dda7ee51d1741299f848e5bf752e
--- /dev/null
+++ b/new name\t
@@ -0,0 +1 @@
+a
\\ No newline at end of file
"""
    )


def test_two_changes_share_a_hunk_up_to_six_lines_apart():
    before = lines(40)
    near = before.replace(b"line 10\n", b"x\n").replace(b"line 17\n", b"x\n")
    far = before.replace(b"line 10\n", b"x\n").replace(b"line 18\n", b"x\n")
    assert render_diff({"f": (file(before), file(near))}).count(b"\n@@ ") == 1
    assert render_diff({"f": (file(before), file(far))}).count(b"\n@@ ") == 2


@pytest.mark.parametrize("line", [b"same\n", b"line %d\n"])
def test_large_files_take_seconds(line):
    before = b"".join(line % n if b"%" in line else line for n in range(200_000))
    after = before[: len(before) // 2] + b"new\n" + before[len(before) // 2 :] + b"end\n"
    start = time.process_time()
    diff = render_diff({"f": (file(before), file(after))})
    assert time.process_time() - start < 10
    assert run({"f": file(before)}, parse(diff)) == {"f": file(after)}


def test_large_rewrites_take_seconds():
    before = b"".join(b"%d\n" % (n % 7) for n in range(100_000))
    after = b"".join(b"%d\n" % (n % 5) for n in range(100_000))
    start = time.process_time()
    diff = render_diff({"f": (file(before), file(after))})
    assert time.process_time() - start < 10
    assert run({"f": file(before)}, parse(diff)) == {"f": file(after)}
