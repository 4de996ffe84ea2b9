"""The documents say what the code does: exit codes, command reference, JSON schemas, shipped images."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from patchkit.cli import reference
from patchkit.core.errors import ERROR_CLASSES, INTERRUPTED_EXIT_CODE

from .conftest import Workbench, patchkit_process

ROOT = Path(__file__).parents[2]


def test_the_table_of_exit_codes() -> None:
    rows = re.findall(r"^\| (\d+) \| (?:`(\w+)`)? ?\| (.+) \|$", (ROOT / "README.md").read_text(), re.MULTILINE)
    documented = {(int(code), name): meaning for code, name, meaning in rows}
    expected = {(e.exit_code, e.code): e.meaning for e in ERROR_CLASSES}
    assert documented == {**expected, (0, ""): "done, or nothing to do", (INTERRUPTED_EXIT_CODE, ""): "interrupted"}


def test_the_reference_is_fresh() -> None:
    assert reference.render() == reference.PATH.read_text()


@pytest.mark.parametrize("image", ["nightly-7c5dc571", "nightly-c50aca", "nightly-cb8104839c", "v0.27.1"])
def test_shipped_locks_are_fresh(image: str) -> None:
    done = patchkit_process("lock", "--check", "--image", image, "-C", str(ROOT))
    assert (done.returncode, done.stderr) == (0, b"")


def test_image_list_and_show(capsys: pytest.CaptureFixture[str]) -> None:
    bench = Workbench(ROOT, ROOT, capsys)
    listed = bench.run("image", "list")
    assert listed.code == 0
    assert listed.out.count("digest not set (patchkit image pin ") == 4
    found = {row["name"]: row for row in bench.run("image", "list", "--json").json["images"]}
    assert {name: row["lock"] for name, row in found.items()} == dict.fromkeys(found, "fresh")
    assert all(row["digest"] is None for row in found.values())
    shown = bench.run("image", "show", "nightly-c5")
    assert shown.code == 0
    assert (
        "  component   vllm: vllm-project/vllm at c50aca14416ef29f6ed0ed256302f30646726dcd, release 0.33.0 (stand-in)"
        in (shown.out)
    )
    assert "moriio_connector.py  +" in shown.out
    document = bench.run("image", "show", "nightly-c50aca", "--json").json
    assert document["details"]["identity"] == {"file": "vllm/_version.py", "commit": "c50aca144"}
