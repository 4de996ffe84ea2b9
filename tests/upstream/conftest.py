"""A GitHub on loopback, and an environment without any token but the test's own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from .forge_material import schema_text
from .forge_server import TOKEN, Server

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

VARIABLES = (
    "GH_TOKEN",
    "GITHUB_TOKEN",
    "GH_ENTERPRISE_TOKEN",
    "GITHUB_ENTERPRISE_TOKEN",
    "GH_HOST",
    "GH_CONFIG_DIR",
    "XDG_CONFIG_HOME",
    "GITHUB_SERVER_URL",
    "GITHUB_API_URL",
    "GITHUB_GRAPHQL_URL",
    "PATCHKIT_CACHE",
)


@pytest.fixture(scope="session")
def schema() -> Any:
    from graphql import build_schema

    return build_schema(schema_text(), assume_valid=True, no_location=True)


@pytest.fixture(autouse=True)
def own_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))


@pytest.fixture
def forge(schema: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    """The server, and the environment that leads to it, with a token that it takes."""
    server = Server(schema)
    monkeypatch.setenv("GITHUB_API_URL", server.url)
    monkeypatch.setenv("GH_TOKEN", TOKEN)
    yield server
    server.close()
