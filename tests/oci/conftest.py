"""Registries on loopback: Debian's real one, open, with passwords, with a token service and over TLS; and one that lies.

Where the program docker-registry is missing the tests are skipped with the reason, or fail, if PATCHKIT_REQUIRE names
registry. PATCHKIT_TEST_REGISTRY (`eval "$(scripts/services start)"`) is used where it is set, else one is started.
"""

from __future__ import annotations

import os
import re
import shutil
from typing import TYPE_CHECKING, NoReturn

import pytest

from patchkit.io.wire import Wire

from .fake import Fake
from .real import Real, TokenService

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

VARIABLES = (
    "REGISTRY_AUTH_FILE",
    "DOCKER_CONFIG",
    "REQUESTS_CA_BUNDLE",
    "CURL_CA_BUNDLE",
    "SSL_CERT_FILE",
)


def unavailable(reason: str) -> NoReturn:
    if "registry" in re.split(r"[\s,]+", os.environ.get("PATCHKIT_REQUIRE", "")):
        pytest.fail(f"{reason} (PATCHKIT_REQUIRE demands it)", pytrace=False)
    pytest.skip(reason)


@pytest.fixture(autouse=True)
def own_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))


@pytest.fixture
def wire() -> Iterator[Wire]:
    """Impatient HTTP."""
    with Wire(netrc=False, backoff=0.01, read_timeout=2.0, connect_timeout=2.0, max_wait=3.0) as made:
        yield made


@pytest.fixture
def fake() -> Iterator[Fake]:
    """A registry in this process, which does what a test tells it to do wrong."""
    made = Fake()
    yield made
    made.close()


@pytest.fixture(scope="session")
def program() -> Callable[[str], str]:
    """program(NAME): where it is, or the test is skipped."""

    def found(name: str) -> str:
        path = shutil.which(name, path=f"{os.environ['PATH']}:/usr/sbin:/sbin")
        if path is None:
            package = {"docker-registry": "docker-registry"}.get(name, name)
            unavailable(f"no {name} on this machine: scripts/services need {name} {package}")
        return path

    return found


@pytest.fixture(scope="session")
def open_registry(program: Callable[[str], str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a registry that lets everybody in."""
    given = os.environ.get("PATCHKIT_TEST_REGISTRY")
    if given:
        yield given
        return
    with Real(program("docker-registry"), tmp_path_factory.mktemp("open")) as made:
        yield made.host


@pytest.fixture(scope="session")
def password_registry(program: Callable[[str], str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a registry for `tester` alone, over Basic."""
    with Real(program("docker-registry"), tmp_path_factory.mktemp("htpasswd"), auth="htpasswd") as made:
        yield made.host


@pytest.fixture
def tokens() -> Iterator[TokenService]:
    """A token service, which a test may change."""
    made = TokenService()
    yield made
    made.close()


@pytest.fixture
def token_registry(program: Callable[[str], str], tokens: TokenService, tmp_path: Path) -> Iterator[str]:
    """The address of a registry that takes the tokens of `tokens`."""
    with Real(program("docker-registry"), tmp_path / "token", auth="token", service=tokens) as made:
        yield made.host


@pytest.fixture(scope="session")
def tls_registry(program: Callable[[str], str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Real]:
    """A registry over TLS; `authority` is the file with its certificate."""
    with Real(program("docker-registry"), tmp_path_factory.mktemp("tls"), tls=True) as made:
        yield made
