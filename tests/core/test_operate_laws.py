"""Laws that hold for any two stacks on any tree: upgrading is applying anew, reverting is the identity."""

from __future__ import annotations

import os
from itertools import pairwise
from typing import TYPE_CHECKING

from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from patchkit.core.tree import LINK, FileState, UnreadableError
from patchkit.core.verdicts import Outcome
from tests.core.stacks import (
    Content,
    apply,
    build,
    diff,
    fast_dir,
    leftovers,
    listing,
    revert,
    snapshot,
    verify,
    write_tree,
)

if TYPE_CHECKING:
    from pathlib import Path

NAMES = ("a", "b", "d/a", "d/b.py", "d/e/f.py", "g/h")
Tree = dict[str, FileState]

contents = st.one_of(
    st.builds(
        lambda data, mode: FileState(data=data, mode=mode),
        st.sampled_from([b"", b"one\n", b"one\ntwo\n", b"X = 1\n", b"no end", b"\0bin\xff"]),
        st.sampled_from([0o644, 0o755]),
    ),
    st.sampled_from(["a", "../b", "nowhere"]).map(lambda to: FileState(kind=LINK, mode=0o777, data=to.encode())),
)
trees = st.dictionaries(st.sampled_from(NAMES), contents, max_size=len(NAMES)).map(
    lambda tree: {path: _python(path, what) for path, what in tree.items()}
)


def _python(path: str, what: FileState) -> FileState:
    """Python files hold Python, as nothing else is applied."""
    fine = not path.endswith(".py") or what.kind == LINK or what.data in (b"", b"X = 1\n")
    return what if fine else FileState(data=b"Y = 2\n", mode=what.mode)


def steps_to(*stages: Tree) -> dict[str, str]:
    """One step a stage, each from the tree before to the tree after it; none where nothing changes."""
    patches = {}
    for number, (before, after) in enumerate(pairwise(stages)):
        text = diff(dict(before), dict(after))
        if text:
            patches[f"s{number}"] = text
    return patches


def make(root: Path, tree: Tree, odd: int) -> Path:
    """The tree on disk, with modes, attributes, hard links, byte-code and empty directories of its own."""
    site = write_tree(root, dict(tree))
    (site / "empty").mkdir(exist_ok=True)
    (site / "g").mkdir(exist_ok=True)
    for number, path in enumerate(sorted(tree)):
        file = site / path
        if file.is_symlink():
            continue
        if (odd >> number) & 1:
            os.setxattr(file, "user.note", path.encode())
        if (odd >> number) & 2:
            os.link(file, site / f"twin{number}")
        if (odd >> number) & 4 and not tree[path].mode & 0o100:
            file.chmod(0o640)
            if os.geteuid() == 0:
                os.chown(file, 1000, 1000)
    if (site / "d").is_dir():
        (site / "d").chmod(0o750)
    return site


def bare(site: Path) -> dict[str, tuple[object, ...]]:
    return {path: what for path, what in snapshot(site).items() if path != ".patchkit/log"}


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow])
@given(
    pristine=trees,
    one=st.lists(trees, min_size=1, max_size=3),
    two=st.lists(trees, min_size=1, max_size=3),
    odd=st.integers(0, 255),
)
def test_the_laws(pristine: Tree, one: list[Tree], two: list[Tree], odd: int) -> None:
    content: dict[str, Content] = dict(pristine)
    try:
        s1 = build(content, steps_to(pristine, *one))  # type: ignore[arg-type]
        s2 = build(content, steps_to(pristine, *two), version=2)  # type: ignore[arg-type]
    except (UnreadableError, AssertionError):
        assume(False)
    with fast_dir() as base:
        site, fresh = make(base / "site", pristine, odd), make(base / "fresh", pristine, odd)
        before = snapshot(site)
        assert apply(s1, site).error is None
        first = listing(site)
        assert apply(s1, site).outcome is Outcome.UNCHANGED
        assert listing(site) == first
        assert verify(s1, site).outcome is Outcome.CLEAN
        assert apply(s2, site).error is None
        assert apply(s2, fresh).error is None
        assert bare(site) == bare(fresh)
        assert leftovers(site) == []
        assert {p: (site / p).read_bytes() for p, s in two[-1].items() if s.kind != LINK} == {
            p: s.data for p, s in two[-1].items() if s.kind != LINK
        }
        assert revert(site).error is None
        assert snapshot(site) == before
