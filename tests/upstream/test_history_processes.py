"""How often git is started: for one landing as often as for many."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING

from patchkit.upstream.containment import contains
from patchkit.upstream.history import read_history
from patchkit.upstream.landing import ClonePatchIds
from patchkit.upstream.reverts import tell
from tests.upstream.made_history import REPO, Made, pull, ref

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def test_git_is_started_a_few_times_for_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = Made(tmp_path / "made")
    shas = [made.land(f"Change {number} (#{number})", {"a": f"{number}\n"}) for number in range(1, 31)]
    made.git("tag", "v1.0")
    made.revert(shas[-1], 'Revert "Change 30 (#30)" (#31)')
    treeless = made.cloned(tmp_path / "treeless.git", "--filter=tree:0")
    log, wrapper = tmp_path / "log", tmp_path / "bin" / "git"
    wrapper.parent.mkdir()
    wrapper.write_text(f'#!/bin/sh\necho "$1" >> {log}\nexec {shutil.which("git")} "$@"\n')
    wrapper.chmod(0o755)
    monkeypatch.setenv("PATH", f"{wrapper.parent}:{os.environ['PATH']}")
    history = read_history(treeless, repo=REPO, revisions=["main~3"])
    assert history is not None
    read = log.read_text().split()
    assert sorted(read) == ["for-each-ref", "log", "rev-parse", "rev-parse", "rev-parse"]
    ids = ClonePatchIds(treeless, history.base)
    for number in range(1, 31):
        story = tell(ref(number), pull(number, f"Change {number}"), history, patch_ids=ids)
        assert contains(story.turns, shas[5], history=history).in_image is (number <= 6)
        assert story.fate.first_release == "v1.0"
    assert log.read_text().split() == read


def test_patch_ids_take_two_processes_for_a_whole_window(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = Made(tmp_path / "made")
    shas = [made.land(f"Change {number}", {"a": f"{number}\n", "b": f"{number}\n"}) for number in range(20)]
    clone = made.clone
    log, wrapper = tmp_path / "log", tmp_path / "bin" / "git"
    wrapper.parent.mkdir()
    wrapper.write_text(f'#!/bin/sh\necho "$*" >> {log}\nexec {shutil.which("git")} "$@"\n')
    wrapper.chmod(0o755)
    monkeypatch.setenv("PATH", f"{wrapper.parent}:{os.environ['PATH']}")
    found = clone.patch_ids(shas, ["a"])
    assert [set(found[sha]) for sha in shas] == [{"a"}] * 20
    assert len(log.read_text().splitlines()) == 2
