"""The shared cases: real diffs of git and GNU diff, with the trees before and after."""

from __future__ import annotations

from pathlib import Path

import pytest

from patchkit.core.diffs import parse
from patchkit.core.tree import LINK, FileState
from patchkit.core.verdicts import Verdict
from tests.core.trees import check_there_and_back, git_apply, plain, read_tree

CASES = Path(__file__).parents[1] / "cases" / "diffs"
NAMES = sorted(path.name for path in CASES.iterdir())
STRIP = {"36_noprefix": 0}
#: the cases were laid with links as files that hold the link's target
LINKS = {"19_symlink_new": ("ln",)}


def trees_of(name: str) -> tuple[dict[str, FileState], bytes, dict[str, FileState]]:
    before, after = read_tree(CASES / name / "a"), read_tree(CASES / name / "b")
    for path in LINKS.get(name, ()):
        after[path] = FileState(kind=LINK, mode=0o777, data=after[path].data)
    return before, (CASES / name / "p.diff").read_bytes(), after


def test_all_twenty_are_here():
    assert len(NAMES) == 20


@pytest.mark.parametrize("name", NAMES)
def test_forward_back_and_again(name):
    before, diff, after = trees_of(name)
    check_there_and_back(before, diff, after, strip=STRIP.get(name, 1), verdicts={Verdict.UPSTREAM})


@pytest.mark.parametrize("name", NAMES)
def test_git_apply_agrees(name, tmp_path):
    before, diff, after = trees_of(name)
    made = git_apply(tmp_path / "t", before, diff, f"-p{STRIP.get(name, 1)}")
    assert made is not None
    assert plain(made) == plain(after)


@pytest.mark.parametrize("name", NAMES)
def test_the_prefix_puts_every_path_elsewhere(name):
    _, diff, _ = trees_of(name)
    strip = STRIP.get(name, 1)
    moved = parse(diff, strip=strip, prefix="deep/er")
    assert [s.paths for s in moved] == [tuple(f"deep/er/{p}" for p in s.paths) for s in parse(diff, strip=strip)]
