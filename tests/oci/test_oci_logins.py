"""Where logins for registries are found, and that nothing shows them."""

from __future__ import annotations

import base64
import json
import traceback
from typing import TYPE_CHECKING, Any

import pytest

from patchkit.core.errors import ConfigError, RefusedByMachineError
from patchkit.io.credentials import Login, find_login

if TYPE_CHECKING:
    from pathlib import Path

SECRET = "s3cr3t-p4ss"


def auth(user: str, password: str = SECRET) -> dict[str, str]:
    return {"auth": base64.b64encode(f"{user}:{password}".encode()).decode()}


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    path = tmp_path / "auth.json"
    monkeypatch.setenv("REGISTRY_AUTH_FILE", str(path))

    def written(document: object) -> Path:
        path.write_text(document if isinstance(document, str) else json.dumps(document))
        return path

    return written


def user(host: str, repository: str = "team/a") -> str | None:
    found = find_login(host, repository)
    return None if found is None else found.user


def test_nowhere() -> None:
    assert find_login("r.example", "a") is None


def test_the_order_of_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for place, name in (("home/.docker/config.json", "home"), ("cfg/config.json", "cfg"), ("auth.json", "env")):
        path = tmp_path / place
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps({"auths": {"r.example": auth(name)}}))
    assert user("r.example") == "home"
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path / "cfg"))
    assert user("r.example") == "cfg"
    monkeypatch.setenv("REGISTRY_AUTH_FILE", str(tmp_path / "auth.json"))
    assert user("r.example") == "env"
    monkeypatch.setenv("REGISTRY_AUTH_FILE", str(tmp_path / "nothing.json"))
    with pytest.raises(ConfigError, match=r"REGISTRY_AUTH_FILE: .*expected a file with credentials, found nothing"):
        user("r.example")


def test_a_key_with_a_path_holds_only_below_it(write: Any) -> None:
    write({"auths": {"r.example/team": auth("team"), "r.example/team/a": auth("exact"), "r.example": auth("all")}})
    assert user("r.example", "team/a") == "exact"
    assert user("r.example", "team/ab") == "team"
    assert user("r.example", "other") == "all"
    write({"auths": {"r.example/team": auth("team")}})
    assert user("r.example", "teams/a") is None
    assert user("r.example:5000", "team/a") is None


@pytest.mark.parametrize("key", ["docker.io", "index.docker.io", "https://index.docker.io/v1/", "registry-1.docker.io"])
def test_names_of_the_hub(write: Any, key: str) -> None:
    write({"auths": {key: auth("hub")}})
    assert user("docker.io") == "hub"
    assert user("r.example") is None


def test_old_keys_with_a_scheme(write: Any) -> None:
    write({"auths": {"https://r.example/v2/": auth("old")}})
    assert user("r.example") == "old"


def test_identity_tokens_and_empty_entries(write: Any) -> None:
    path = write({"auths": {"r.example": {"identitytoken": SECRET}, "s.example": {}}})
    assert find_login("r.example", "a") == Login(identity_token=SECRET, source=str(path))
    assert find_login("s.example", "a") is None


def test_passwords_with_colons(write: Any) -> None:
    write({"auths": {"r.example": auth("u", "a:b:ü")}})
    found = find_login("r.example", "a")
    assert found is not None
    assert (found.user, found.password) == ("u", "a:b:ü")


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ('{"auths": {"r.example": {"auth": "' + SECRET, "expected JSON|expected a JSON object"),
        ([], "expected a JSON object"),
        ({"auths": []}, None),
        ({"auths": ["x"]}, "auths: expected an object"),
        ({"auths": {"r.example": SECRET}}, "auths: r.example: expected an object"),
        ({"auths": {"r.example": {"auth": SECRET}}}, "auths: r.example: expected base64 of USER:PASSWORD"),
        ({"auths": {"r.example": {"auth": 7}}}, "auths: r.example: expected base64 of USER:PASSWORD"),
        ({"credsStore": "nowhere"}, "docker-credential-nowhere for r.example: it is not installed"),
    ],
)
def test_bad_files(write: Any, document: object, message: str | None) -> None:
    path = write(document)
    if message is None:
        assert find_login("r.example", "a") is None
        return
    with pytest.raises(ConfigError, match=message) as caught:
        find_login("r.example", "a")
    assert str(path) in str(caught.value)
    shown = "".join(traceback.format_exception(caught.value)) + repr(caught.value.__context__) + caught.value.hint
    assert SECRET not in shown


def test_helpers(write: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")

    def helper(name: str, script: str) -> None:
        path = tmp_path / f"docker-credential-{name}"
        path.write_text(f"#!/bin/sh\nread host\n{script}\n")
        path.chmod(0o755)

    helper("good", f"""echo "{{\\"Username\\": \\"for-$host\\", \\"Secret\\": \\"{SECRET}\\"}}" """)
    helper("token", f"""echo '{{"Username": "<token>", "Secret": "{SECRET}"}}' """)
    helper("none", "echo 'credentials not found in native keychain'; exit 1")
    helper("bad", f"echo '{SECRET}'; exit 3")
    helper("silly", f"echo '{SECRET}'")
    write({"credsStore": "good", "credHelpers": {"t.example": "token"}})
    assert user("r.example") == "for-r.example"
    assert user("docker.io") == "for-https://index.docker.io/v1/"
    found = find_login("t.example", "a")
    assert found is not None
    assert (found.identity_token, found.user) == (SECRET, "")
    write({"credsStore": "none", "auths": {"r.example": auth("file")}})
    assert user("r.example") == "file"
    assert user("s.example") is None
    for name in ("bad", "silly"):
        write({"credsStore": name})
        with pytest.raises(ConfigError, match=f"docker-credential-{name} for r.example: it does not answer") as caught:
            find_login("r.example", "a")
        assert SECRET not in "".join(traceback.format_exception(caught.value))


def test_a_file_that_may_not_be_read(write: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    write({})

    def refuse(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("builtins.open", refuse)
    with pytest.raises(RefusedByMachineError, match="cannot be read: Permission denied"):
        find_login("r.example", "a")


def test_nothing_shows_a_login() -> None:
    login = Login(user="u", password=SECRET, identity_token=SECRET, source="x")
    assert repr(login) == str(login) == f"{login}" == "Login(from x)"
