"""What cannot be applied from its text is refused, with the line, the file and the reason."""

from __future__ import annotations

import tracemalloc
import zlib
from base64 import b85encode

import pytest

from patchkit.core.diffs import DiffError, parse
from tests.core.trees import Files, MisfitError, file, lines, link, run

NAMES = b"--- a/f\n+++ b/f\n"
GIT = b"diff --git a/f b/f\n"
BINARY = b"diff --git a/f b/f\nindex %s..%s 100644\nGIT binary patch\n" % (b"1" * 40, b"2" * 40)
CONTEXT = b"*** a/f\t2024-01-01\n--- b/f\t2024-01-02\n***************\n*** 1,2 ****\n! a\n  b\n--- 1,2 ----\n! A\n  b\n"


def packed(data: bytes, word: bytes = b"literal", size: int | None = None) -> bytes:
    body = zlib.compress(data)
    out = b"%s %d\n" % (word, len(data) if size is None else size)
    for at in range(0, len(body), 52):
        chunk = body[at : at + 52]
        letter = len(chunk) + (64 if len(chunk) <= 26 else 70)
        out += bytes([letter]) + b85encode(chunk, pad=True) + b"\n"
    return out + b"\n"


PARSE = {
    "empty": (b"", "no change found in it: neither a 'diff --git' line nor '---'/'+++' lines with hunks"),
    "text": (b"hello\n", "no change found in it: neither a 'diff --git' line nor '---'/'+++' lines with hunks"),
    "combined": (
        b"diff --cc d/f.py\nindex 1,2..3\n--- a/d/f.py\n+++ b/d/f.py\n@@@ -1,1 -1,1 +1,1 @@@\n- a\n -b\n++c\n",
        "line 1: d/f.py: a combined diff (of a merge) cannot be applied; diff against one parent",
    ),
    "combined by its other name": (
        b"diff --combined d/f.py\n",
        "line 1: d/f.py: a combined diff (of a merge) cannot be applied; diff against one parent",
    ),
    "context": (CONTEXT, "line 3: a context diff; patchkit reads unified diffs (diff -u, git diff)"),
    "binary without data, git": (
        b"diff --git a/x.so b/x.so\nindex 111..222 100644\nBinary files a/x.so and b/x.so differ\n",
        (
            "line 3: x.so: 'Binary files a/x.so and b/x.so differ': the binary change's data is not in the diff;"
            " make it with git diff --binary"
        ),
    ),
    "binary without data, GNU": (
        NAMES + b"@@ -1 +1 @@\n-a\n+b\nBinary files a/x.so and b/x.so differ\n",
        (
            "line 6: 'Binary files a/x.so and b/x.so differ': the binary change's data is not in the diff;"
            " make it with git diff --binary"
        ),
    ),
    "binary of no file": (b"GIT binary patch\nliteral 0\n", "line 1: a binary change that belongs to no file"),
    "only in": (
        b"diff -ru a/f b/f\n" + NAMES + b"@@ -1 +1 @@\n-a\n+b\nOnly in b: g\n",
        "line 7: 'Only in b: g': the file's content is not in the diff; make it with diff -N",
    ),
    "truncated hunk": (
        NAMES + b"@@ -1,3 +1,3 @@\n a\n-b\n+B\n",
        "line 3: f: the hunk ends early: 1 old and 1 new lines are missing",
    ),
    "truncated by the next file": (
        NAMES + b"@@ -1,3 +1,3 @@\n a\n-b\n+B\ndiff --git a/g b/g\n",
        "line 7: f: expected a hunk line (' ', '-', '+'), found b'diff --git a/g b/g'",
    ),
    "truncated in an added line": (
        NAMES + b"@@ -1 +1 @@\n-b\n+B is the beg",
        "line 5: f: the diff ends in the middle of a line that it adds",
    ),
    "hunk longer than its header, added": (
        NAMES + b"@@ -1,2 +1,2 @@\n a\n-b\n+B\n+C\n",
        "line 7: f: the hunk before this line holds more lines than its header says",
    ),
    "hunk longer than its header, removed": (
        NAMES + b"@@ -1,2 +1,2 @@\n a\n-b\n+B\n-C\n",
        "line 7: f: the hunk before this line holds more lines than its header says",
    ),
    "hunk longer than its header, behind context": (
        NAMES + b"@@ -1,2 +1,2 @@\n a\n-b\n+B\n c\n d\n+e\n",
        "line 9: f: the hunk before this line holds more lines than its header says",
    ),
    "hunk that adds up to more": (
        NAMES + b"@@ -1,2 +1,1 @@\n a\n+b\n-c\n",
        "line 3: f: the hunk's lines do not add up to the counts in its header",
    ),
    "hunk without a file": (b"@@ -1 +1 @@\n-a\n+b\n", "line 1: a hunk that belongs to no file"),
    "UTF-16": (GIT.decode().encode("utf-16"), "the diff is written in UTF-16; make it with git diff --output=FILE"),
    "mode without a file": (
        NAMES + b"@@ -1 +1 @@\n-a\n+b\n\nold mode 100644\nnew mode 100755\n",
        "line 7: 'old mode 100644' belongs to no 'diff --git' line",
    ),
    "rename without a header": (
        b"rename from f\nrename to g\n",
        "line 1: 'rename from f' belongs to no 'diff --git' line",
    ),
    "hunk without lines": (NAMES + b"@@ -1,0 +1,0 @@\n", "line 3: f: a hunk that changes nothing"),
    "hunk of context": (NAMES + b"@@ -1 +1 @@\n a\n", "line 3: f: a hunk that changes nothing"),
    "hunk counts of ten digits": (
        NAMES + b"@@ -1,1000000000 +1 @@\n-a\n",
        "line 3: f: a hunk header that cannot be read: @@ -1,1000000000 +1 @@",
    ),
    "second hunk's header damaged": (
        NAMES + b"@@ -1 +1 @@\n-a\n+b\n@@ -5 +5\n-a\n+b\n",
        "line 6: f: a hunk header that cannot be read: @@ -5 +5",
    ),
    "second hunk behind a gap": (
        NAMES + b"@@ -1 +1 @@\n-a\n+b\n\n@@ -5 +5\n-a\n+b\n",
        "line 7: a hunk that belongs to no file",
    ),
    "hunk that promises a billion": (
        NAMES + b"@@ -1,999999999 +1 @@\n-a\n+b\n",
        "line 3: f: the hunk ends early: 999999998 old and 0 new lines are missing",
    ),
    "mark that follows no line": (
        NAMES + b"@@ -1 +1 @@\n\\ No newline at end of file\n-a\n+b\n",
        "line 4: f: a 'No newline at end of file' mark that follows no line",
    ),
    "mark twice": (
        NAMES + b"@@ -1 +1 @@\n-a\n\\ No newline\n\\ No newline\n+b\n",
        "line 6: f: a 'No newline at end of file' mark that follows no line",
    ),
    "names without hunks": (NAMES, "line 1: f: named as changed, but no hunk follows"),
    "git names without hunks": (GIT + NAMES, "line 1: f: named as changed, but no hunk follows"),
    "git header alone": (GIT, "line 1: f: named as changed, but the diff holds no change of it"),
    "git header of two files": (
        b"diff --git a/f b/g\nold mode 100644\nnew mode 100755\n",
        "line 1: a/f b/g: cannot tell the file's name from 'diff --git a/f b/g'",
    ),
    "two names": (
        b"--- a/f\n+++ b/g\n@@ -1 +1 @@\n-a\n+b\n",
        "line 1: g: '---' names f and '+++' names g: not one file",
    ),
    "git names that contradict": (
        GIT + b"--- a/g\n+++ b/g\n@@ -1 +1 @@\n-a\n+b\n",
        "line 1: f: 'diff --git' names it, but '---' and '+++' name g",
    ),
    "new file with an old name": (
        GIT + b"new file mode 100644\n" + NAMES + b"@@ -0,0 +1 @@\n+b\n",
        "line 1: f: a header that says created or deleted, and names that say the opposite",
    ),
    "deleted file with a new name": (
        GIT + b"deleted file mode 100644\n" + NAMES + b"@@ -1 +0,0 @@\n-b\n",
        "line 1: f: a header that says created or deleted, and names that say the opposite",
    ),
    "dev null twice": (
        b"--- /dev/null\n+++ /dev/null\n@@ -0,0 +1 @@\n+b\n",
        "line 1: /dev/null: names /dev/null on both sides",
    ),
    "rename with only one name": (
        GIT + b"similarity index 100%\nrename from f\n",
        "line 1: f: a rename or copy that names only one of its two files",
    ),
    "copy with only one name": (
        GIT + b"copy to f\n",
        "line 1: f: a rename or copy that names only one of its two files",
    ),
    "rename that contradicts": (
        b"diff --git a/f b/g\nrename from f\nrename to g\n--- a/f\n+++ b/h\n@@ -1 +1 @@\n-a\n+b\n",
        "line 1: a/f b/g: the names of the rename or copy are not those of '---' and '+++'",
    ),
    "submodule": (
        (
            b"diff --git a/sub b/sub\nindex 1111111..2222222 160000\n--- a/sub\n+++ b/sub\n@@ -1 +1 @@\n"
            b"-Subproject commit 1111111\n+Subproject commit 2222222\n"
        ),
        "line 2: sub: a submodule's change cannot be applied to files",
    ),
    "new submodule": (
        b"diff --git a/sub b/sub\nnew file mode 160000\n",
        "line 2: sub: a submodule's change cannot be applied to files",
    ),
    "a device": (GIT + b"new file mode 20644\n", "line 2: f: mode 20644 is neither a file's nor a link's"),
    "no mode": (GIT + b"new file mode 0x1ff\n", "line 2: f: a mode that is no octal number: 0x1ff"),
    "kind changed in place": (
        GIT + b"old mode 100644\nnew mode 120000\n",
        "line 1: f: changes a file into a link, or back, without deleting it first",
    ),
    "dot dot": (
        b"--- a/../x\n+++ b/../x\n@@ -1 +1 @@\n-a\n+b\n",
        "line 1: ../x: '../x' holds '..' and would leave the site",
    ),
    "dot dot inside": (
        b"diff --git a/d/../../x b/d/../../x\nnew file mode 100644\n",
        "line 1: d/../../x: 'd/../../x' holds '..' and would leave the site",
    ),
    "rename that contradicts its header": (
        b"diff --git a/f b/g\nsimilarity index 100%\nrename from f\nrename to h\n",
        "line 1: a/f b/g: the names of the rename or copy are not those of 'diff --git'",
    ),
    "dot dot in a rename": (
        b"diff --git a/f b/../g\nsimilarity index 100%\nrename from f\nrename to ../g\n",
        "line 1: a/f b/../g: '../g' holds '..' and would leave the site",
    ),
    "dot dot quoted": (
        b'diff --git "a/\\056./x" "b/\\056./x"\nnew file mode 100644\n',
        "line 1: ../x: '../x' holds '..' and would leave the site",
    ),
    "dot": (
        b"--- a/./x\n+++ b/./x\n@@ -1 +1 @@\n-a\n+b\n",
        "line 1: ./x: './x' holds an empty or '.' part",
    ),
    "NUL": (
        b'diff --git "a/x\\000y" "b/x\\000y"\nnew file mode 100644\n',
        "line 1: x\\x00y: 'x\\x00y' holds a NUL byte",
    ),
    "the ledger": (
        b"--- a/.patchkit/ledger.json\n+++ b/.patchkit/ledger.json\n@@ -1 +1 @@\n-a\n+b\n",
        "line 1: .patchkit/ledger.json: '.patchkit/ledger.json' lies in .patchkit/, which belongs to patchkit's ledger",
    ),
    "too few parts": (
        b"--- f\n+++ f\n@@ -1 +1 @@\n-a\n+b\n",
        "line 1: f: has fewer than the 1 leading parts that are to be stripped",
    ),
    "a quote that does not end": (
        b'--- "a/f\n+++ "b/f\n@@ -1 +1 @@\n-a\n+b\n',
        'line 1: a quoted name that does not end: "a/f',
    ),
    "binary without method": (
        BINARY + b"lateral 5\n",
        "line 3: f: a binary change that names neither 'literal' nor 'delta' and a size",
    ),
    "binary with a bad letter": (
        BINARY + b"literal 5\n!abcde\n\n",
        "line 3: f: a binary change with a bad line: b'!abcde'",
    ),
    "binary with a cut line": (
        BINARY + b"literal 5\nMabcde\n\n",
        "line 3: f: a binary change with a cut line: b'Mabcde'",
    ),
    "binary that is no base 85": (
        BINARY + b'literal 5\nD"""""\n\n',
        'line 3: f: a binary change with a bad line: b\'D"""""\'',
    ),
    "binary that is no zlib": (
        BINARY + b"literal 5\nDabcde\n\n",
        (
            "line 3: f: a binary change whose data cannot be unpacked: Error -3 while decompressing data:"
            " incorrect header check"
        ),
    ),
    "binary that is cut off": (
        BINARY + packed(bytes(range(200)))[:79] + b"\n",
        "line 3: f: a binary change that promises 200 bytes and holds 45 or more",
    ),
    "binary of another size": (
        BINARY + packed(b"12345", size=6),
        "line 3: f: a binary change that promises 6 bytes and holds 5 or more",
    ),
    "binary too large": (
        BINARY + b"literal 9999999999\n",
        "line 3: f: a binary change that promises 9999999999 bytes; the limit for its data is 67108864",
    ),
}


@pytest.mark.parametrize("name", PARSE)
def test_refused_by_the_parser(name):
    diff, message = PARSE[name]
    with pytest.raises(DiffError) as caught:
        parse(diff)
    assert str(caught.value) == message


def test_an_absolute_name_is_refused():
    with pytest.raises(DiffError) as caught:
        parse(b"--- /etc/f\n+++ /etc/f\n@@ -1 +1 @@\n-a\n+b\n", strip=0)
    assert str(caught.value) == "line 1: /etc/f: '/etc/f' is absolute; a path must be relative to the site"


def test_paths_that_select_nothing():
    with pytest.raises(DiffError) as caught:
        parse(NAMES + b"@@ -1 +1 @@\n-a\n+b\n", paths=("g", "d/"))
    assert str(caught.value) == "none of its files lies in the selected paths (g, d/)"


def test_a_rename_that_leaves_the_selected_paths():
    with pytest.raises(DiffError) as caught:
        parse(b"diff --git a/d/f b/g\nsimilarity index 100%\nrename from d/f\nrename to g\n", paths=("d/",))
    assert str(caught.value) == "line 1: a/d/f b/g: d/f -> g: one of the two names lies outside the selected paths"


def misfit(files: Files, diff: bytes) -> str:
    with pytest.raises(MisfitError) as caught:
        run(files, parse(diff))
    return str(caught.value)


def delta(*parts: bytes, size: int = 5, target: int = 5) -> bytes:
    def number(value: int) -> bytes:
        out = bytearray()
        while value > 0x7F:
            out.append(value & 0x7F | 0x80)
            value >>= 7
        return bytes([*out, value])

    head = BINARY.replace(b"1" * 40, b"0" * 40)  # no name of a blob: the delta itself is to be judged
    return head + packed(number(size) + number(target) + b"".join(parts), b"delta")


HELLO = {"f": file(b"hello")}
GOOD_BACK = packed(b"hello")
MISFITS: dict[str, tuple[Files, bytes, str]] = {
    "delta for another file": (
        {"f": file(b"hell")},
        delta(b"\x90\x05") + GOOD_BACK,
        "f: the delta is against 5 bytes, the file has 4",
    ),
    "delta that copies from behind the end": (
        HELLO,
        delta(b"\x91\x01\x05") + GOOD_BACK,
        "f: the delta copies from behind the end of the file",
    ),
    "delta that is cut off in a copy": (HELLO, delta(b"\x91\x01") + GOOD_BACK, "f: the delta is cut off"),
    "delta that is cut off in an insertion": (HELLO, delta(b"\x05ab") + GOOD_BACK, "f: the delta is cut off"),
    "delta with a reserved instruction": (
        HELLO,
        delta(b"\x00") + GOOD_BACK,
        "f: the delta holds a reserved instruction",
    ),
    "delta of another size": (
        HELLO,
        delta(b"\x90\x04") + GOOD_BACK,
        "f: the delta promises 5 bytes and makes 4",
    ),
    "delta that promises too much": (
        HELLO,
        delta(b"\x90\x05", target=1 << 31) + GOOD_BACK,
        "f: the delta promises 2147483648 bytes; the limit for its file is 67108864",
    ),
    "binary for another file": (
        HELLO,
        BINARY + packed(b"other"),
        (
            "f: expected the bytes of blob 1111111111111111111111111111111111111111, found blob"
            " b6fc4c620b67d95f953a5c1c1230aaab5db5a1b0"
        ),
    ),
    "binary that names no blob": (
        HELLO,
        b"diff --git a/f b/f\nGIT binary patch\n" + packed(b"other"),
        "f: the binary change names no blob that it replaces; make it with git diff --full-index",
    ),
    "binary whose way back leads elsewhere": (
        HELLO,
        b"diff --git a/f b/f\nGIT binary patch\n" + packed(b"other") + packed(b"neither"),
        "f: the file's bytes are not the ones that the binary change replaces",
    ),
    "creates what is there": (
        HELLO,
        GIT + b"new file mode 100644\n--- /dev/null\n+++ b/f\n@@ -0,0 +1 @@\n+b\n",
        "f: the diff creates this file, but it is there already",
    ),
    "creates and expects lines": (
        {},
        GIT + b"new file mode 100644\n--- /dev/null\n+++ b/f\n@@ -1 +1 @@\n-a\n+b\n",
        "f: the diff creates this file, but its hunk expects lines in it",
    ),
    "creates in two hunks": (
        {},
        GIT + b"new file mode 100644\n--- /dev/null\n+++ b/f\n@@ -0,0 +1 @@\n+b\n@@ -0,0 +1 @@\n+b\n",
        "f: the diff creates this file, but in more than one hunk",
    ),
    "creates below a file": (
        HELLO,
        b"diff --git a/f/g b/f/g\nnew file mode 100644\n",
        "f/g: f, on the way to it, is no directory",
    ),
    "creates where a folder is": (
        {"f/g": file(b"")},
        GIT + b"new file mode 100644\n",
        "f: it is a directory, no regular file",
    ),
    "creates a file where the diff made a folder": (
        {},
        b"diff --git a/f/g b/f/g\nnew file mode 100644\n" + GIT + b"new file mode 100644\n",
        "f: it is a directory, no regular file",
    ),
    "writes through a link that it made": (
        {},
        (
            b"diff --git a/d b/d\nnew file mode 120000\n--- /dev/null\n+++ b/d\n@@ -0,0 +1 @@\n+/etc\n\\ No newline\n"
            b"diff --git a/d/passwd b/d/passwd\nnew file mode 100644\n--- /dev/null\n+++ b/d/passwd\n@@ -0,0 +1 @@\n+x\n"
        ),
        "d/passwd: d, on the way to it, is no directory but a symbolic link",
    ),
    "writes through a link that it moved there": (
        {"l": link(b"/etc")},
        (
            b"diff --git a/l b/d\nsimilarity index 100%\nrename from l\nrename to d\n"
            b"diff --git a/d/passwd b/d/passwd\nnew file mode 100644\n--- /dev/null\n+++ b/d/passwd\n@@ -0,0 +1 @@\n+x\n"
        ),
        "d/passwd: d, on the way to it, is no directory but a symbolic link",
    ),
    "edits a link": (
        {"f": link(b"a")},
        NAMES + b"@@ -1 +1 @@\n-a\n\\ No newline\n+b\n\\ No newline\n",
        "f: expected a regular file, found a symbolic link",
    ),
    "edits a file as a link": (
        {"f": file(b"a")},
        GIT + b"index 1111111..2222222 120000\n" + NAMES + b"@@ -1 +1 @@\n-a\n\\ No newline\n+b\n\\ No newline\n",
        "f: expected a symbolic link, found a regular file",
    ),
    "edits what is not there": ({}, NAMES + b"@@ -1 +1 @@\n-a\n+b\n", "f: the file is not there"),
    "deletes more than it knows": (
        {"f": file(b"a\nb\n")},
        GIT + b"deleted file mode 100644\n--- a/f\n+++ /dev/null\n@@ -1 +0,0 @@\n-a\n",
        "f: hunk at line 1: the lines that it expects are not in the file",
    ),
    "deletes without content": (
        {"f": file(b"a\n")},
        GIT + b"deleted file mode 100644\nindex 7898192..0000000\n",
        "f: the diff deletes this file, but it holds more than the diff knows",
    ),
    "renames over a file": (
        {"f": file(b"a"), "g": file(b"b")},
        b"diff --git a/f b/g\nsimilarity index 100%\nrename from f\nrename to g\n",
        "g: the diff makes this file from f, but it is there already",
    ),
    "copies over a file": (
        {"f": file(b"a"), "g": file(b"b")},
        b"diff --git a/f b/g\nsimilarity index 100%\ncopy from f\ncopy to g\n",
        "g: the diff makes this file from f, but it is there already",
    ),
    "renames over a file that fails to make way": (
        {"f": file(b"a\n"), "g": file(b"b\n")},
        (
            b"diff --git a/f b/g\nsimilarity index 100%\nrename from f\nrename to g\n"
            b"diff --git a/g b/h\nrename from g\nrename to h\n--- a/g\n+++ b/h\n@@ -1 +1 @@\n-c\n+d\n"
        ),
        (
            "g: the diff makes this file from f, but it is there already\n"
            "h: hunk at line 1: the lines that it expects are not in the file"
        ),
    ),
    "sets a mode that is set": (
        {"f": file(b"a", x=True)},
        GIT + b"old mode 100644\nnew mode 100755\n",
        "f: expected mode 644, found 755",
    ),
    "joins two lines": (
        {"f": file(b"a\nb\n")},
        b"--- a/f\n+++ b/f\n@@ -1,0 +2 @@\n+x\n\\ No newline at end of file\n",
        "f: hunk at line 1: it leaves a line without a line end in the middle of the file",
    ),
    "fits twice": (
        {"f": file(b"x\n" + lines(5) + lines(5))},
        b"--- a/f\n+++ b/f\n@@ -3,3 +3,3 @@\n line 1\n-line 2\n+line two\n line 3\n",
        "f: hunk at line 3: it fits in 2 places (lines 2, 7) and its line number decides none",
    ),
    "fits very often": (
        {"f": file(b"x\n" + lines(5) * 9)},
        b"--- a/f\n+++ b/f\n@@ -3,3 +3,3 @@\n line 1\n-line 2\n+line two\n line 3\n",
        "f: hunk at line 3: it fits in more than 5 places (lines 2, 7, 12, 17, 22, …) and its line number decides none",
    ),
}


@pytest.mark.parametrize("name", MISFITS)
def test_refused_by_the_applier(name):
    files, diff, message = MISFITS[name]
    assert misfit(files, diff) == message


@pytest.mark.parametrize(
    ("bomb", "message"),
    [
        (
            delta(b"\x80" * 0x4000, size=0x10000, target=1 << 30) + packed(bytes(0x10000)),
            "f: the delta promises 1073741824 bytes; the limit for its file is 67108864",
        ),
        (
            delta(b"\x80" * 0x4000, size=0x10000, target=1 << 20) + packed(bytes(0x10000)),
            "f: the delta promises 1048576 bytes and makes 1114112",
        ),
    ],
)
def test_a_delta_bomb_takes_no_memory(bomb, message):
    """A few bytes that copy a file of 64 KB again and again, up to a promised gigabyte."""
    assert len(bomb) < 1000
    tracemalloc.start()
    try:
        assert misfit({"f": file(bytes(0x10000))}, bomb) == message
        assert tracemalloc.get_traced_memory()[1] < 64 << 20
    finally:
        tracemalloc.stop()


def test_a_literal_bomb_takes_no_memory():
    bomb = BINARY + packed(bytes(100 << 20))
    tracemalloc.start()
    try:
        with pytest.raises(DiffError) as caught:
            parse(bomb)
        assert tracemalloc.get_traced_memory()[1] < 64 << 20
    finally:
        tracemalloc.stop()
    assert str(caught.value) == (
        "line 3: f: a binary change that promises 104857600 bytes; the limit for its data is 67108864"
    )
