"""Hypothesis strategies: trees with nasty bytes and names, and edits of them."""

from __future__ import annotations

import os
from dataclasses import dataclass

from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st

from patchkit.core.tree import LINK, FileState
from tests.core.trees import Files, file, link

#: the same examples in every run, few enough for it; `MANY` are others each time, and as many as asked for
FEW = settings(
    max_examples=120,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=list(HealthCheck),
    phases=(Phase.generate, Phase.shrink),
)
MANY = settings(FEW, max_examples=int(os.environ.get("PATCHKIT_EXAMPLES", "2000")), derandomize=False)

#: no name is a folder of another one
NAMES = (
    *("f.py", "g", "d/f", "d/g h", "d/e/k", " lead", "trail ", "a\tb", "new\nline", 'quo"te', "back\\slash"),
    *("naïve", "raw\udcff\udcfe", "x b/x", "y b/y b/y", "--- a", "+++ b", "\u2028", "c\r", "a/a", "b/b", "-"),
)
LINE = st.sampled_from(
    (
        *(b"", b"", b"}", b"    return x", b"pass", b"a", b"b", b" ", b"\t", b"\r", b"end\r", b"mid\rdle", b"\x0c"),
        *(b"caf\xe9", b"\xff\xfe", b"\xef\xbb\xbf", "\u2028\x85".encode(), b"\x1c\x1d\x1e", b"-- a/f", b"++ b/f"),
        *(b"\\ No newline at end of file", b"@@ -1,2 +1,2 @@", b"diff --git a/f b/f", b"-- ", b"2.39.5", b"\x01\x7f"),
        *(b"line %d" % n for n in range(40)),
    )
)
LINES = st.lists(LINE, max_size=40)


@st.composite
def texts(draw: st.DrawFn) -> bytes:
    kind = draw(st.sampled_from(("numbered", "free", "repeated", "empty")))
    if kind == "empty":
        return b""
    if kind == "numbered":
        body = [b"line %d" % n for n in range(draw(st.integers(1, 60)))]
    elif kind == "repeated":
        body = draw(st.lists(LINE, min_size=1, max_size=4)) * draw(st.integers(1, 12))
    else:
        body = draw(LINES)
    return b"\n".join(body) + (b"" if draw(st.integers(0, 4)) == 0 else b"\n")


@st.composite
def binaries(draw: st.DrawFn) -> bytes:
    seed, size = draw(st.integers(0, 255)), draw(st.integers(0, 3000))
    return b"\0" + bytes((seed + i * i) % 256 for i in range(size))


@st.composite
def states(draw: st.DrawFn) -> FileState:
    kind = draw(st.sampled_from(("text", "text", "text", "binary", "link")))
    if kind == "link":
        return link(draw(st.sampled_from((b"f.py", b"../out", b"/etc/passwd", b"a b\n", b"\xff"))))
    data = draw(texts() if kind == "text" else binaries())
    return file(data, x=draw(st.booleans()))


@st.composite
def edited(draw: st.DrawFn, data: bytes) -> bytes:
    """`data` with some lines inserted, removed, replaced or doubled, or its end changed."""
    body = data.split(b"\n")
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(body)))
        what = draw(st.sampled_from(("insert", "remove", "replace", "double", "end")))
        if what == "insert":
            body[at:at] = draw(st.lists(LINE, min_size=1, max_size=3))
        elif what == "remove":
            del body[at : at + draw(st.integers(1, 5))]
        elif what == "replace":
            body[at : at + draw(st.integers(1, 3))] = [draw(LINE)]
        elif what == "double":
            body[at:at] = body[at : at + draw(st.integers(1, 4))]
        elif body and body[-1] == b"":
            body.pop()
        else:
            body.append(b"")
    return b"\n".join(body)


@st.composite
def edited_state(draw: st.DrawFn, state: FileState) -> FileState:
    if state.kind == LINK:
        return draw(states())
    what = draw(st.sampled_from(("lines", "lines", "lines", "mode", "both", "bytes", "other")))
    if what == "other":
        return draw(states())
    executable = bool(state.mode & 0o100) != (what in ("mode", "both"))
    if what == "mode":
        return file(state.data, x=executable)
    if what == "bytes" or b"\0" in state.data:
        at = draw(st.integers(0, len(state.data)))
        middle = draw(st.binary(max_size=5))
        return file(state.data[:at] + middle + state.data[at + draw(st.integers(0, 9)) :], x=executable)
    return file(draw(edited(state.data)), x=executable)


@st.composite
def trees(draw: st.DrawFn) -> Files:
    names = draw(st.lists(st.sampled_from(NAMES), min_size=1, max_size=5, unique=True))
    return {name: draw(states()) for name in names}


@st.composite
def edits(draw: st.DrawFn, before: Files) -> Files:
    """`before` after a few edits."""
    after = dict(before)
    for _ in range(draw(st.integers(1, 4))):
        what = draw(st.sampled_from(("edit", "edit", "edit", "rename", "swap", "copy", "delete", "add")))
        if what == "add" or not after:
            after[draw(st.sampled_from(NAMES))] = draw(states())
            continue
        name = draw(st.sampled_from(sorted(after)))
        other = draw(st.sampled_from(NAMES))
        if what == "delete":
            del after[name]
        elif what == "edit":
            after[name] = draw(edited_state(after[name]))
        elif what == "swap" and other in after:
            after[name], after[other] = after[other], after[name]
        elif what in ("rename", "swap"):
            after[other] = after.pop(name)
        else:
            after[other] = after[name]
        if what in ("rename", "swap", "copy") and draw(st.booleans()):
            after[other] = draw(edited_state(after[other]))
    return after


@dataclass(frozen=True, kw_only=True)
class Options:
    """How git is to write the diff."""

    words: tuple[str, ...]
    strip: int


@st.composite
def options(draw: st.DrawFn) -> Options:
    words = ["--binary", f"-U{draw(st.integers(0, 8))}"]
    words += draw(
        st.sampled_from(([], ["-M"], ["-M30%"], ["-C", "--find-copies-harder"], ["-B", "-M"], ["--no-renames"]))
    )
    words += draw(st.sampled_from(([], [], ["--full-index"])))
    words += draw(st.sampled_from(([], ["--patience"], ["--minimal"], ["--inter-hunk-context=3"])))
    prefix = draw(st.sampled_from((["--no-prefix"], ["--src-prefix=i/", "--dst-prefix=w/"], [], [])))
    return Options(words=(*words, *prefix), strip=0 if prefix == ["--no-prefix"] else 1)
