"""Every kind of diff that patching.md names, each as real output of git or GNU diff, with git apply as
oracle. A kind that git itself refuses says so and why; the tree that the diff was made from decides then."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest

from patchkit.core.diffs import parse
from patchkit.core.verdicts import Verdict
from tests.core.trees import (
    Files,
    MisfitError,
    Repo,
    check_there_and_back,
    file,
    git_apply,
    gnu_diff,
    lines,
    link,
    plain,
    run,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

BASE = lines()
EDIT = BASE.replace(b"line 10\n", b"LINE 10\n")
BIG = lines(100)  # git -B breaks no file under 400 bytes
BIG_EDIT = BIG.replace(b"line 10\n", b"LINE 10\n")
BIN = bytes(range(256)) * 8
BIN_EDIT = BIN[:1000] + b"\x00\xff" + BIN[1002:]
STAMPED = 1_700_000_000.0
UPSTREAM = frozenset({Verdict.UPSTREAM})
UNCLEAR = frozenset({Verdict.UPSTREAM, Verdict.CONFLICT})


@dataclass(frozen=True, kw_only=True)
class Kind:
    """`git` are git diff's options; `gnu` GNU diff's; `stamps` times of the files for GNU diff;
    `change` what mail or an editor did to the text; `oracle` git apply's options, None where it refuses."""

    before: Files
    after: Files
    git: tuple[str, ...] = ("--binary", "-M")
    gnu: tuple[str, ...] = ()
    stamps: dict[str, float] = field(default_factory=dict)
    change: Callable[[bytes], bytes] = bytes
    strip: int = 1
    oracle: tuple[str, ...] | None = ()
    verdicts: frozenset[Verdict] = UPSTREAM


def text(before: bytes, after: bytes, **more: object) -> Kind:
    return Kind(before={"f": file(before)}, after={"f": file(after)}, **more)  # type: ignore[arg-type]


def named(name: str, **more: object) -> Kind:
    before, after = {name: file(BASE), "other": file(b"x\n")}, {name: file(EDIT), "other": file(b"x\n")}
    return Kind(before=before, after=after, **more)  # type: ignore[arg-type]


def crlf(data: bytes) -> bytes:
    return data.replace(b"\n", b"\r\n")


def crlf_headers(data: bytes) -> bytes:
    head = re.compile(rb"(diff |index |--- |\+\+\+ |@@ |old mode|new mode)")
    return b"".join(ln.replace(b"\n", b"\r\n") if head.match(ln) else ln for ln in data.splitlines(keepends=True))


def stripped_blanks(data: bytes) -> bytes:
    return data.replace(b"\n \n", b"\n\n").replace(b"\n \n", b"\n\n")


def mailed(data: bytes) -> bytes:
    head = b"From 549ce3906a49a18ce175f7260a9e50565b878585 Mon Sep 17 00:00:00 2001\nFrom: A <a@x>\n"
    head += b"Subject: [PATCH] msg\n\nbody\n\n- a list\n+ of things\n---\n f | 2 +-\n 1 file changed\n\n"
    return head + data + b"-- \n2.39.5\n\n"


def trailing(data: bytes) -> bytes:
    return b"Index: f\n" + b"=" * 67 + b"\n" + data + b"\nAnd some text behind it.\n-- not a hunk\n"


MIXED = b"".join(b"line %d%s" % (i, b"\r\n" if i % 3 else b"\n") for i in range(1, 31))
LONG = b"".join(b"def f%d():\n    return %d\n\n" % (i, i) for i in range(60))

KINDS: dict[str, Kind] = {
    # ends of lines and files
    "newline_at_end_removed": text(BASE, BASE[:-1]),
    "newline_at_end_added": text(BASE[:-1], BASE),
    "no_newline_on_both_sides": text(BASE[:-1], BASE[:-1] + b"0"),
    "no_newline_in_context": text(BASE[:-1], BASE.replace(b"line 29\n", b"x\n")[:-1]),
    "no_newline_near_context": text(BASE[:-1], BASE.replace(b"line 28\n", b"x\n")[:-1]),
    "no_newline_moves_up": text(BASE[:-1], BASE[:-9]),
    "crlf_file": text(crlf(BASE), crlf(EDIT)),
    "crlf_to_lf": text(crlf(BASE), BASE),
    "lf_to_crlf": text(BASE, crlf(BASE)),
    "mixed_line_ends": text(MIXED, MIXED.replace(b"line 9\n", b"nine\r\n").replace(b"line 20\r\n", b"twenty\n")),
    "lone_carriage_returns": text(BASE.replace(b"9", b"\r"), EDIT.replace(b"9", b"\r").replace(b"11", b"\r\r")),
    "crlf_in_patch_headers": text(BASE, EDIT, change=crlf_headers),
    "crlf_in_patch_headers_and_file": text(crlf(BASE), crlf(EDIT), change=crlf_headers),
    # git apply looks for lines with CR in a file without, and refuses; the file before and after is known
    "crlf_whole_patch_lf_file": text(BASE, EDIT, change=crlf, oracle=None),
    "crlf_whole_patch_crlf_file": text(crlf(BASE), crlf(EDIT), change=crlf, oracle=None),
    "crlf_whole_patch_no_newline": text(BASE[:-1], BASE[:-1] + b"x", change=crlf, oracle=None),
    "crlf_whole_patch_new_file": Kind(
        before={"f": file(BASE)}, after={"f": file(EDIT), "n/g": file(BASE)}, change=crlf, oracle=None
    ),
    "crlf_whole_patch_rename": Kind(
        before={"f": file(BASE)}, after={"g": file(EDIT, x=True)}, change=crlf, oracle=None
    ),
    "crlf_whole_patch_binary": Kind(before={"f": file(BIN)}, after={"f": file(BIN_EDIT)}, change=crlf, oracle=None),
    "byte_order_mark": text(b"\xef\xbb\xbf" + BASE, b"\xef\xbb\xbf" + EDIT),
    "byte_order_mark_removed": text(b"\xef\xbb\xbf" + BASE, EDIT),
    "form_feed": text(BASE.replace(b" 9", b"\f9"), EDIT.replace(b" 9", b"\f9").replace(b" 11", b"\f\v11")),
    "unicode_line_ends": text(BASE.replace(b" 9", "\u2028\x85".encode()), EDIT.replace(b" 9", "\u2028\x85".encode())),
    "latin_1": text(BASE.replace(b" 9", b"\xe9"), EDIT.replace(b" 9", b"\xe9").replace(b" 11", b"\xff\x1c\x1d")),
    "lines_that_look_like_headers": text(
        BASE.replace(b"line 9\n", b"-- a/f\n++ b/f\n@ -1 +1 @\n"), EDIT.replace(b"line 9\n", b"+ b/f\n- \n\\ No\n")
    ),
    "blank_context_stripped": text(BASE.replace(b"line 9", b""), EDIT.replace(b"line 9", b""), change=stripped_blanks),
    # amounts of context
    "no_context": text(BASE, EDIT, git=("-U0",), oracle=("--unidiff-zero",)),
    "no_context_insert": text(
        BASE, BASE.replace(b"line 10\n", b"line 10\nx\n"), git=("-U0",), oracle=("--unidiff-zero",)
    ),
    "no_context_insert_first": text(BASE, b"x\n" + BASE, git=("-U0",), oracle=("--unidiff-zero",)),
    "no_context_insert_last": text(BASE, BASE + b"x\n", git=("-U0",), oracle=("--unidiff-zero",)),
    "no_context_delete": text(
        BASE, BASE.replace(b"line 1\n", b"").replace(b"line 20\n", b""), git=("-U0",), oracle=("--unidiff-zero",)
    ),
    "no_context_gnu": text(
        BASE,
        EDIT.replace(b"line 20\n", b"").replace(b"line 25\n", b"line 25\ny\n"),
        gnu=("-U0",),
        oracle=("--unidiff-zero",),
        verdicts=UNCLEAR,
    ),
    "no_context_gnu_insert_first": text(
        BASE,
        b"x\n" + EDIT,
        gnu=("-U0",),
        oracle=("--unidiff-zero",),
        verdicts=UNCLEAR,
    ),
    "one_line_of_context": text(BASE, EDIT, git=("-U1",)),
    "eight_lines_of_context": text(BASE, EDIT, git=("-U8",)),
    "insert_at_start": text(BASE, b"new 1\nnew 2\n" + BASE),
    "insert_at_end": text(BASE, BASE + b"new 1\nnew 2\n"),
    "delete_at_start": text(BASE, BASE[7:]),
    "delete_at_end": text(BASE, BASE[:-8]),
    "from_empty": text(b"", BASE),
    "to_empty": text(BASE, b""),
    "one_line_file": text(b"a\n", b"b\n", verdicts=UPSTREAM),
    "two_adjacent_hunks": text(BASE, EDIT.replace(b"line 17\n", b"LINE 17\n")),
    "two_touching_hunks_without_context": text(
        BASE, EDIT.replace(b"line 12\n", b""), git=("-U0", "--inter-hunk-context=0"), oracle=("--unidiff-zero",)
    ),
    "function_names_in_hunk_headers": text(
        LONG, LONG.replace(b"return 33", b"return 3333"), git=("--function-context",)
    ),
    "rewritten": text(BASE, lines(25, "other")),
    "broken_rewrite": text(BIG, lines(90, "other"), git=("-B", "-M")),
    # names
    "name_with_space": named("my file.py"),
    "name_with_space_and_b": named("x b/x b/y"),
    "name_with_spaces_at_ends": named(" d / f "),
    "name_with_tab": named("a\tb"),
    "name_with_newline": named("a\nb"),
    "name_with_quote": named('a"b'),
    "name_with_backslash": named("a\\b"),
    "name_utf_8": named("naïve/ünï.py"),
    "name_utf_8_unquoted": named("naïve/ünï.py", git=("-c", "core.quotePath=false")),
    "name_not_utf_8": named("na\udcefve\udcff.py"),
    "name_with_controls": named("a\x01\x7f\rb"),
    "name_like_dev_null": named("dev/null"),
    "name_that_is_deep": named("/".join("abcdefgh") + "/f.py"),
    "mnemonic_prefix": named("d/f", git=("--src-prefix=c/", "--dst-prefix=w/")),
    "no_prefix": named("d/f", git=("--no-prefix",), strip=0),
    "no_prefix_with_space": named("d e/f e/f", git=("--no-prefix",), strip=0),
    "long_prefixes": named("d/f", git=("--src-prefix=x/old/", "--dst-prefix=y/new/"), strip=2),
    # wrappers
    "mail_with_signature": text(BASE, EDIT, change=mailed),
    "index_lines_and_trailing_text": text(BASE, EDIT, change=trailing),
    "statistics_before": text(BASE, EDIT, git=("--patch-with-stat", "--summary")),
    "plain_with_times": text(BASE, EDIT, gnu=("-u",)),
    "plain_recursive": Kind(
        before={"d/f": file(BASE), "d/g": file(BASE)}, after={"d/f": file(EDIT), "d/g": file(BASE[7:])}, gnu=("-ru",)
    ),
    "plain_new_file": Kind(before={"f": file(BASE)}, after={"f": file(EDIT), "d/n": file(BASE)}, gnu=("-ruN",)),
    "plain_deleted_file": Kind(before={"f": file(BASE), "d/n": file(BASE)}, after={"f": file(EDIT)}, gnu=("-ruN",)),
    "plain_name_with_space": named("my f/a b", gnu=("-ruN",)),
    "plain_name_with_tab": named("a\tb", gnu=("-ruN",)),
    "plain_no_newline": text(BASE[:-1], BASE + b"x", gnu=("-u",)),
    "plain_from_empty": text(b"", BASE, gnu=("-u",), stamps={"a/f": STAMPED, "b/f": STAMPED}),
    "plain_to_empty": text(BASE, b"", gnu=("-u",), stamps={"a/f": STAMPED, "b/f": STAMPED}),
    "plain_labels": text(BASE, EDIT, gnu=("-u", "--label", "a/f", "--label", "b/f")),
    "plain_function_names": text(LONG, LONG.replace(b"return 33", b"return 3333"), gnu=("-up",)),
    # renames and copies
    "rename": Kind(before={"a/old": file(BASE)}, after={"a/new": file(BASE)}),
    "rename_edit": Kind(before={"a/old": file(BASE)}, after={"b/new": file(EDIT)}),
    "rename_edit_mode": Kind(before={"a/old": file(BASE)}, after={"b/new": file(EDIT, x=True)}),
    "rename_into_folder": Kind(before={"f": file(BASE)}, after={"d/f": file(EDIT)}),
    "rename_out_of_folder": Kind(before={"d/d/f": file(BASE)}, after={"f": file(EDIT)}),
    "rename_swap": Kind(
        before={"a": file(BIG), "b": file(lines(99, "other"))},
        after={"b": file(BIG_EDIT), "a": file(lines(99, "other"))},
        git=("-B", "-M"),
    ),
    "rename_chain": Kind(
        before={"a": file(BIG), "b": file(lines(99, "other"))},
        after={"b": file(BIG_EDIT), "c": file(lines(98, "other"))},
        git=("-B", "-M"),
    ),
    "rename_ring": Kind(
        before={"a": file(BIG), "b": file(lines(99, "two")), "c": file(lines(99, "three"))},
        after={"b": file(BIG_EDIT), "c": file(lines(99, "two")), "a": file(lines(98, "three"))},
        git=("-B", "-M"),
    ),
    "copy_away_and_rewrite": Kind(
        before={"z": file(BIG)}, after={"b": file(BIG_EDIT), "z": file(lines(97, "new"))}, git=("-B", "-M")
    ),
    "rename_with_spaces": Kind(before={"a b": file(BASE)}, after={"c d b/e": file(EDIT)}),
    "rename_quoted": Kind(before={'a"b': file(BASE)}, after={"c\td": file(BASE)}),
    "rename_link": Kind(before={"a": link(b"some/where")}, after={"b": link(b"some/where")}),
    # git strips one part less from the names of renames, whatever the prefix; it then finds that they differ
    "rename_long_prefixes": Kind(
        before={"d/a": file(BASE)},
        after={"d/b": file(EDIT)},
        git=("-M", "--src-prefix=x/old/", "--dst-prefix=y/new/"),
        strip=2,
        oracle=None,
    ),
    "rename_deep_strip": Kind(before={"a b": file(BASE)}, after={"c d/e": file(EDIT)}, strip=1),
    "rename_no_prefix": Kind(before={"d/a": file(BASE)}, after={"d/b": file(EDIT)}, git=("-M", "--no-prefix"), strip=0),
    "copy": Kind(
        before={"a": file(BASE)}, after={"a": file(BASE), "b": file(BASE)}, git=("-C", "--find-copies-harder")
    ),
    "copy_edit_source_edited": Kind(
        before={"b": file(BASE)},
        after={"b": file(EDIT), "a": file(BASE[7:]), "c": file(BASE[:-8])},
        git=("-C", "--find-copies-harder"),
    ),
    "copy_and_rename": Kind(
        before={"b": file(BASE)},
        after={"a": file(EDIT), "c": file(BASE[7:])},
        git=("-C", "--find-copies-harder"),
    ),
    # modes, links, kinds
    "mode_only": Kind(before={"s": file(BASE)}, after={"s": file(BASE, x=True)}),
    "mode_off": Kind(before={"s": file(BASE, x=True)}, after={"s": file(BASE)}),
    "mode_edit": Kind(before={"s": file(BASE)}, after={"s": file(EDIT, x=True)}),
    "mode_only_name_with_b": Kind(before={"x b/x": file(BASE)}, after={"x b/x": file(BASE, x=True)}),
    "mode_only_name_repeats": Kind(before={"x b/x b/x": file(BASE)}, after={"x b/x b/x": file(BASE, x=True)}),
    "mode_of_empty": Kind(before={"e": file(b"")}, after={"e": file(b"", x=True)}),
    "link_new": Kind(before={"f": file(BASE)}, after={"f": file(BASE), "ln": link(b"f")}),
    "link_retargeted": Kind(before={"ln": link(b"f")}, after={"ln": link(b"some/thing else")}),
    "link_deleted": Kind(before={"ln": link(b"f"), "f": file(b"")}, after={"f": file(b"")}),
    "link_target_with_newline": Kind(before={"ln": link(b"f")}, after={"ln": link(b"f\ng\n")}),
    "file_to_link": Kind(before={"f": file(BASE), "g": file(b"")}, after={"f": link(b"g"), "g": file(b"")}),
    "link_to_file": Kind(before={"f": link(b"g"), "g": file(b"")}, after={"f": file(BASE), "g": file(b"")}),
    "deleted": Kind(before={"f": file(BASE), "g": file(b"")}, after={"g": file(b"")}),
    "deleted_empty": Kind(before={"d/e": file(b""), "g": file(b"x")}, after={"g": file(b"x")}),
    "new_empty": Kind(before={"g": file(b"")}, after={"g": file(b""), "d/__init__.py": file(b"")}),
    "new_in_new_folder": Kind(before={"g": file(b"")}, after={"g": file(b""), "x/y/z": file(BASE)}),
    "new_executable": Kind(before={"g": file(b"")}, after={"g": file(b""), "x": file(BASE, x=True)}),
    "new_without_newline": Kind(before={"g": file(b"")}, after={"g": file(b""), "x": file(b"a")}),
    # binary
    "binary_modified": Kind(before={"f": file(BIN)}, after={"f": file(BIN_EDIT)}),
    "binary_literal": Kind(before={"f": file(b"\0" + BIN[:9])}, after={"f": file(BIN[40:90] + b"\0")}),
    "binary_delta": Kind(before={"f": file(BIN + BASE)}, after={"f": file(BASE + BIN + b"\0tail")}),
    "binary_deleted": Kind(before={"f": file(BIN), "g": file(b"")}, after={"g": file(b"")}),
    "binary_new": Kind(before={"g": file(b"")}, after={"g": file(b""), "f": file(BIN)}),
    "binary_to_empty": Kind(before={"f": file(BIN)}, after={"f": file(b"")}),
    "binary_to_text": Kind(before={"f": file(BIN)}, after={"f": file(BASE)}),
    "binary_rename_edit": Kind(before={"f": file(BIN * 4)}, after={"g": file(BIN * 4 + b"\0\1")}),
    "binary_mode": Kind(before={"f": file(BIN)}, after={"f": file(BIN_EDIT, x=True)}),
    "binary_large_copy": Kind(before={"f": file(BIN * 64)}, after={"f": file(b"\0" + BIN * 64)}),
    "binary_between_texts": Kind(
        before={"a": file(BASE), "b": file(BIN), "c": file(BASE)},
        after={"a": file(EDIT), "b": file(BIN_EDIT), "c": file(EDIT)},
    ),
    "full_index": text(BASE, EDIT, git=("--full-index",)),
    "short_index": text(BASE, EDIT, git=("--abbrev=4",)),
}


@pytest.fixture(scope="module")
def repo(tmp_path_factory) -> Repo:
    return Repo(tmp_path_factory.mktemp("kinds"))


@pytest.fixture(scope="module")
def commits(repo) -> dict[str, tuple[str, str]]:
    """The trees before and after of each kind that git diffs, written in one go."""
    kinds = {name: kind for name, kind in KINDS.items() if not kind.gnu}
    marks = iter(repo.write([files for kind in kinds.values() for files in (kind.before, kind.after)]))
    return {name: (next(marks), next(marks)) for name in kinds}


def make(kind: Kind, repo: Repo, pair: tuple[str, str] | None, scratch: Path) -> bytes:
    if pair is None:
        return kind.change(gnu_diff(scratch, kind.before, kind.after, *kind.gnu, stamps=kind.stamps))
    config, options = (kind.git[:2], kind.git[2:]) if kind.git[0] == "-c" else ((), kind.git)
    return kind.change(repo.git(*config, "diff", *options, *pair))


@pytest.mark.parametrize("name", KINDS)
def test_kind(name, repo, commits, tmp_path):
    kind = KINDS[name]
    diff = make(kind, repo, commits.get(name), tmp_path / "gnu")
    check_there_and_back(kind.before, diff, kind.after, strip=kind.strip, verdicts=set(kind.verdicts))
    made = git_apply(tmp_path / "t", kind.before, diff, f"-p{kind.strip}", *(kind.oracle or ()))
    if kind.oracle is None:
        assert made is None
    else:
        assert made is not None
        assert plain(made) == plain(kind.after)


def test_a_folder_that_gives_way_to_a_file_is_refused(repo):
    """Known difference from git: what else the folder holds is not known to the applier."""
    before, after = {"d/f": file(BASE)}, {"d": file(EDIT)}
    sections = parse(repo.diff(before, after, "--no-renames"))
    with pytest.raises(MisfitError, match=r"^d: it is a directory, no regular file$"):
        run(before, sections)
    assert plain(run(after, parse(repo.diff(after, before, "--no-renames")))) == plain(before)


def test_a_file_renamed_into_a_folder_of_its_own_name_is_refused(repo):
    """Known difference from git."""
    before, after = {"f": file(BASE)}, {"f/f": file(EDIT)}
    with pytest.raises(MisfitError, match=r"^f/f: f, on the way to it, is no directory$"):
        run(before, parse(repo.diff(before, after, "-M")))


#: what the text of a kind must hold, so that the kind is what its name says
HOLDS = {
    "rename": b"rename from ",
    "rename_edit": b"rename from ",
    "rename_swap": b"rename from ",
    "rename_chain": b"rename from ",
    "rename_ring": b"rename from ",
    "copy_away_and_rewrite": b"copy from z",
    "rename_link": b"rename from ",
    "rename_quoted": b'rename from "a\\"b"',
    "rename_with_spaces": b"rename to c d b/e\n",
    "copy": b"copy from ",
    "copy_edit_source_edited": b"copy from ",
    "copy_and_rename": b"copy from ",
    "broken_rewrite": b"dissimilarity index",
    "binary_delta": b"\ndelta ",
    "binary_literal": b"\nliteral ",
    "binary_large_copy": b"\ndelta ",
    "binary_rename_edit": b"rename from ",
    "name_with_space": b"+++ b/my file.py\t\n",
    "name_not_utf_8": b"\\357",
    "name_utf_8_unquoted": "+++ b/naïve".encode(),
    "mnemonic_prefix": b"--- c/d/f",
    "plain_new_file": b"1970-01-01",
    "plain_deleted_file": b"+++ b/d/n\t1970-01-01",
    "plain_name_with_tab": b'"a/a\\tb"',
    "blank_context_stripped": b"\n\n",
    "function_names_in_hunk_headers": b"@@ def f",
    "file_to_link": b"deleted file mode 100644",
    "no_newline_in_context": b"\\ No newline",
    "short_index": b"index ac98..9557 ",
}


@pytest.mark.parametrize("name", HOLDS)
def test_the_kind_is_what_its_name_says(name, repo, commits, tmp_path):
    assert HOLDS[name] in make(KINDS[name], repo, commits.get(name), tmp_path / "gnu")
