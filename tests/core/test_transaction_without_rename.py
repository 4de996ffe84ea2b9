"""States that a run leaves where files cannot be renamed (archives of a container): core repairs them, too."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING

import pytest

from patchkit.core.errors import DriftError
from patchkit.core.journal import parse
from tests.core.stacks import verify
from tests.core.test_transaction_kill import World, _fast, pristine  # noqa: F401 - fixtures

if TYPE_CHECKING:
    from pathlib import Path

    from patchkit.core.journal import Journal


def committed(world: World) -> tuple[Path, Journal]:
    """A run that was killed just after its commit point, and its journal."""
    number = 0
    while (site := world.killed(number := number + 1)) is not None:
        text = (site / ".patchkit/journal.json").read_bytes() if (site / ".patchkit/journal.json").exists() else b""
        if b'"commit"' in text:
            return site, parse(text, "journal.json")
    raise AssertionError


NAMES = pytest.mark.parametrize("name", ["apply", "upgrade", "revert"])


def ends_whole(world: World, site: Path) -> None:
    if world.name == "revert":
        world.check_revert(site)
    else:
        world.check_apply(site)


@NAMES
def test_the_journal_was_removed_before_its_committed_form_took_its_place(name: str, pristine: Path) -> None:  # noqa: F811
    world = World(name, pristine)
    site, _ = committed(world)
    (site / ".patchkit/journal.json").rename(site / ".patchkit/journal.json.tmp")
    with pytest.raises(DriftError, match="an earlier run was interrupted"):
        verify(world.stack, site)
    ends_whole(world, site)


def test_a_half_written_journal_is_no_journal(pristine: Path) -> None:  # noqa: F811
    world = World("upgrade", pristine)
    site = world.start
    (site / ".patchkit/journal.json.tmp").write_bytes(b'{"phase": "commit"')
    verify(world.stack, site)
    world.check_apply(site)


@NAMES
@pytest.mark.parametrize("how", ["removed", "both names"])
def test_a_file_is_removed_or_linked_while_its_new_form_waits(how: str, name: str, pristine: Path) -> None:  # noqa: F811
    world = World(name, pristine)
    site, journal = committed(world)
    touched = 0
    for entry in journal.entries:
        path = site / entry.path
        if entry.temp is not None and path.parent.is_dir() and not path.is_dir():
            path.unlink(missing_ok=True)
            if how == "both names":
                os.link(site / entry.temp, path, follow_symlinks=False)
            touched += 1
    assert touched
    ends_whole(world, site)


@pytest.mark.parametrize("how", ["empty", "part", "all"])
def test_a_new_directory_is_filled_entry_by_entry(how: str, pristine: Path) -> None:  # noqa: F811
    world = World("apply", pristine)
    site, journal = committed(world)
    for temp, target in journal.moves:
        if temp in journal.temp_dirs:
            fill(site / temp, site / target, how)
    ends_whole(world, site)


def test_somebody_elses_file_in_a_new_directory_stops_it(pristine: Path) -> None:  # noqa: F811
    world = World("apply", pristine)
    site, journal = committed(world)
    target = next(target for temp, target in journal.moves if temp in journal.temp_dirs)
    (site / target).unlink(missing_ok=True)
    (site / target).mkdir()
    (site / target / "mine").write_text("mine\n")
    with pytest.raises(DriftError, match="somebody made this directory"):
        world.act(site)
    assert (site / target / "mine").read_text() == "mine\n"


def fill(source: Path, target: Path, how: str) -> None:
    """Make what `source` holds appear at `target`, wholly or in part."""
    target.unlink(missing_ok=True)
    target.mkdir()
    if how == "empty":
        return
    for number, path in enumerate(sorted(source.iterdir())):
        if how == "part" and number:
            continue
        if path.is_dir():
            shutil.copytree(path, target / path.name, copy_function=os.link)
        else:
            os.link(path, target / path.name)
