"""How the sections of one diff work together: commits, moves, copies, CRLF, what must not be touched."""

from __future__ import annotations

import pytest

from patchkit.core.diffs import parse
from patchkit.core.judge import file_changes, judge_patch
from patchkit.core.sections import apply_sections, blob_id, is_blob, reverse
from patchkit.core.tree import Overlay, UnreadableError
from patchkit.core.verdicts import Change, Verdict
from tests.core.trees import FileState, MemoryTree, MisfitError, Repo, file, lines, link, plain, run

BASE = lines()
EDIT = BASE.replace(b"line 10\n", b"LINE 10\n")
COMMIT = b"From %040d Mon Sep 17 00:00:00 2001\nSubject: x\n\n---\n"


def edit(name: str, old: bytes, new: bytes) -> bytes:
    return f"--- a/{name}\n+++ b/{name}\n".encode() + b"@@ -1 +1 @@\n-" + old + b"\n+" + new + b"\n"


def move(old: str, new: str, word: str = "rename") -> bytes:
    return f"diff --git a/{old} b/{new}\nsimilarity index 100%\n{word} from {old}\n{word} to {new}\n".encode()


# -- several sections, several commits


def test_a_file_edited_twice_in_one_diff_is_edited_in_turn():
    diff = edit("f", b"1", b"2") + edit("f", b"2", b"3")
    assert run({"f": file(b"1\n")}, parse(diff)) == {"f": file(b"3\n")}
    assert run({"f": file(b"3\n")}, reverse(parse(diff))) == {"f": file(b"1\n")}


def test_within_a_commit_a_rename_reads_the_tree_before_it():
    diff = edit("f", b"1", b"2") + move("f", "g", "copy")
    assert run({"f": file(b"1\n")}, parse(diff)) == {"f": file(b"2\n"), "g": file(b"1\n")}


def test_a_later_commit_reads_what_the_earlier_one_made():
    diff = COMMIT % 1 + edit("f", b"1", b"2") + COMMIT % 2 + move("f", "g") + COMMIT % 3 + edit("g", b"2", b"3")
    sections = parse(diff)
    assert [s.commit for s in sections] == [1, 2, 3]
    assert run({"f": file(b"1\n")}, sections) == {"g": file(b"3\n")}
    assert run({"g": file(b"3\n")}, reverse(sections)) == {"f": file(b"1\n")}


def test_git_show_of_several_commits_counts_them_too():
    show = b"commit %040d\nAuthor: A\n\n    x\n\n"
    diff = show % 1 + edit("f", b"1", b"2") + show % 2 + move("f", "g")
    assert [s.commit for s in parse(diff)] == [1, 2]


def test_a_rename_and_a_new_file_in_its_place():
    diff = b"diff --git a/f b/f\nnew file mode 100644\n--- /dev/null\n+++ b/f\n@@ -0,0 +1 @@\n+new\n" + move("f", "g")
    before, after = {"f": file(b"1\n")}, {"f": file(b"new\n"), "g": file(b"1\n")}
    assert run(before, parse(diff)) == after
    assert run(before, parse(move("f", "g") + diff.split(b"diff --git a/f b/g")[0])) == after


def test_a_ring_of_renames_whose_one_part_fails_moves_nothing():
    diff = (
        move("a", "b")
        + move("b", "c")
        + b"diff --git a/c b/a\nrename from c\nrename to a\n"
        + edit("a", b"x", b"y").replace(b"a/a", b"a/c")
    )
    assert run({"a": file(b"1\n"), "b": file(b"2\n"), "c": file(b"x\n")}, parse(diff)) == {
        "a": file(b"y\n"),
        "b": file(b"1\n"),
        "c": file(b"2\n"),
    }
    _, reports = apply_sections(parse(diff), MemoryTree({"a": file(b"1\n"), "b": file(b"2\n"), "c": file(b"3\n")}))
    assert [r.ok for r in reports] == [False, False, False]
    assert [r.why for r in reports] == [
        "the diff makes this file from a, but it is there already",
        "the diff makes this file from b, but it is there already",
        "hunk at line 1: the lines that it expects are not in the file",
    ]


def test_a_swap_is_there_when_its_edit_is():
    """Each rename alone fits both ways; together with the edited one they do not."""
    swap = (
        move("a", "b")
        + b"diff --git a/b b/a\nrename from b\nrename to a\n"
        + edit("a", b"x", b"y").replace(b"a/a", b"a/b")
    )
    before, after = {"a": file(b"1\n"), "b": file(b"x\n")}, {"a": file(b"y\n"), "b": file(b"1\n")}
    assert judge_patch(parse(swap), MemoryTree(before)).verdict is Verdict.APPLIES
    assert judge_patch(parse(swap), MemoryTree(after)).verdict is Verdict.UPSTREAM


def test_a_pure_swap_tells_nothing():
    swap = move("a", "b") + move("b", "a")
    tree = {"a": file(b"1\n"), "b": file(b"2\n")}
    assert judge_patch(parse(swap), MemoryTree(tree)).verdict is Verdict.CONFLICT
    assert judge_patch(parse(swap), MemoryTree(tree), same_tree=True).writes == {"a": file(b"2\n"), "b": file(b"1\n")}


def test_two_renames_to_one_name():
    with pytest.raises(MisfitError, match=r"^c: the diff makes this file from b, but it is there already$"):
        run({"a": file(b"1\n"), "b": file(b"2\n")}, parse(move("a", "c") + move("b", "c")))


def test_a_copy_is_undone_only_where_it_is_one():
    diff = parse(move("a", "b", "copy"))
    assert run({"a": file(b"1"), "b": file(b"1")}, reverse(diff)) == {"a": file(b"1")}
    with pytest.raises(MisfitError, match=r"^a: the file is there, but not as a copy of a$"):
        run({"a": file(b"1"), "b": file(b"2")}, reverse(diff))


def test_a_copy_of_a_file_that_the_commit_edits_is_undone_against_the_old_one():
    diff = parse(edit("a", b"1", b"2") + move("a", "b", "copy"))
    assert run({"a": file(b"2\n"), "b": file(b"1\n")}, reverse(diff)) == {"a": file(b"1\n")}
    first = parse(move("c", "b", "copy") + b"\n" + edit("c", b"1", b"2"))
    assert run({"c": file(b"2\n"), "b": file(b"1\n")}, reverse(first)) == {"c": file(b"1\n")}


def test_turning_twice_changes_nothing(tmp_path):
    repo = Repo(tmp_path / "r")
    before = {"a": file(BASE), "b": file(lines(30, "two")), "x": file(b""), "l": link(b"a")}
    after = {"c": file(EDIT), "b": file(lines(30, "two"), x=True), "d": file(lines(29, "two")), "l": file(b"q")}
    sections = parse(repo.diff(before, after, "--binary", "-C", "--find-copies-harder"))
    assert plain(run(before, reverse(reverse(sections)))) == plain(run(before, sections)) == plain(after)


# -- links and modes


def test_a_renamed_link_stays_a_link():
    assert run({"a": link(b"x")}, parse(move("a", "b"))) == {"b": link(b"x")}
    assert run({"a": link(b"x")}, parse(move("a", "b", "copy"))) == {"a": link(b"x"), "b": link(b"x")}


@pytest.mark.parametrize(("before", "after"), [(0o644, 0o755), (0o600, 0o700), (0o440, 0o550), (0o666, 0o777)])
def test_execute_follows_read(before, after):
    diff = parse(b"diff --git a/f b/f\nold mode 100644\nnew mode 100755\n")
    assert run({"f": FileState(data=b"", mode=before)}, diff) == {"f": FileState(data=b"", mode=after)}
    assert run({"f": FileState(data=b"", mode=after)}, reverse(diff)) == {"f": FileState(data=b"", mode=before)}


# -- CRLF on the way


def crlf(data: bytes) -> bytes:
    return data.replace(b"\n", b"\r\n")


def test_a_new_file_in_a_crlf_diff_is_what_its_blob_says(tmp_path):
    for content in (BASE, crlf(BASE), BASE[:-1]):
        diff = Repo(tmp_path / f"r{len(content)}").diff({"g": file(b"")}, {"g": file(b""), "f": file(content)})
        made = run({"g": file(b"")}, parse(crlf(diff)))
        assert made["f"].data == content
        assert run(made, reverse(parse(crlf(diff)))) == {"g": file(b"")}


def test_a_new_file_in_a_crlf_diff_without_a_blob_is_taken_as_written():
    diff = crlf(b"--- /dev/null\n+++ b/f\n@@ -0,0 +1 @@\n+a\n")
    assert run({}, parse(diff)) == {"f": file(b"a\r\n")}


def test_line_ends_are_never_guessed_one_by_one():
    mixed = b"1\r\n2\n3\r\n4\n5\r\n"
    diff = crlf(b"--- a/f\n+++ b/f\n@@ -1,5 +1,5 @@\n 1\n 2\n-3\n+x\n 4\n 5\n")
    with pytest.raises(MisfitError, match=r"^f: hunk at line 1: the lines that it expects are not in the file$"):
        run({"f": file(mixed)}, parse(diff))
    lf = diff.replace(b"\r", b"")
    with pytest.raises(MisfitError):
        run({"f": file(crlf(b"1\n2\n3\n4\n5\n"))}, parse(lf))


# -- names


def test_runs_of_slashes_count_once():
    diff = b"--- a//d//f\n+++ b//d//f\n@@ -1 +1 @@\n-1\n+2\n"
    assert parse(diff)[0].paths == ("d/f",)


@pytest.mark.parametrize("suffix", [".orig", "~", "-old", "_bak"])
def test_a_suffix_names_the_same_file(suffix):
    diff = f"--- a/f.c{suffix}\n+++ b/f.c\n@@ -1 +1 @@\n-1\n+2\n".encode()
    assert parse(diff)[0].paths == ("f.c",)


def test_of_three_names_the_two_that_agree_are_meant():
    """grub2's gcc12_build_dangling_pointer.patch, which git refuses."""
    diff = (
        b"diff --git a/util/mkimage.c b/util/mkimage.c\n--- a/util/mkimage\n+++ b/util/mkimage.c\n@@ -1 +1 @@\n-1\n+2\n"
    )
    assert parse(diff)[0].paths == ("util/mkimage.c",)


def test_strip_counts_the_prefix_for_renames_too():
    diff = b"diff --git a/x/d/f b/x/d/g\nsimilarity index 100%\nrename from x/d/f\nrename to x/d/g\n"
    assert parse(diff, strip=2)[0].paths == ("d/f", "d/g")
    bare = b"diff --git x/f x/g\nsimilarity index 100%\nrename from x/f\nrename to x/g\n"
    assert parse(bare, strip=0)[0].paths == ("x/f", "x/g")
    assert parse(bare, strip=1)[0].paths == ("f", "g")


def test_a_byte_order_mark_before_the_diff_hides_nothing():
    assert run({"a": file(b"1")}, parse(b"\xef\xbb\xbf" + move("a", "b"))) == {"b": file(b"1")}


def test_text_that_only_looks_like_a_diff_is_ignored():
    message = b"Only in rare cases: this\n***************\nIt broke since\n  @@ -1 +1 @@\n  --- a/x\n\n"
    assert len(parse(message + edit("f", b"1", b"2"))) == 1


def test_a_pgp_signature_behind_a_hunk():
    diff = edit("f", b"1", b"2") + b"-----BEGIN PGP SIGNATURE-----\nabc\n-----END PGP SIGNATURE-----\n"
    assert run({"f": file(b"1\n")}, parse(diff)) == {"f": file(b"2\n")}


def test_a_diff_whose_last_context_line_lost_its_line_end():
    diff = b"--- a/f\n+++ b/f\n@@ -1,2 +1,2 @@\n-1\n+2\n c"
    assert run({"f": file(b"1\nc\n")}, parse(diff)) == {"f": file(b"2\nc\n")}


def test_epoch_in_any_time_zone_means_no_file():
    for stamp in ("1970-01-01 00:00:00.000000000 +0000", "1969-12-31 19:00:00 -0500", "1970-01-01 05:30:00.0 +0530"):
        diff = f"--- a/f\t{stamp}\n+++ b/f\t2024-01-01 00:00:00 +0000\n@@ -0,0 +1 @@\n+a\n".encode()
        assert parse(diff)[0].change is Change.ADDED
    diff = b"--- a/f\t1970-01-01 00:00:00 +0100\n+++ b/f\t2024-01-01 00:00:00 +0000\n@@ -0,0 +1 @@\n+a\n"
    assert parse(diff)[0].change is Change.MODIFIED


def test_a_plain_insertion_into_nothing_makes_a_file_or_fills_an_empty_one():
    diff = parse(b"--- a/f\n+++ b/f\n@@ -0,0 +1 @@\n+a\n")
    assert run({}, diff) == run({"f": file(b"")}, diff) == {"f": file(b"a\n")}
    with pytest.raises(MisfitError, match=r"^f: hunk at line 0: it fills an empty file, and this one is not empty$"):
        run({"f": file(b"b\n")}, diff)


# -- what is told


def test_changes_of_each_file():
    diff = (
        move("a", "b")
        + move("c", "d", "copy")
        + b"diff --git a/e b/e\nold mode 100644\nnew mode 100755\n"
        + b"diff --git a/g b/g\ndeleted file mode 100644\n--- a/g\n+++ /dev/null\n@@ -1 +0,0 @@\n-x\n"
        + b"diff --git a/g b/g\nnew file mode 120000\n--- /dev/null\n+++ b/g\n@@ -0,0 +1 @@\n+x\n\\ No newline\n"
        + b"diff --git a/h b/h\nnew file mode 100644\n\n"
        + edit("i", b"1", b"2")
    )
    assert [(c.path, c.change.value, c.source) for c in file_changes(parse(diff))] == [
        ("b", "renamed", "a"),
        ("d", "copied", "c"),
        ("e", "mode", None),
        ("g", "type", None),
        ("h", "added", None),
        ("i", "modified", None),
    ]


def test_blob_names():
    assert blob_id(b"hello") == "b6fc4c620b67d95f953a5c1c1230aaab5db5a1b0"
    assert is_blob(b"hello", "b6fc4c6") is True
    assert is_blob(b"other", "b6fc4c6") is False
    assert is_blob(b"hello", "b6fc") is None
    assert is_blob(b"hello", "0000000") is None
    assert is_blob(b"hello", "") is None


def test_an_overlay_behaves_like_a_directory():
    overlay = Overlay(MemoryTree({"d/f": file(b"1"), "e": file(b"2")}), {"new/x": file(b"3")})
    with pytest.raises(UnreadableError, match=r"^it is a directory"):
        overlay.read("new")
    overlay.write("new/x", None)
    assert overlay.read("new") is None
    overlay.write("e", None)
    assert overlay.read("e/x") is None
    overlay.write("e/x", file(b"4"))
    assert overlay.read("e/x") == file(b"4")
    with pytest.raises(UnreadableError, match=r"^it is a directory"):
        overlay.read("e")
    overlay.write("l", link(b"d"))
    with pytest.raises(UnreadableError, match=r"^l, on the way to it, is no directory but a symbolic link$"):
        overlay.read("l/f")
