"""Tokens: where they are found, which host they are for, and that they show themselves nowhere."""

from __future__ import annotations

import copy
import pickle
from typing import TYPE_CHECKING

import pytest

from patchkit.core.errors import ConfigError
from patchkit.upstream.tokens import Token, find_token, in_keyring, known_hosts

if TYPE_CHECKING:
    from pathlib import Path

SECRET = "gho_s3cr3tThatMustNotShow"


def secret_of(token: Token | None) -> str | None:
    return None if token is None else token.authorization().removeprefix("Bearer ")


def write_hosts(directory: Path, text: str) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "hosts.yml").write_text(text)


def test_the_environment_as_gh_reads_it(monkeypatch: pytest.MonkeyPatch) -> None:
    assert find_token("github.com") is None
    monkeypatch.setenv("GITHUB_TOKEN", "one")
    assert secret_of(find_token("github.com")) == "one"
    monkeypatch.setenv("GH_TOKEN", " two\n")
    found = find_token("GitHub.com")
    assert found is not None
    assert (secret_of(found), found.source) == ("two", "GH_TOKEN")
    assert secret_of(find_token("octo.ghe.com")) == "two"


def test_a_token_goes_to_no_host_that_the_machine_does_not_know(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("GH_TOKEN", "GITHUB_TOKEN", "GH_ENTERPRISE_TOKEN", "GITHUB_ENTERPRISE_TOKEN"):
        monkeypatch.setenv(name, SECRET)
    for host in ("evil.example", "github.com.evil.example", "notgithub.com", "xghe.com"):
        assert find_token(host) is None


def test_enterprise(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GH_HOST", "Git.Corp.Example")
    monkeypatch.setenv("GH_TOKEN", "public")
    assert find_token("git.corp.example") is None
    monkeypatch.setenv("GITHUB_ENTERPRISE_TOKEN", "three")
    assert secret_of(find_token("git.corp.example")) == "three"
    monkeypatch.setenv("GH_ENTERPRISE_TOKEN", "four")
    assert secret_of(find_token("git.corp.example")) == "four"
    assert secret_of(find_token("github.com")) == "public"


def test_an_actions_job_of_an_enterprise_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GITHUB_SERVER_URL", "https://git.corp.example")
    monkeypatch.setenv("GITHUB_TOKEN", "theirs")
    assert secret_of(find_token("git.corp.example")) == "theirs"
    assert find_token("github.com") is None
    monkeypatch.setenv("GITHUB_SERVER_URL", "http://127.0.0.1:8080")
    assert secret_of(find_token("github.com")) == "theirs"


LAYOUTS = {
    "old": f"github.com:\n    user: monalisa\n    oauth_token: {SECRET}\n    git_protocol: ssh\n",
    "both": f"github.com:\n    users:\n        monalisa:\n            oauth_token: {SECRET}\n        other:\n"
    f"            oauth_token: wrong\n    git_protocol: https\n    oauth_token: {SECRET}\n    user: monalisa\n",
    "accounts": f"github.com:\n    users:\n        other:\n            oauth_token: wrong\n        monalisa:\n"
    f"            oauth_token: {SECRET}\n    user: monalisa\n",
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("place", ["GH_CONFIG_DIR", "XDG_CONFIG_HOME", "HOME"])
def test_the_configuration_of_gh(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, layout: str, place: str) -> None:
    monkeypatch.setenv(place, str(tmp_path / "x"))
    more = {"GH_CONFIG_DIR": "", "XDG_CONFIG_HOME": "gh", "HOME": ".config/gh"}[place]
    write_hosts(tmp_path / "x" / more, LAYOUTS[layout] + "git.corp.example:\n    oauth_token: corp\n")
    found = find_token("github.com")
    assert secret_of(found) == SECRET
    assert found is not None
    assert found.source.endswith("hosts.yml")
    assert secret_of(find_token("git.corp.example")) == "corp"
    assert known_hosts() == {"github.com", "git.corp.example"}
    monkeypatch.setenv("GH_TOKEN", "first")
    assert secret_of(find_token("github.com")) == "first"


def test_a_token_in_the_keyring_is_said_to_be_there(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("GH_CONFIG_DIR", str(tmp_path))
    write_hosts(tmp_path, "github.com:\n    users:\n        monalisa:\n    git_protocol: https\n    user: monalisa\n")
    assert find_token("github.com") is None
    assert in_keyring("github.com")
    assert not in_keyring("git.corp.example")


@pytest.mark.parametrize(
    "text", [f"github.com: {{oauth_token: {SECRET}", f"\t{SECRET}", f"a: {SECRET}\x00", f"{SECRET}: [{SECRET}"]
)
def test_a_file_that_is_none_is_told_without_its_content(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, text: str
) -> None:
    monkeypatch.setenv("GH_CONFIG_DIR", str(tmp_path))
    write_hosts(tmp_path, text)
    with pytest.raises(ConfigError, match=r"hosts\.yml: gh's configuration cannot be read") as caught:
        find_token("github.com")
    assert SECRET not in repr(caught.value) + caught.value.hint
    assert caught.value.__suppress_context__


@pytest.mark.parametrize("text", ["", "[]", "github.com: 3", "github.com:\n  oauth_token: [1]", "x: y"])
def test_a_file_without_a_token(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, text: str) -> None:
    monkeypatch.setenv("GH_CONFIG_DIR", str(tmp_path))
    write_hosts(tmp_path, text)
    assert find_token("github.com") is None


@pytest.mark.parametrize("secret", ["two words", "a\nHost: evil", "ünicode", "nul\0"])
def test_a_token_of_impossible_characters_is_refused_without_being_shown(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, secret: str
) -> None:
    with pytest.raises(ConfigError, match="GH_TOKEN: expected a token of printable ASCII") as caught:
        Token(secret, "GH_TOKEN")
    assert secret not in str(caught.value) + caught.value.hint


def test_a_token_shows_itself_nowhere() -> None:
    token = Token(SECRET, "GH_TOKEN")
    assert SECRET not in f"{token} {token!r} {token!s} {[token]}"
    assert not hasattr(token, "__dict__")
    for write in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError, match="neither copied nor written"):
            write(token)
    assert token.hidden_in(f"x{SECRET}y") == "x***y"
    assert SECRET not in token.digest
