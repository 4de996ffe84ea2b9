"""Which image a root is, by the commit that a file of the engine records."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from patchkit.core.errors import RefusedByMachineError
from patchkit.core.identity import commit_in, contradiction, read_commit, same_commit
from patchkit.core.site import Site
from tests.core.stacks import Memory, build, state, write_tree
from tests.core.users import as_user, open_to_user

if TYPE_CHECKING:
    from pathlib import Path

FULL = "4ba787ec9d0123456789abcdef0123456789abcd"
IMAGE = build({}, {}, identity="v.py").lock.image
NO_IDENTITY = build({}, {}).lock.image


@pytest.mark.parametrize(
    ("text", "commit"),
    [
        ("__commit_id__ = commit_id = 'g4ba787ec9'\n", "4ba787ec9"),
        ('__commit_id__: str | None\ncommit_id: str | None\n\n__commit_id__ = commit_id = "4ba787ec9"\n', "4ba787ec9"),
        ("__commit_id__ = commit_id = None\n", ""),
        ("__version__ = '0.33.0'\n", ""),
        (f"commit_id = '{FULL}'\n", FULL),
        (f"{FULL}\n", FULL),
        ("g4ba787e", "4ba787e"),
        ("4ba787", ""),
        ("", ""),
        (f"{FULL}00", ""),
    ],
)
def test_the_commit_in_a_file(text: str, commit: str) -> None:
    assert commit_in(text.encode()) == commit


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("4ba787ec9", FULL, True),
        (FULL, "4ba787ec9", True),
        (FULL, FULL, True),
        ("4ba787ec8", FULL, False),
        ("", FULL, False),
        (FULL, "", False),
        ("", "", False),
    ],
)
def test_abbreviated_commits(one: str, other: str, same: bool) -> None:
    assert same_commit(one, other) is same


def test_contradictions_name_both_values() -> None:
    def of(text: str) -> str | None:
        return contradiction(IMAGE, Memory({"v.py": state(text)}))

    assert of("commit_id = 'g4ba787ec9'") is None
    assert of(f"commit_id = '{FULL}'") is None
    assert of("commit_id = 'gaaaaaaaaa'") == "v.py records commit aaaaaaaaa, image test-image is commit 4ba787ec9d"
    assert of("commit_id = None") == "v.py records no commit, image test-image is commit 4ba787ec9d"
    assert contradiction(IMAGE, Memory({})) == "v.py records no commit, image test-image is commit 4ba787ec9d"
    assert contradiction(NO_IDENTITY, Memory({})) is None


def test_odd_identity_files(tmp_path: Path) -> None:
    site = write_tree(tmp_path / "site", {"real.py": "commit_id = 'g4ba787ec9'"})
    (site / "link.py").symlink_to("real.py")
    (site / "dir.py").mkdir()
    os.mkfifo(site / "fifo.py")
    with Site(str(site)) as opened:
        assert read_commit(opened, "real.py") == "4ba787ec9"
        for name in ("link.py", "dir.py", "fifo.py", "no.py", "real.py/x", "link.py/x"):
            assert read_commit(opened, name) == ""


def test_an_identity_file_that_cannot_be_read(tmp_path: Path) -> None:
    site = write_tree(tmp_path / "site", {"v.py": "commit_id = 'g4ba787ec9'"})
    open_to_user(site)
    (site / "v.py").chmod(0)

    def read() -> str:
        with Site(str(site)) as opened:
            return read_commit(opened, "v.py")

    assert as_user(read) == (RefusedByMachineError, f"cannot read {site}/v.py: Permission denied")
