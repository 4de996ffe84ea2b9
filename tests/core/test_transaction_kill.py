"""Killed at any instant, the next run ends in fully applied or fully pristine."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from patchkit.core import inspect
from patchkit.core.errors import DriftError, PatchkitError
from patchkit.core.verdicts import Outcome
from tests.core.kills import copy, killed_at
from tests.core.stacks import (
    Content,
    Stack,
    apply,
    build,
    diff,
    fast_dir,
    leftovers,
    link,
    numbered,
    opened,
    revert,
    snapshot,
    state,
    verify,
    write_tree,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

PRISTINE: dict[str, Content] = {
    "pkg/mod.py": "X = 1\n",
    "pkg/other.py": "Y = 1\n",
    "pkg/shared.txt": numbered(),
    "old/name.txt": numbered(),
    "gone/deep/x.txt": numbered(),
    "run.sh": numbered(),
    "tool": "a file\n",
    "l": link("run.sh"),
}
RENAME = (
    "diff --git a/old/name.txt b/fresh/dir/name.txt\nsimilarity index 100%\nrename from old/name.txt\n"
    "rename to fresh/dir/name.txt\n"
)
MODE = "diff --git a/run.sh b/run.sh\nold mode 100644\nnew mode 100755\n"
V1 = build(
    PRISTINE,
    {
        "mod": diff({"pkg/mod.py": "X = 1\n"}, {"pkg/mod.py": "X = 2\n"}),
        "shared": diff({"pkg/shared.txt": numbered()}, {"pkg/shared.txt": numbered(20, _3="v1")}),
        "rename": RENAME,
        "split": diff({"tool": "a file\n"}, {"tool/main": "m\n", "tool/sub/more": "n\n"}),
    },
)
V2 = build(
    PRISTINE,
    {
        "mod": diff({"pkg/mod.py": "X = 1\n"}, {"pkg/mod.py": "X = 3\n"}),
        "del": diff({"gone/deep/x.txt": numbered()}, {}),
        "mode": MODE,
        "relink": diff({"l": link("run.sh")}, {"l": link("tool")}),
        "add": diff({}, {"n/e/w.txt": "new\n"}),
    },
    version=2,
)
Tree = dict[str, tuple[object, ...]]


@pytest.fixture(autouse=True)
def _fast(monkeypatch: pytest.MonkeyPatch) -> None:
    """A killed process loses nothing that the kernel holds: no need to wait for the disk here."""
    monkeypatch.setattr(os, "fsync", lambda _: None)


@pytest.fixture
def pristine() -> Iterator[Path]:
    """In memory where there is such a file system: the tests make some thousand trees."""
    with fast_dir() as base:
        yield make_pristine(base / "pristine")


def make_pristine(site: Path) -> Path:
    write_tree(site, PRISTINE)
    (site / "pkg/__pycache__").mkdir()
    (site / "pkg/__pycache__/mod.cpython-311.pyc").write_bytes(b"stale")
    (site / "pkg/__pycache__/other.cpython-311.pyc").write_bytes(b"not ours")
    os.link(site / "pkg/shared.txt", site / "twin.txt")
    (site / "gone/deep").chmod(0o750)
    (site / "old").chmod(0o700)
    return site


def content(site: Path) -> Tree:
    """The tree without the ledger and byte-code."""
    return {
        p: s
        for p, s in snapshot(site).items()
        if not p.startswith(".patchkit") and p != "pkg/__pycache__/mod.cpython-311.pyc"
    }


def check_readers(stack: Stack, site: Path, expected: Tree) -> bool:
    """Whether the readers call the tree interrupted; where they do not, what they say must be true."""
    before = snapshot(site)
    interrupted = (site / ".patchkit/journal.json").exists()
    if interrupted:
        for read in (
            lambda: verify(stack, site),
            lambda: look(inspect.status, stack, site),
            lambda: look(inspect.diff, stack, site),
        ):
            with pytest.raises(DriftError, match="an earlier run was interrupted"):
                read()
    elif verify(stack, site).outcome is Outcome.CLEAN:
        assert content(site) == expected
    assert snapshot(site) == before
    return interrupted


def look(read: Callable[..., object], stack: Stack, site: Path) -> object:
    with opened(site) as target:
        return read(stack.request(), target)


class World:
    """One scenario: a tree to start from, an action, and what the tree may end in."""

    def __init__(self, name: str, pristine: Path) -> None:
        self.base = pristine.parent
        self.pristine = content(pristine)
        self.start = copy(pristine, self.base / "start")
        self.stack = V2 if name == "upgrade" else V1
        if name != "apply":
            apply(V1, self.start)
        done = copy(pristine, self.base / "done")
        apply(self.stack, done)
        self.applied = content(done)
        self.name = name

    def act(self, site: Path) -> None:
        if self.name == "revert":
            revert(site)
        else:
            apply(self.stack, site)

    def killed(self, number: int) -> Path | None:
        site = copy(self.start, self.base / "site")
        return site if killed_at(number, lambda: self.act(site)) else None

    def check_apply(self, site: Path) -> None:
        report = apply(self.stack, site)
        assert report.error is None
        assert content(site) == self.applied
        assert leftovers(site) == []
        assert verify(self.stack, site).outcome is Outcome.CLEAN
        revert(site)
        self.check_pristine(site)

    def check_revert(self, site: Path) -> None:
        assert revert(site).error is None
        self.check_pristine(site)

    def gives_up(self, site: Path) -> bool:
        """Whether a forced revert gives the pristine tree; else it has refused and changed nothing."""
        before = snapshot(site)
        try:
            revert(site, force=True)
        except DriftError as error:
            assert "pristine/" in error.hint
            assert snapshot(site) == before
            return False
        self.check_pristine(site)
        return True

    def check_pristine(self, site: Path) -> None:
        assert content(site) == self.pristine
        assert leftovers(site) == []
        assert not (site / ".patchkit").exists()


@pytest.mark.parametrize("name", ["apply", "upgrade", "revert"])
def test_killed_at_every_change(name: str, pristine: Path) -> None:
    world = World(name, pristine)
    interruptions = number = 0
    while (site := world.killed(number := number + 1)) is not None:
        other = copy(site, world.base / "other")
        interruptions += check_readers(world.stack, site, world.applied)
        world.check_apply(site)
        world.check_revert(other)
    assert number > 40
    assert interruptions > 30


@pytest.mark.parametrize("name", ["apply", "upgrade", "revert"])
def test_an_edit_between_kill_and_repair_is_not_lost(name: str, pristine: Path) -> None:
    world = World(name, pristine)
    refused = forced = 0
    number = -1
    while (site := world.killed(number := number + 2)) is not None:
        if not (site / ".patchkit/journal.json").exists():
            continue
        there = [p for p in ("pkg/mod.py", "pkg/shared.txt", "run.sh", "fresh/dir/name.txt") if (site / p).is_file()]
        mine = site / there[number // 2 % len(there)]
        after = mine.read_bytes() + b"# mine\n"
        mine.unlink()  # as editors do; in place, a hard link's other name would change, too
        mine.write_bytes(after)
        before = content(site)
        codes = []
        for act in (lambda s=site: apply(world.stack, s), lambda s=site: revert(s)):
            try:
                codes.append(act().exit_code)
            except PatchkitError as error:
                codes.append(error.exit_code)
        assert mine.read_bytes() == after
        if (site / ".patchkit/journal.json").exists():
            assert content(site) == before
            assert codes == [4, 4]
            refused += 1
            forced += world.gives_up(site)
    assert refused > 2
    assert 0 < forced <= refused
    assert name != "apply" or forced == refused


@pytest.mark.slow
@pytest.mark.parametrize("name", ["apply", "upgrade", "revert"])
def test_killed_again_in_the_repair(name: str, pristine: Path) -> None:
    world = World(name, pristine)
    number = -2
    while (site := world.killed(number := number + 4)) is not None:
        second = 0
        while True:
            again = copy(site, world.base / "again")
            if not killed_at(second := second + 1, lambda a=again: apply(world.stack, a)):
                break
            if second % 3 == number % 3:
                world.check_apply(again)


def test_a_no_op_repairs_first_and_says_so(pristine: Path) -> None:
    world = World("apply", pristine)
    outcomes = set()
    number = -2
    while (site := world.killed(number := number + 3)) is not None:
        report = apply(V1, site)
        outcomes.add((report.outcome, report.notes[:1]))
    assert outcomes >= {
        (Outcome.APPLIED, ("an interrupted run was undone",)),
        (Outcome.UNCHANGED, ("an interrupted run was finished",)),
    }


def committed_upgrade(pristine: Path) -> Path:
    """An upgrade that was killed just after its commit point."""
    world = World("upgrade", pristine)
    few, many = 0, 500
    while many - few > 1:
        middle = (few + many) // 2
        few, many = (few, middle) if is_decided(world.killed(middle)) else (middle, many)
    site = world.killed(many)
    assert site is not None
    assert b'"commit"' in (site / ".patchkit/journal.json").read_bytes()
    return site


def is_decided(site: Path | None) -> bool:
    """Whether the upgrade was past its commit point."""
    if site is None:
        return True
    journal, ledger = site / ".patchkit/journal.json", site / ".patchkit/ledger.json"
    return (journal.exists() and b'"commit"' in journal.read_bytes()) or b'"version": 2' in ledger.read_bytes()


@pytest.mark.parametrize(
    "damage",
    [
        lambda j: j.write_text("{}"),
        lambda j: j.write_text("no json"),
        lambda j: j.write_text(j.read_text().replace("pkg/mod.py", "pkg/../../x")),
        lambda j: j.write_bytes(j.read_bytes()[:100]),
        lambda j: (j.unlink(), j.symlink_to("ledger.json")),
        lambda j: (j.unlink(), j.mkdir()),
    ],
)
def test_a_tampered_journal(damage: Callable[[Path], object], pristine: Path) -> None:
    site = committed_upgrade(pristine)
    damage(site / ".patchkit/journal.json")
    before = snapshot(site)
    for act in (lambda: apply(V2, site), lambda: revert(site), lambda: verify(V2, site)):
        with pytest.raises(DriftError):
            act()
    assert snapshot(site) == before


@pytest.mark.parametrize("lost", ["temp", "changed temp", "ledger"])
def test_a_lost_piece_of_a_committed_change(lost: str, pristine: Path) -> None:
    site = committed_upgrade(pristine)
    temps = sorted(site.glob("pkg/.patchkit-*.tmp"))
    if lost == "temp":
        temps[0].unlink()
    elif lost == "changed temp":
        temps[0].write_text("evil")
    else:
        (site / ".patchkit/ledger.json.tmp").unlink()
    before = snapshot(site)
    with pytest.raises(DriftError, match="an interrupted run"):
        apply(V2, site)
    assert snapshot(site) == before


@pytest.mark.parametrize("name", ["upgrade", "revert"])
def test_an_edit_when_only_tidying_up_is_left(name: str, pristine: Path) -> None:
    """A file that the change has left behind is somebody else's again: it stays as they make it."""
    world = World(name, pristine)
    number, tidying = 0, 0
    while (site := world.killed(number := number + 1)) is not None:
        ledger, journal = site / ".patchkit/ledger.json", site / ".patchkit/journal.json"
        done = b'"version": 2' in ledger.read_bytes() if ledger.exists() else True
        if not journal.exists() or not done:
            continue
        (site / "fresh").mkdir(exist_ok=True)
        for path in ("pkg/shared.txt", "fresh/mine.txt"):
            (site / path).write_text("mine\n")
        assert revert(site).error is None
        assert (site / "pkg/shared.txt").read_text() == (site / "fresh/mine.txt").read_text() == "mine\n"
        assert not (site / ".patchkit").exists()
        tidying += 1
    assert tidying > 2


def test_the_world_is_what_it_says(pristine: Path) -> None:
    """The scenarios hold every kind of change."""
    apply(V1, pristine)
    assert state((pristine / "tool/main").read_bytes()) == state("m\n")
    apply(V2, pristine)
    assert os.readlink(pristine / "l") == "tool"
    assert (pristine / "tool").read_text() == "a file\n"
    assert not (pristine / "gone").exists()
