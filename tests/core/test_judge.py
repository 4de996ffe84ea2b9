"""Verdicts: never applied twice, never taken for applied when it is not."""

from __future__ import annotations

import pytest

from patchkit.core.diffs import parse
from patchkit.core.errors import ConfigError
from patchkit.core.judge import Judgement, judge, judge_patch, judge_replace
from patchkit.core.lockfile import FileRef, LockedInput, LockedStep
from patchkit.core.render_diff import render_diff
from patchkit.core.tree import FileState, UnreadableError
from patchkit.core.verdicts import Verdict
from tests.core.trees import Files, MemoryTree, file, lines, link, result

BASE = lines()
EDIT = BASE.replace(b"line 10\n", b"LINE 10\n")
UNCLEAR = (
    "f: both the old and the new text fit, so that nothing tells whether the change is in the tree already;"
    " lock it against the image's own files (patchkit lock --from), or give the patch more context"
)
BLOCK = b"start\n  do it\n  and more\nend\n"


def change(before: bytes, after: bytes, name: str = "f", *, index: bool = False) -> bytes:
    diff = render_diff({name: (file(before), file(after))})
    return diff if index else b"".join(ln for ln in diff.splitlines(keepends=True) if not ln.startswith(b"index "))


def verdict(diff: bytes, files: Files) -> Judgement:
    return judge_patch(parse(diff), MemoryTree(files))


# -- patches


def test_applies_and_then_is_upstream():
    first = verdict(change(BASE, EDIT), {"f": file(BASE)})
    assert (first.verdict, first.writes, first.detail) == (Verdict.APPLIES, {"f": file(EDIT)}, ())
    again = verdict(change(BASE, EDIT), {"f": file(EDIT)})
    assert (again.verdict, again.writes, again.detail) == (Verdict.UPSTREAM, {}, ("its change is in the tree already",))


def test_an_offset_is_reported():
    found = verdict(change(BASE, EDIT), {"f": file(b"one\ntwo\n" + BASE)})
    assert found.verdict is Verdict.OFFSET
    assert found.detail == ("f: hunk of line 7 fits at line 9 (offset +2)",)
    assert found.writes == {"f": file(b"one\ntwo\n" + EDIT)}


def test_upstream_at_another_line():
    assert verdict(change(BASE, EDIT), {"f": file(b"one\ntwo\n" + EDIT)}).verdict is Verdict.UPSTREAM


def test_an_ambiguous_place_is_refused_with_all_places():
    found = verdict(change(BASE, EDIT), {"f": file(b"x\n" + BASE + BASE)})
    assert found.verdict is Verdict.CONFLICT
    assert found.writes == {}
    assert found.detail[0] == (
        "f: hunk at line 7 (line 4 of the patch): it fits in 2 places (lines 8, 38) and its line number decides none"
    )


def test_the_line_number_decides_between_equal_places():
    found = verdict(change(BASE, EDIT), {"f": file(BASE + BASE)})
    assert (found.verdict, found.writes) == (Verdict.APPLIES, {"f": file(EDIT + BASE)})


def test_behind_an_offset_the_line_number_decides_nothing_any_more():
    before = BASE + b"other\n" * 9 + BASE
    after = before.replace(b"line 3\n", b"LINE 3\n", 1)[: len(BASE) + 54] + EDIT
    grown = b"new\n" + before.replace(b"other\n" * 9, b"other\n" * 9 + BASE[70:] + b"other\n")
    found = verdict(change(before, after), {"f": file(grown)})
    assert found.verdict in (Verdict.CONFLICT, Verdict.OFFSET)
    if found.writes:
        assert found.writes["f"].data.count(b"LINE") == 2


def test_missing():
    found = verdict(change(BASE, EDIT), {})
    assert (found.verdict, found.detail) == (Verdict.MISSING, ("f: the file is not there",))


def test_a_conflict_shows_expected_and_found():
    found = verdict(change(BASE, EDIT), {"f": file(BASE.replace(b"line 10\n", b"line ten\x1b[1m\n"))})
    assert found.verdict is Verdict.CONFLICT
    assert found.detail == (
        "f: hunk at line 7 (line 4 of the patch): the lines that it expects are not in the file",
        "       7           line 7",
        "       8           line 8",
        "       9           line 9",
        "      10 expected  line 10",
        "      10 found     line ten\\x1b[1m",
        "      11           line 11",
        "      12           line 12",
        "      13           line 13",
    )


def test_of_very_many_misfits_the_first_are_shown():
    before = b"".join(b"%d\n" % n for n in range(1000))
    after = b"".join(b"x\n" if n % 20 == 10 else b"%d\n" % n for n in range(1000))
    found = verdict(change(before, after), {"f": file(b"y\n" * 1000)})
    assert len([line for line in found.detail if line.startswith("f: hunk at line")]) == 20
    assert found.detail[-1] == "f: 30 more hunks do not fit"


def test_half_applied_files_are_partial():
    diff = change(BASE, EDIT) + change(BASE, EDIT, "g")
    found = verdict(diff, {"f": file(EDIT), "g": file(BASE)})
    assert (found.verdict, found.writes) == (Verdict.PARTIAL, {})
    assert found.detail == (
        "a part of its change is in the tree already, another part is not",
        "f: its change is in the tree already",
    )


def test_half_applied_hunks_are_partial():
    both = EDIT.replace(b"line 25\n", b"LINE 25\n")
    found = verdict(change(BASE, both), {"f": file(EDIT)})
    assert (found.verdict, found.writes) == (Verdict.PARTIAL, {})


@pytest.mark.parametrize("copies", range(1, 6))
def test_one_more_copy_of_a_repeated_block_is_never_added_again(copies):
    """git apply and patch -N -F0 add it each time they are asked."""
    diff = change(BLOCK, BLOCK + BLOCK)
    state = file(BLOCK * copies)
    found = verdict(diff, {"f": state})
    if copies == 1:
        assert (found.verdict, found.writes) == (Verdict.APPLIES, {"f": file(BLOCK * 2)})
    else:
        assert found.verdict in (Verdict.UPSTREAM, Verdict.CONFLICT)
        assert found.writes == {}


@pytest.mark.parametrize("context", [0, 1, 2, 3])
@pytest.mark.parametrize("index", [True, False])
def test_a_block_repeated_in_the_middle_is_added_once(context, index):
    """With little context the block's own copies look like its surroundings."""
    head, tail = lines(10, "head"), lines(10, "tail")
    row = b"item\n"
    diff = b"diff --git a/f b/f\n"
    body = b"".join(b" " + row for _ in range(context))
    size = 2 * context
    diff += b"--- a/f\n+++ b/f\n@@ -%d,%d +%d,%d @@\n" % (
        14 - context + (1 if context else 0),
        size,
        15 - context,
        size + 1,
    )
    diff += body + b"+" + row + body
    tree = {"f": file(head + row * 8 + tail)}
    for _ in range(4):
        found = verdict(diff, tree)
        if not found.writes:
            break
        tree = result(tree, found.writes)
    assert tree["f"].data.count(row) <= 9


def test_blob_names_tell_what_the_text_cannot():
    before, after = b"a\n" * 10, b"a\n" * 11
    for index, first, last in (
        (True, Verdict.APPLIES, Verdict.UPSTREAM),
        (False, Verdict.CONFLICT, Verdict.CONFLICT),
    ):
        assert verdict(change(before, after, index=index), {"f": file(before)}).verdict is first
        assert verdict(change(before, after, index=index), {"f": file(after)}).verdict is last
    middle = b"x\n" + b"a\n" * 20 + b"x\n"
    diff = b"--- a/f\n+++ b/f\n@@ -8,4 +8,5 @@\n a\n a\n+a\n a\n a\n"
    found = verdict(diff, {"f": file(middle)})
    assert (found.verdict, found.detail) == (Verdict.CONFLICT, (UNCLEAR,))
    blobs = b"diff --git a/f b/f\nindex %s..%s 100644\n" % tuple(
        name.encode() for name in (blob(middle), blob(middle.replace(b"x\na", b"x\na\na")))
    )
    assert verdict(blobs + diff, {"f": file(middle)}).verdict is Verdict.APPLIES
    assert verdict(blobs + diff, {"f": file(middle.replace(b"x\na", b"x\na\na"))}).verdict is Verdict.UPSTREAM


def blob(data: bytes) -> str:
    from patchkit.core.sections import blob_id

    return blob_id(data)


def test_known_as_the_locked_tree_it_applies_though_the_text_cannot_tell():
    diff = b"--- a/f\n+++ b/f\n@@ -8,4 +8,5 @@\n a\n a\n+a\n a\n a\n"
    tree = MemoryTree({"f": file(b"x\n" + b"a\n" * 20 + b"x\n")})
    assert judge_patch(parse(diff), tree).verdict is Verdict.CONFLICT
    assert judge_patch(parse(diff), tree, same_tree=True).verdict is Verdict.APPLIES


def test_one_unclear_file_makes_the_whole_step_unclear():
    """The other file says that the step was not applied; but it may have been applied by half."""
    diff = b"--- a/f\n+++ b/f\n@@ -8,4 +8,5 @@\n a\n a\n+a\n a\n a\n" + change(BASE, EDIT, "g")
    tree = {"f": file(b"x\n" + b"a\n" * 20 + b"x\n"), "g": file(BASE)}
    found = verdict(diff, tree)
    assert (found.verdict, found.detail) == (Verdict.CONFLICT, (UNCLEAR,))
    found = verdict(diff, {**tree, "g": file(EDIT)})
    assert (found.verdict, found.detail) == (Verdict.CONFLICT, (UNCLEAR,))


def test_patches_that_undo_each_other_are_told_apart():
    there, back = change(BASE, EDIT), change(EDIT, BASE)
    for data, forward, backward in (
        (BASE, Verdict.APPLIES, Verdict.UPSTREAM),
        (EDIT, Verdict.UPSTREAM, Verdict.APPLIES),
    ):
        assert verdict(there, {"f": file(data)}).verdict is forward
        assert verdict(back, {"f": file(data)}).verdict is backward


def test_a_step_that_undoes_itself_changes_nothing():
    """Two commits of one mailbox: the tree before is the tree after, and no text tells which it is."""
    mail = b"From " + b"1" * 40 + b" Mon\n" + change(BASE, EDIT) + b"From " + b"2" * 40 + b" Mon\n" + change(EDIT, BASE)
    found = verdict(mail, {"f": file(BASE)})
    assert (found.verdict, found.writes) == (Verdict.CONFLICT, {})


def test_two_patches_edit_one_line_in_turn():
    third = EDIT.replace(b"LINE 10\n", b"line X\n")
    first, second = change(BASE, EDIT), change(EDIT, third)
    assert verdict(first, {"f": file(BASE)}).verdict is Verdict.APPLIES
    assert verdict(second, {"f": file(BASE)}).verdict is Verdict.CONFLICT
    assert verdict(second, {"f": file(EDIT)}).verdict is Verdict.APPLIES
    assert verdict(first, {"f": file(third)}).verdict is Verdict.CONFLICT
    assert verdict(second, {"f": file(third)}).verdict is Verdict.UPSTREAM
    mail = b"From " + b"1" * 40 + b" Mon\n" + first + b"From " + b"2" * 40 + b" Mon\n" + second
    assert verdict(mail, {"f": file(BASE)}).writes == {"f": file(third)}
    assert verdict(mail, {"f": file(third)}).verdict is Verdict.UPSTREAM
    assert verdict(mail, {"f": file(EDIT)}).verdict in (Verdict.CONFLICT, Verdict.PARTIAL)


def test_a_bare_line_elsewhere_proves_nothing():
    """-U0: the added line stands somewhere, as it may anyway; git would have to be told --unidiff-zero."""
    diff = b"--- a/f\n+++ b/f\n@@ -10,0 +11 @@\n+import os\n"
    index = b"diff --git a/f b/f\nindex 1111111..2222222 100644\n"
    found = verdict(index + diff, {"f": file(b"import os\n" + BASE)})
    assert (found.verdict, found.detail) == (Verdict.CONFLICT, (UNCLEAR,))
    removal = diff.replace(b"-10,0 +11", b"-10 +9,0").replace(b"+import", b"-import")
    assert verdict(removal, {"f": file(b"import os\n" + BASE)}).verdict is Verdict.CONFLICT


def test_modes_renames_links_and_deletions_are_upstream_when_there():
    mode = b"diff --git a/f b/f\nold mode 100644\nnew mode 100755\n"
    assert verdict(mode, {"f": file(b"")}).writes == {"f": file(b"", x=True)}
    assert verdict(mode, {"f": file(b"", x=True)}).verdict is Verdict.UPSTREAM
    move = b"diff --git a/f b/g\nsimilarity index 100%\nrename from f\nrename to g\n"
    assert verdict(move, {"f": file(b"1")}).writes == {"f": None, "g": file(b"1")}
    assert verdict(move, {"g": file(b"1")}).verdict is Verdict.UPSTREAM
    assert verdict(move, {"f": file(b"1"), "g": file(b"1")}).verdict is Verdict.CONFLICT
    assert verdict(move, {}).verdict is Verdict.MISSING
    links = render_diff({"l": (link(b"a"), link(b"b"))})
    assert verdict(links, {"l": link(b"a")}).writes == {"l": link(b"b")}
    assert verdict(links, {"l": link(b"b")}).verdict is Verdict.UPSTREAM
    gone = render_diff({"f": (file(BASE), None)})
    assert verdict(gone, {"f": file(BASE)}).writes == {"f": None}
    assert verdict(gone, {}).verdict is Verdict.UPSTREAM
    assert verdict(gone, {"f": file(EDIT)}).verdict is Verdict.CONFLICT


def test_file_modes_beyond_the_execute_bit_are_kept():
    found = verdict(change(BASE, EDIT), {"f": FileState(data=BASE, mode=0o640)})
    assert found.writes == {"f": FileState(data=EDIT, mode=0o640)}
    mode = b"diff --git a/f b/f\nold mode 100644\nnew mode 100755\n"
    assert verdict(mode, {"f": FileState(data=b"", mode=0o640)}).writes == {"f": FileState(data=b"", mode=0o750)}


# -- replacements


def replacing(data: bytes, find: str, put: str, count: int = 1, *, same_tree: bool = False) -> Judgement:
    action = {"path": "f", "find": find, "with": put, "count": count}
    return judge_replace(action, MemoryTree({"f": file(data)}), same_tree=same_tree)


@pytest.mark.parametrize(
    ("data", "find", "put", "count", "expected", "made"),
    [
        (b"a b c", "b", "x", 1, Verdict.APPLIES, b"a x c"),
        (b"a x c", "b", "x", 1, Verdict.UPSTREAM, None),
        (b"a b b", "b", "x", 2, Verdict.APPLIES, b"a x x"),
        (b"a b x", "b", "x", 2, Verdict.PARTIAL, None),
        (b"a b b", "b", "x", 1, Verdict.CONFLICT, None),
        (b"a c", "b", "x", 1, Verdict.CONFLICT, None),
        (b"foo()", "foo()", "foo() + 1", 1, Verdict.APPLIES, b"foo() + 1"),
        (b"foo() + 1", "foo()", "foo() + 1", 1, Verdict.UPSTREAM, None),
        (b"foo() + 1; foo()", "foo()", "foo() + 1", 1, Verdict.PARTIAL, None),
        (b"foo() + 1", "foo() + 1", "foo()", 1, Verdict.APPLIES, b"foo()"),
        (b"foo()", "foo() + 1", "foo()", 1, Verdict.UPSTREAM, None),
        (b"a-b-c", "-b", "", 1, Verdict.APPLIES, b"a-c"),
        (b"a-c", "-b", "", 1, Verdict.CONFLICT, None),
        (b"aaa", "aa", "b", 1, Verdict.CONFLICT, None),
        (b"aba", "ab", "ba", 1, Verdict.CONFLICT, None),
        (b"l1\r\nl2", "l1\r\nl2", "l", 1, Verdict.APPLIES, b"l"),
        (b"l1\r\nl2", "l1\nl2", "l", 1, Verdict.CONFLICT, None),
        ("ä\xff".encode("latin-1") + "ä".encode(), "ä", "ö", 1, Verdict.APPLIES, b"\xe4\xff" + "ö".encode()),
    ],
)
def test_replace(data, find, put, count, expected, made):
    found = replacing(data, find, put, count)
    assert found.verdict is expected
    assert found.writes == ({} if made is None else {"f": file(made)})


def test_replace_never_applies_twice():
    for find, put in (("a", "aa"), ("a", "bab"), ("ab", "b"), ("ab", "ba"), ("a", ""), ("aa", "a")):
        data, runs = b"x ab x", 0
        while (found := replacing(data, find, put)).writes:
            data, runs = found.writes["f"].data, runs + 1
            assert runs == 1, (find, put)


def test_replace_with_its_replacement_elsewhere_needs_the_lock():
    data = b"timeout=30\nother timeout=None\n"
    found = replacing(data, "timeout=30", "timeout=None")
    assert (found.verdict, found.writes) == (Verdict.PARTIAL, {})
    assert found.detail == ("f: expected the text exactly 1 times, found it 1 times and its replacement 1 times",)
    found = replacing(data, "timeout=30", "timeout=None", same_tree=True)
    assert found.writes == {"f": file(b"timeout=None\nother timeout=None\n")}


def test_replace_in_what_is_no_file():
    action = {"path": "f", "find": "a", "with": "b", "count": 1}
    assert judge_replace(action, MemoryTree({})).detail == ("f: the file is not there",)
    found = judge_replace(action, MemoryTree({"f": link(b"a")}))
    assert found.detail == ("f: expected a regular file, found a symbolic link",)
    found = judge_replace(action, MemoryTree({"f/g": file(b"a")}))
    assert found.detail == ("f: it is a directory, no regular file",)
    assert found.verdict is Verdict.CONFLICT


# -- steps with a lock


def step(before: Files, after: Files, *, paths: tuple[str, ...] = ()) -> LockedStep:
    touched = sorted({*before, *after})
    return LockedStep(
        id="s",
        kind="patch",
        action={"strip": 1, "prefix": None, "paths": paths},
        input=LockedInput(path="patches/x/0001.patch", url=None, sha256="0" * 64),
        before={path: FileRef.of(before.get(path)) for path in touched},
        after={path: FileRef.of(after.get(path)) for path in touched},
    )


MIDDLE = b"x\n" + b"a\n" * 20 + b"x\n"
AMBIGUOUS = b"--- a/f\n+++ b/f\n@@ -8,4 +8,5 @@\n a\n a\n+a\n a\n a\n"


def test_the_lock_decides_where_the_text_cannot():
    after = MIDDLE.replace(b"x\na", b"x\na\na", 1)
    locked = step({"f": file(MIDDLE)}, {"f": file(after)})
    found = judge(locked, MemoryTree({"f": file(MIDDLE)}), lambda _: AMBIGUOUS)
    assert (found.verdict, found.writes) == (Verdict.APPLIES, {"f": file(after)})
    found = judge(locked, MemoryTree({"f": file(after)}), lambda _: AMBIGUOUS)
    assert found.verdict is Verdict.UPSTREAM
    assert found.detail == ("the files are what this step would make of them",)
    third = judge(locked, MemoryTree({"f": file(after.replace(b"x\na", b"x\na\na", 1))}), lambda _: AMBIGUOUS)
    assert (third.verdict, third.writes) == (Verdict.CONFLICT, {})


def test_the_lock_tells_a_creation_from_its_result():
    locked = step({}, {"f": file(BASE)})
    diff = render_diff({"f": (None, file(BASE))})
    assert judge(locked, MemoryTree({}), lambda _: diff).writes == {"f": file(BASE)}
    assert judge(locked, MemoryTree({"f": file(BASE)}), lambda _: diff).verdict is Verdict.UPSTREAM
    assert judge(locked, MemoryTree({"f": file(EDIT)}), lambda _: diff).verdict is Verdict.CONFLICT


def test_a_promise_that_does_not_hold():
    locked = step({"f": file(BASE)}, {"f": file(BASE[7:])})
    with pytest.raises(ConfigError) as caught:
        judge(locked, MemoryTree({"f": file(BASE)}), lambda _: change(BASE, EDIT))
    assert str(caught.value) == (
        f"step s: the lock promises {file(BASE[7:]).sha256[:12]} for f, the step makes {file(EDIT).sha256[:12]}:"
        " the lock was made by hand or by another patchkit"
    )
    assert caught.value.hint == "make it anew: patchkit lock"


def test_a_promise_that_the_step_conflicts_with():
    locked = step({"f": file(BASE)}, {"f": file(EDIT)})
    with pytest.raises(ConfigError, match=f"the step makes {file(BASE).sha256[:12]}"):
        judge(locked, MemoryTree({"f": file(BASE)}), lambda _: change(EDIT, BASE[7:]))


def test_files_that_are_only_read_stay_what_they_are():
    before, after = {"f": file(BASE)}, {"f": file(BASE), "g": file(EDIT)}
    diff = (
        b"diff --git a/f b/g\ncopy from f\ncopy to g\n" + change(BASE, EDIT).replace(b"b/f", b"b/g").split(b"\n", 1)[1]
    )
    found = judge(step(before, after), MemoryTree(before), lambda _: diff)
    assert (found.verdict, found.writes) == (Verdict.APPLIES, {"g": file(EDIT)})


def test_a_step_that_was_locked_as_upstream():
    locked = step({"f": file(EDIT)}, {"f": file(EDIT)})
    assert judge(locked, MemoryTree({"f": file(EDIT)}), lambda _: change(BASE, EDIT)).verdict is Verdict.UPSTREAM


def test_a_step_writes_nothing_that_its_lock_does_not_name():
    locked = step({"f": file(BASE)}, {"f": file(EDIT)})
    with pytest.raises(ConfigError, match="g, which the lock does not name"):
        judge(
            locked,
            MemoryTree({"f": file(BASE), "g": file(BASE)}),
            lambda _: change(BASE, EDIT) + change(BASE, EDIT, "g"),
        )


def test_an_input_that_is_no_diff():
    with pytest.raises(ConfigError) as caught:
        judge(step({}, {}), MemoryTree({}), lambda _: b"hello\n")
    assert str(caught.value) == (
        "step s: patches/x/0001.patch: no change found in it: neither a 'diff --git' line nor '---'/'+++' lines with hunks"
    )
    assert caught.value.hint == "mend the patch, then: patchkit lock"


def test_a_tree_that_cannot_be_read_is_a_conflict():
    class Broken:
        def read(self, path: str) -> FileState | None:
            raise UnreadableError("it is a device or pipe, no regular file")

    found = judge(step({"f": file(BASE)}, {"f": file(EDIT)}), Broken(), lambda _: change(BASE, EDIT))
    assert (found.verdict, found.detail) == (Verdict.CONFLICT, ("f: it is a device or pipe, no regular file",))
