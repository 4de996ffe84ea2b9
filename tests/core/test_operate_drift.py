"""Drift in every form: verify names it, apply refuses, revert refuses without force; nothing is lost."""

from __future__ import annotations

import json
import os
import socket
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from patchkit.core import inspect
from patchkit.core.canonical import digest_of
from patchkit.core.errors import BusyError, DriftError, IdentityError, PatchkitError
from patchkit.core.holding import locked
from patchkit.core.verdicts import Outcome
from tests.core.stacks import (
    Content,
    Stack,
    apply,
    build,
    diff,
    listing,
    numbered,
    opened,
    revert,
    snapshot,
    verdicts,
    verify,
    write_tree,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

A, GONE, NEW = "pkg/a.txt", "pkg/gone.txt", "fresh/new.txt"
PRISTINE: dict[str, Content] = {A: numbered(), GONE: numbered(), "pkg/stay.txt": "stay\n"}


def stack(version: int = 1, **options: object) -> Stack:
    steps = {
        "mod": diff({A: numbered()}, {A: numbered(20, _5=f"v{version}")}),
        "del": diff({GONE: numbered()}, {}),
        "add": diff({}, {NEW: "new\n"}),
    }
    return build(PRISTINE, steps, version=version, **options)  # type: ignore[arg-type]


@dataclass(frozen=True)
class Drift:
    step: str
    path: str
    what: str
    make: Callable[[Path], object]
    forced: bool = True  # whether revert --force gives the pristine tree


def instead(path: str, make: Callable[[Path], object]) -> Callable[[Path], object]:
    def replace(site: Path) -> object:
        (site / path).unlink()
        return make(site / path)

    return replace


def sock(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as server:
        here = os.getcwd()
        os.chdir(path.parent)  # such names are short
        try:
            server.bind(path.name)
        finally:
            os.chdir(here)


DRIFTS = {
    "content": Drift("mod", A, "its content was changed: expected sha256", lambda s: (s / A).write_text("mine\n")),
    "mode": Drift("mod", A, "its mode was changed: expected 644, found 755", lambda s: (s / A).chmod(0o755)),
    "deleted": Drift("mod", A, "it is gone", lambda s: (s / A).unlink()),
    "link": Drift("mod", A, "expected a file, found a link", instead(A, lambda p: p.symlink_to("stay.txt"))),
    "directory": Drift("mod", A, "it is a directory, no regular file", instead(A, lambda p: p.mkdir()), forced=False),
    "fifo": Drift("mod", A, "it is a device or pipe, no regular file", instead(A, os.mkfifo), forced=False),
    "socket": Drift("mod", A, "it is a socket or device, no regular file", instead(A, sock), forced=False),
    "undeleted": Drift(
        "del", GONE, "it was deleted by the stack and is there again", lambda s: (s / GONE).write_text("x")
    ),
    "added gone": Drift("add", NEW, "it is gone", lambda s: (s / NEW).unlink()),
    "added gone with its directory": Drift(
        "add", NEW, "it is gone", lambda s: ((s / NEW).unlink(), (s / "fresh").rmdir())
    ),
    "added changed": Drift("add", NEW, "its content was changed", lambda s: (s / NEW).write_text("mine")),
    "directory is a link": Drift(
        "add",
        NEW,
        "fresh, on the way to it, is a symbolic link; patchkit does not follow it",
        lambda s: ((s / "fresh").rename(s / "moved"), (s / "fresh").symlink_to("moved")),
        forced=False,
    ),
}


@pytest.mark.parametrize("drift", DRIFTS.values(), ids=DRIFTS)
def test_drift(drift: Drift, tmp_path: Path) -> None:
    site = write_tree(tmp_path / "site", PRISTINE)
    pristine = snapshot(site)
    apply(stack(), site)
    drift.make(site)
    before, tree = listing(tmp_path), snapshot(site)
    line = f"{drift.path} (step {drift.step}): {drift.what}"
    for report, outcome in (
        (verify(stack(), site), Outcome.DRIFTED),
        (apply(stack(), site), Outcome.REFUSED),
        (apply(stack(2), site), Outcome.REFUSED),
        (apply(stack(2), site, dry_run=True), Outcome.REFUSED),
        (revert(site), Outcome.REFUSED),
    ):
        assert report.exit_code == 4
        assert report.outcome is outcome
        assert report.error is not None
        assert len(report.error.problems) == 1
        assert report.error.problems[0].startswith(line)
        assert verdicts(report)[drift.step] == "drifted"
        assert set(verdicts(report).values()) == {"drifted", "applied"}
    with opened(site) as target:
        status = inspect.status(stack().request(), target)
        assert (status.exit_code, verdicts(status)[drift.step]) == (0, "drifted")
    assert (listing(tmp_path), snapshot(site)) == (before, tree)
    if drift.forced:
        assert revert(site, force=True).outcome is Outcome.REVERTED
        assert snapshot(site) == pristine
    else:
        with pytest.raises(DriftError, match=drift.what) as caught:
            revert(site, force=True)
        assert caught.value.hint == "patchkit gives up files, nothing else: move it away by hand, then run it again"
        assert (listing(tmp_path), snapshot(site)) == (before, tree)


def test_diff_shows_the_drift(tmp_path: Path) -> None:
    site = write_tree(tmp_path / "site", PRISTINE)
    apply(stack(), site)
    (site / A).write_text(numbered(20, _5="v1", _6="mine"))
    with opened(site) as target:
        report, text = inspect.diff(stack().request(only=("mod",)), target)
    assert b"+mine\n" in text
    assert "--only is left aside" in report.notes[-1]
    (site / A).unlink()
    (site / A).mkdir()
    with opened(site) as target, pytest.raises(DriftError, match=r"a\.txt: it is a directory"):
        inspect.diff(stack().request(), target)


def reseal(ledger: Path, change: Callable[[dict[str, object]], object]) -> None:
    """Change the ledger as somebody would who knows how it is sealed."""
    document = json.loads(ledger.read_text())
    document.pop("digest")
    change(document)
    ledger.write_text(json.dumps({"digest": digest_of(document), **document}))


def pristine_file(site: Path) -> Path:
    return next(p for p in (site / ".patchkit/pristine").iterdir() if p.stat().st_size > 20)


LEDGER_DAMAGE: dict[str, Callable[[Path], object]] = {
    "edited": lambda s: (s / ".patchkit/ledger.json").write_text(
        (s / ".patchkit/ledger.json").read_text().replace('"stand_in": false', '"stand_in": true')
    ),
    "cut": lambda s: os.truncate(s / ".patchkit/ledger.json", 100),
    "empty": lambda s: os.truncate(s / ".patchkit/ledger.json", 0),
    "not json": lambda s: (s / ".patchkit/ledger.json").write_bytes(b"\xff\xfe\x00"),
    "a list": lambda s: (s / ".patchkit/ledger.json").write_text("[]"),
    "deep": lambda s: (s / ".patchkit/ledger.json").write_text('{"a":' + "[" * 100000 + "]" * 100000 + "}"),
    "gone": lambda s: (s / ".patchkit/ledger.json").unlink(),
    "a link": lambda s: (
        (s / ".patchkit/ledger.json").rename(s / "away.json"),
        (s / ".patchkit/ledger.json").symlink_to("../away.json"),
    ),
    "a directory": lambda s: ((s / ".patchkit/ledger.json").unlink(), (s / ".patchkit/ledger.json").mkdir()),
    "its directory is a link": lambda s: ((s / ".patchkit").rename(s / "away"), (s / ".patchkit").symlink_to("away")),
    "unknown format": lambda s: reseal(s / ".patchkit/ledger.json", lambda d: d.update(format=2)),
    "no steps": lambda s: reseal(s / ".patchkit/ledger.json", lambda d: d.pop("steps")),
    "escape": lambda s: reseal(s / ".patchkit/ledger.json", lambda d: d["files"].update({"../x": d["files"][A]})),  # type: ignore[index,attr-defined]
    "blob escape": lambda s: reseal(
        s / ".patchkit/ledger.json",
        lambda d: d["files"][A]["before"].update(sha256="../../../etc/passwd"),  # type: ignore[index]
    ),
    "ledger file in .patchkit": lambda s: reseal(
        s / ".patchkit/ledger.json",
        lambda d: d["dirs_created"].append(".patchkit/pristine"),  # type: ignore[attr-defined]
    ),
}


@pytest.mark.parametrize("damage", LEDGER_DAMAGE.values(), ids=LEDGER_DAMAGE)
def test_a_damaged_ledger_stops_everything(damage: Callable[[Path], object], tmp_path: Path) -> None:
    site = write_tree(tmp_path / "site", PRISTINE)
    apply(stack(), site)
    damage(site)
    before = listing(tmp_path)
    for act in (
        lambda: apply(stack(), site),
        lambda: apply(stack(2), site),
        lambda: apply(stack(2), site, dry_run=True),
        lambda: verify(stack(), site),
        lambda: revert(site),
        lambda: revert(site, force=True),
    ):
        with pytest.raises(DriftError) as caught:
            act()
        assert str(site) in str(caught.value)
        assert caught.value.hint
    assert listing(tmp_path) == before


@pytest.mark.parametrize("how", ["changed", "gone", "a link"])
def test_damaged_pristine_bytes(how: str, tmp_path: Path) -> None:
    site = write_tree(tmp_path / "site", PRISTINE)
    apply(stack(), site)
    kept = pristine_file(site)
    if how == "changed":
        kept.write_bytes(b"evil")
    else:
        kept.rename(tmp_path / "away")
        if how == "a link":
            kept.symlink_to(tmp_path / "away")
    before = listing(tmp_path)
    for act in (
        lambda: apply(stack(2), site),
        lambda: verify(stack(), site),
        lambda: revert(site),
        lambda: revert(site, force=True),
    ):
        with pytest.raises(DriftError, match=f"pristine/{kept.name}"):
            act()
    assert listing(tmp_path) == before


def test_the_ledger_directory_is_a_link_on_a_fresh_tree(tmp_path: Path) -> None:
    site = write_tree(tmp_path / "site", PRISTINE)
    (tmp_path / "elsewhere").mkdir()
    (site / ".patchkit").symlink_to(tmp_path / "elsewhere")
    before = listing(tmp_path)
    with pytest.raises(DriftError, match="is a symbolic link"):
        apply(stack(), site)
    assert listing(tmp_path) == before


def test_a_stray_ledger_directory_is_no_obstacle(tmp_path: Path) -> None:
    site = write_tree(tmp_path / "site", PRISTINE)
    (site / ".patchkit/pristine").mkdir(parents=True)
    assert apply(stack(), site).outcome is Outcome.APPLIED
    revert(site)
    assert not (site / ".patchkit").exists()


def test_two_runs_at_once(tmp_path: Path) -> None:
    site = write_tree(tmp_path / "site", PRISTINE)
    with opened(site) as other, locked(other.site):
        before = listing(tmp_path)
        for act in (lambda: apply(stack(), site), lambda: revert(site), lambda: verify(stack(), site)):
            with pytest.raises(BusyError, match="another run of patchkit is at work on this target") as caught:
                act()
            assert caught.value.exit_code == 7
        assert listing(tmp_path) == before
    with opened(site) as other, locked(other.site, shared=True):
        assert verify(stack(), site).exit_code == 4
        with pytest.raises(BusyError):
            apply(stack(), site)
    assert apply(stack(), site).exit_code == 0


def test_identity(tmp_path: Path) -> None:
    version = "__commit_id__ = commit_id = 'g{}'\n"
    with_identity = stack(identity="pkg/_version.py")
    other = write_tree(tmp_path / "other", {**PRISTINE, "pkg/_version.py": version.format("aaaaaaaaa")})
    before = listing(other)
    for act in (lambda: apply(with_identity, other), lambda: verify(with_identity, other)):
        with pytest.raises(IdentityError) as caught:
            act()
        assert "pkg/_version.py records commit aaaaaaaaa, image test-image is commit 4ba787ec9d" in str(caught.value)
    assert listing(other) == before
    report = apply(with_identity, other, stand_in=True)
    assert report.stand_in is True
    assert report.notes[0] == "stand-in: these are files of another release than image test-image"
    for later in (apply(with_identity, other), verify(with_identity, other)):
        assert (later.exit_code, later.stand_in) == (0, True)
        assert later.notes[0] == "stand-in: these are files of another release than image test-image"
    assert revert(other).stand_in is True
    same = write_tree(tmp_path / "same", {**PRISTINE, "pkg/_version.py": version.format("4ba787ec9")})
    assert apply(with_identity, same, stand_in=True).stand_in is False
    bare = write_tree(tmp_path / "bare", PRISTINE)
    with pytest.raises(IdentityError, match="records no commit, image test-image is commit 4ba787ec9d"):
        apply(with_identity, bare)
    assert apply(with_identity, bare, managed=True).stand_in is False


def test_a_target_that_cannot_be_read_is_the_machines_refusal(tmp_path: Path) -> None:
    site = write_tree(tmp_path / "site", PRISTINE)
    apply(stack(), site)
    with pytest.raises(PatchkitError) as caught, opened(tmp_path / "nowhere"):
        pass
    assert caught.value.exit_code == 8
    assert "nowhere" in str(caught.value)
