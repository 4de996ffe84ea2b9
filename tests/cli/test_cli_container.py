"""`--container` before any engine is asked, and without one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from .conftest import Workbench


COMMANDS = ("apply", "verify", "revert", "diff", "status")


@pytest.mark.parametrize("words", [("--container", ""), ("--container=",), ("--container", "  ")], ids=repr)
@pytest.mark.parametrize("command", COMMANDS)
def test_an_empty_value_is_no_container(
    command: str, words: tuple[str, ...], five: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`--container "$CID"` with an empty variable: nobody meant the list, or anything else."""
    monkeypatch.setenv("DOCKER_HOST", "unix:///no/such/socket")
    before = five.snapshot()
    refused = five.run(command, "--image", "demo", *words, "--json")
    assert (refused.code, refused.json["outcome"]) == (2, "refused")
    assert refused.json["errors"][0]["message"] == (
        "--container: expected the id or name of a container, found an empty value; nothing was done"
    )
    assert five.snapshot() == before
