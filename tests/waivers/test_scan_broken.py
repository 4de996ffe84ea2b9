"""Snippets cut off anywhere, and with pieces missing: whatever is left, the scan ends and tells something or nothing."""

from __future__ import annotations

import random
from pathlib import Path, PurePath

import pytest

from patchkit.waivers.scan_file import analyse, language

CASES = Path(__file__).parent.parent / "cases" / "scan"
FILES = sorted(
    path
    for path in (CASES / "own").rglob("*")
    if path.is_file() and language(PurePath(path.name), path.read_bytes()[:128]) is not None  # the rest is scenery
)


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.name if p.parent.name == "own" else p.parent.name)
def test_any_part_of_a_snippet_can_be_read(path) -> None:
    data = path.read_bytes()
    kind = language(PurePath(path.name), data[:128])
    assert kind is not None
    for at in range(0, len(data), 41):
        analyse(data[:at], kind, path.name)
        analyse(data[at:], kind, path.name)
    chance = random.Random(path.name)
    for _ in range(40):
        broken = bytearray(data)
        for _ in range(4):
            at = chance.randrange(len(broken))
            broken[at : at + chance.randrange(3)] = chance.choice(
                [b"", b"(", b'"', b"'", b"<<E\n", b"${", b"`", b"\n", b"}", b")"]
            )
        analyse(bytes(broken), kind, path.name)
