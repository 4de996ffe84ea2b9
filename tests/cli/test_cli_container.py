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


@pytest.mark.parametrize(
    ("address", "code", "said"),
    [
        ("ssh://me@host", 2, "error: DOCKER_HOST=ssh://me@host: patchkit does not speak ssh to an engine"),
        ("garbage", 2, "error: DOCKER_HOST=garbage: expected unix:///PATH or tcp://HOST:PORT"),
        ("unix://", 2, "error: DOCKER_HOST=unix://: expected"),
        ("tcp://127.0.0.1", 2, "error: DOCKER_HOST=tcp://127.0.0.1: expected"),
        ("tcp://127.0.0.1:many", 2, "error: DOCKER_HOST=tcp://127.0.0.1:many: expected"),
        ("ftp://127.0.0.1:1", 2, "error: DOCKER_HOST=ftp://127.0.0.1:1: expected"),
        ("unix:///no/such.sock", 6, "error: no container engine at unix:///no/such.sock: No such file or directory"),
        ("tcp://127.0.0.1:9", 6, "error: no container engine at tcp://127.0.0.1:9: "),
        ("127.0.0.1:9", 6, "error: no container engine at 127.0.0.1:9: "),
        ("tcp://:9", 6, "error: no container engine at tcp://:9: "),
        ("https://127.0.0.1:9", 6, "error: no container engine at https://127.0.0.1:9: "),
    ],
)
def test_where_the_engine_is(
    address: str, code: int, said: str, five: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An address that cannot be one is a mistake of the person's, one where nobody answers is not."""
    monkeypatch.setenv("DOCKER_HOST", address)
    for words in (("apply", "--container", "one"), ("status", "--container")):
        refused = five.run(words[0], "--image", "demo", *words[1:])
        assert (refused.code, refused.out) == (code, "")
        assert refused.err.startswith(said), refused.err
        assert "\nhint: " in refused.err
        assert "Adapter" not in refused.err
