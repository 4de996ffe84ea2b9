"""`may_move` of `pip` steps: other packages move with the named ones where the stack lets them, and move back."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from patchkit.core.site import Site
from patchkit.core.transaction import Transaction, read_ledger

from .machines import Machine, pip_step

if TYPE_CHECKING:
    from .machines import Index

BAD = {"id": "bad", "run": {"argv": ["false"]}, "reason": "a test"}


@pytest.fixture
def wanting(machine: Machine, index: Index) -> Machine:
    """dep 1.0 is installed; wants 1.0 needs dep 2.0, and new, which is not there."""
    for version in ("1.0", "2.0", "3.0"):
        index.add("dep", version)
    index.add("wants", "1.0", "dep==2.0", "new")
    index.add("wants", "2.0", "dep==3.0", "new")
    index.add("new", "5")
    machine.pip("dep==1.0")
    return machine


def versions(machine: Machine) -> tuple[str | None, ...]:
    return tuple(machine.version(name) for name in ("wants", "dep", "new"))


def test_what_may_move_moves_and_comes_back(wanting: Machine, index: Index) -> None:
    wanting.stack(wanting.first(), pip_step("wants==1.0", may_move=["Dep", "new", "kern"]))
    planned = wanting.run("apply", "--dry-run", "--json").json
    assert planned["steps"][1]["detail"] == (
        "would install wants (not there) -> 1.0 from the index that pip is set to;"
        " with it would move dep 1.0 -> 2.0, new (not there) -> 5"
    )
    assert versions(wanting) == (None, "1.0", None)
    result = wanting.run("apply", "--json").json
    assert result["steps"][1]["detail"] == "installed dep 1.0 -> 2.0, new (not there) -> 5, wants (not there) -> 1.0"
    assert versions(wanting) == ("1.0", "2.0", "5")
    with Site(str(wanting.site)) as site:
        ledger = read_ledger(site)
    assert ledger is not None
    packages = (ledger.steps[1].effect or {})["packages"]
    assert {name: (e["before"], e["after"], len(e["sha256"])) for name, e in packages.items()} == {
        "wants": (None, "1.0", 1),
        "dep": ("1.0", "2.0", 1),
        "new": (None, "5", 1),
    }
    assert wanting.run("apply", "--json").json["outcome"] == "unchanged"
    assert wanting.run("verify").code == 0
    index.close()
    assert wanting.run("revert").code == 0
    assert versions(wanting) == (None, "1.0", None)
    assert not (wanting.site / ".patchkit").exists()


def test_only_what_is_listed_may_move(wanting: Machine) -> None:
    wanting.stack(wanting.first(), pip_step("wants==1.0", may_move=["dep"]))
    result = wanting.run("apply")
    assert result.code == 8
    assert result.err == (
        "error: step kern (pip): it would move packages that it does not name: new (not there) -> 5\n"
        "hint: name them in `requirements`, pinned; or let them move with it: `may_move: [new]`;"
        " or take a version that goes with what is installed\n"
    )
    assert versions(wanting) == (None, "1.0", None)
    assert not (wanting.site / ".patchkit").exists()


def test_a_moved_package_that_moves_again_is_drift(wanting: Machine) -> None:
    wanting.stack(pip_step("wants==1.0", may_move=["dep", "new"]))
    assert wanting.run("apply").code == 0
    wanting.pip("--no-deps", "dep==1.0")
    result = wanting.run("verify")
    assert (result.code, result.err) == (
        4,
        (
            "error: step kern (pip): dep is 1.0, not 2.0, which came with it\n"
            f"hint: carry it out again: {wanting.typed('apply')}\n"
        ),
    )
    again = wanting.run("apply", "--json").json
    assert again["steps"][0]["detail"] == "installed dep 1.0 -> 2.0"
    assert versions(wanting) == ("1.0", "2.0", "5")
    assert wanting.run("verify").code == 0
    assert wanting.run("revert").code == 0
    assert versions(wanting) == (None, "1.0", None)


def test_a_failure_after_it_moves_them_back(wanting: Machine) -> None:
    wanting.stack(wanting.first(), pip_step("wants==1.0", may_move=["dep", "new"]), BAD)
    result = wanting.run("apply")
    assert result.code == 8
    assert "error: rolled back: step kern (pip)\n" in result.err
    assert versions(wanting) == (None, "1.0", None)
    assert not (wanting.site / ".patchkit").exists()


def test_an_upgrade_of_what_moved(wanting: Machine) -> None:
    """Where it fails the first version is back, moved packages too; a revert leads to what was there first."""
    wanting.stack(pip_step("wants==1.0", may_move=["dep", "new"]))
    assert wanting.run("apply").code == 0
    wanting.stack(pip_step("wants==2.0", may_move=["dep", "new"]), BAD, version=2)
    assert wanting.run("apply").code == 8
    assert versions(wanting) == ("1.0", "2.0", "5")
    wanting.stack(pip_step("wants==2.0", may_move=["dep", "new"]), version=3)
    assert wanting.run("apply").code == 0
    assert versions(wanting) == ("2.0", "3.0", "5")
    assert wanting.run("revert").code == 0
    assert versions(wanting) == (None, "1.0", None)


@pytest.mark.parametrize("then", ["apply", "revert"])
def test_killed_before_the_named_one(wanting: Machine, then: str) -> None:
    """What moves with a package is installed before it: half of it is never taken for all."""
    wanting.stack(wanting.first(), pip_step("wants==1.0", may_move=["dep", "new"]))
    assert wanting.run("apply").code == 0
    with Site(str(wanting.site)) as site:
        ledger = read_ledger(site)
        assert ledger is not None
        first, step = ledger.steps
        effect = step.effect or {}
        packages = {name: {**entry, "after": None, "sha256": []} for name, entry in effect["packages"].items()}
        begun = replace(step, effect={**effect, "state": "begun", "packages": packages})
        Transaction(site).commit([], ledger, replace(ledger, steps=(first, begun), complete=False), "as if killed")
    (wanting.site / "new-5.dist-info/RECORD").unlink()
    (wanting.site / "new.py").unlink()
    if then == "apply":
        assert wanting.run("apply").code == 0
        assert versions(wanting) == ("1.0", "2.0", "5")
        assert wanting.run("verify").code == 0
    assert wanting.run("revert").code == 0
    assert versions(wanting) == (None, "1.0", None)


def test_carried_wheels_are_all_that_may_move(wanting: Machine) -> None:
    wanting.stack(pip_step("wants==1.0", may_move=["dep", "new"]), more=("--vendor",))
    result = wanting.run("apply")
    assert result.code == 8
    assert "ERROR: No matching distribution found for dep==2.0" in result.err
    assert "hint: the wheels that the stack carries are all that it may take: name what is missing" in result.err
    wanting.stack(pip_step("wants==1.0", "dep==2.0", "new==5"), version=2, more=("--vendor",))
    assert wanting.run("apply").code == 0
    assert versions(wanting) == ("1.0", "2.0", "5")


def test_the_names_are_checked(machine: Machine) -> None:
    machine.bench.stack([pip_step("kern==2.0", may_move=["dep==2"])])
    result = machine.bench.run("lock", "--image", "demo", "--from", str(machine.root))
    assert result.code == 2
    assert "steps[0].pip.may_move[0]: expected the name of a Python package" in result.err


def test_without_it_the_lock_is_as_it_was(machine: Machine) -> None:
    machine.stack(pip_step("kern==2.0"))
    assert "may_move" not in (machine.bench.project / "patches/demo/stack.lock.json").read_text()
