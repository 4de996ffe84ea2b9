"""Credentials for registries, found where the engine's client and skopeo find them: through the Docker SDK's reader."""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from patchkit.core.errors import ConfigError, RefusedByMachineError

if TYPE_CHECKING:
    from collections.abc import Mapping

_HUB = "docker.io"
_HUB_URL = "https://index.docker.io/v1/"
_HUB_HOSTS = ("docker.io", "index.docker.io", "registry-1.docker.io")


@dataclass(frozen=True, slots=True, kw_only=True)
class Login:
    """A user and password, or an identity token; `source` says where it was found. Nothing of it shows itself."""

    user: str = ""
    password: str = ""
    identity_token: str = ""
    source: str = ""

    def __repr__(self) -> str:
        return f"Login(from {self.source})"


def find_login(host: str, repository: str) -> Login | None:
    """Return the login for `host` ("registry.example:5000") and a repository there; None: go as nobody.

    Looked for in the file REGISTRY_AUTH_FILE, else DOCKER_CONFIG/config.json, else ~/.docker/config.json: its
    credHelpers and credsStore, then its auths, where a key with a path (HOST/NAMESPACE) holds only for what is below it.
    Raises ConfigError for a file or a helper that does not serve; no message holds a secret.
    """
    path = _config_file()
    document = _read(path) if path else {}
    if not document:
        return None
    key = _HUB if host in _HUB_HOSTS else host
    document["auths"] = _covering(document.get("auths") or {}, key, repository, path)
    helpers = document.get("credHelpers") or {}
    store = helpers.get(_HUB_URL if key == _HUB else key) or document.get("credsStore") or ""
    if not (document["auths"] or store):
        return None
    found = _resolved(document, key, path, str(store))
    names = {name.lower(): value for name, value in (found or {}).items() if isinstance(value, str)}
    login = Login(
        user=names.get("username", ""),
        password=names.get("password", "").rstrip("\0"),
        identity_token=names.get("identitytoken", ""),
        source=path,
    )
    return login if login.user or login.identity_token else None


def _config_file() -> str:
    """Return the path of the file to read, or "" where there is none."""
    named = os.environ.get("REGISTRY_AUTH_FILE", "")
    if named:
        if not os.path.isfile(named):
            raise ConfigError(
                f"REGISTRY_AUTH_FILE: {named}: expected a file with credentials, found nothing",
                hint="log in anew, or unset REGISTRY_AUTH_FILE",
            )
        return named
    folder = os.environ.get("DOCKER_CONFIG", "") or os.path.join(os.path.expanduser("~"), ".docker")
    path = os.path.join(folder, "config.json")
    return path if os.path.isfile(path) else ""


def _read(path: str) -> dict[str, Any]:
    document: object = None
    try:
        with open(path, "rb") as stream:
            document = json.loads(stream.read() or b"{}")
    except OSError as error:
        raise RefusedByMachineError(
            f"{path}: cannot be read: {error.strerror}", hint="correct its permissions: it holds your credentials"
        ) from None
    except (ValueError, RecursionError):
        pass  # what was read is a part of these errors: none may be another's context
    if not isinstance(document, dict):
        raise _bad(path, "expected a JSON object, found something else")
    for name in ("auths", "credHelpers"):
        if not isinstance(document.get(name) or {}, dict):
            raise _bad(path, f"{name}: expected an object, found something else")
    return document


def _covering(auths: Mapping[str, Any], host: str, repository: str, path: str) -> dict[str, Any]:
    """Return the entry of `auths` that holds for the repository, under the host's own name; empty where none does.

    The SDK would drop the path of a key, and take one namespace's credentials for another's.
    """
    best, length = None, -1
    for key, entry in auths.items():
        legacy = "://" in key
        parts = urlsplit(key if legacy else f"//{key}")
        named, below = parts.netloc.lower(), "" if legacy else parts.path.strip("/")
        same = named == host.lower() or (host == _HUB and named in _HUB_HOSTS)
        fits = same and (not below or repository == below or repository.startswith(f"{below}/"))
        if fits and len(below) > length and entry:
            best, length = entry, len(below)
    if best is None:
        return {}
    if not isinstance(best, dict):
        raise _bad(path, f"auths: {host}: expected an object, found something else")
    return {host: best}


def _resolved(document: dict[str, Any], key: str, path: str, store: str) -> Mapping[str, Any] | None:
    """Return what the SDK's reader finds; `store` is the helper that it will ask, or empty."""
    from docker import auth, errors

    known = {name: document[name] for name in ("auths", "credsStore", "credHelpers") if document.get(name)}
    helper = f"docker-credential-{store}"
    reason = "it is not installed" if store and shutil.which(helper) is None else ""
    if not reason:
        try:
            found: Mapping[str, Any] | None = auth.load_config(config_dict=known).resolve_authconfig(key)
            return found
        except (errors.DockerException, OSError, ValueError, TypeError, KeyError, AttributeError):
            reason = "it does not answer as it should"
    if store:  # what a helper printed may be a secret: it is not repeated
        raise ConfigError(
            f"{path}: the credential helper {helper} for {key}: {reason}",
            hint=f"install or repair {helper}, or log in without it",
        )
    raise _bad(path, f"auths: {key}: expected base64 of USER:PASSWORD in `auth`, found something else")


def _bad(path: str, problem: str) -> ConfigError:
    return ConfigError(f"{path}: {problem}", hint="correct the file, or log in anew (docker login)")
