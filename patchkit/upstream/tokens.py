"""The token for a host, found where `gh` finds it: the environment, else gh's configuration file.

The rules are gh's (`gh help environment`; go-gh, pkg/auth and pkg/config), with two exceptions that
keep a token from hosts that it is not for: a stack may name any host, so the tokens for Enterprise
hosts go only to hosts that the machine knows (`known_hosts`), and GITHUB_TOKEN belongs to the server
that GITHUB_SERVER_URL names, as in an Actions job of an Enterprise server.
"""

from __future__ import annotations

import hashlib
import ipaddress
import os
import re
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn
from urllib.parse import urlsplit

from patchkit.core.errors import ConfigError
from patchkit.upstream.facts import DEFAULT_HOST

if TYPE_CHECKING:
    from patchkit.model.yamlfile import Plain

TENANTS = ".ghe.com"  # GitHub Enterprise Cloud with data residency: SUBDOMAIN.ghe.com
_PRINTABLE = re.compile(r"[\x21-\x7e]+")


class Token:
    """A secret that shows itself to nobody: neither repr, str, format, copy nor pickle gives it away.

    `source` says where it was found ("GH_TOKEN", or a file's name); `digest` is the hex sha256 of the secret.
    """

    __slots__ = ("__secret", "digest", "source")

    def __init__(self, secret: str, source: str) -> None:
        secret = secret.strip()
        if not _PRINTABLE.fullmatch(secret):
            raise ConfigError(
                f"{source}: expected a token of printable ASCII characters, found something else",
                hint="write the token anew, on one line",
            )
        self.__secret = secret
        self.source = source
        self.digest = hashlib.sha256(secret.encode()).hexdigest()

    def __repr__(self) -> str:
        return f"Token(from {self.source})"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a token is neither copied nor written")

    def authorization(self) -> str:
        """Return the value of the Authorization header that this token makes."""
        return f"Bearer {self.__secret}"

    def hidden_in(self, text: str) -> str:
        """Return `text` with `***` wherever it holds the token."""
        return text.replace(self.__secret, "***")


def find_token(host: str) -> Token | None:
    """Return the token for `host` ("github.com", "git.example.com"), or None where there is none.

    github.com and *.ghe.com: GH_TOKEN, GITHUB_TOKEN; Enterprise servers that `known_hosts` names:
    GH_ENTERPRISE_TOKEN, GITHUB_ENTERPRISE_TOKEN, and GITHUB_TOKEN in that server's own Actions jobs;
    then gh's hosts.yml. Raises `ConfigError` for a token with impossible characters and a file that
    cannot be read; no message holds a token.
    """
    host = host.lower()
    own = host == server_host()
    if host == DEFAULT_HOST or host.endswith(TENANTS):
        names = ["GH_TOKEN", *(["GITHUB_TOKEN"] if own or host.endswith(TENANTS) else [])]
    elif own or host in known_hosts():
        names = ["GH_ENTERPRISE_TOKEN", "GITHUB_ENTERPRISE_TOKEN", *(["GITHUB_TOKEN"] if own else [])]
    else:
        return None
    for name in names:
        value = os.environ.get(name, "").strip()
        if value:
            return Token(value, name)
    entry = _gh_hosts().get(host)
    secret = _secret_of(entry)
    return Token(secret, str(hosts_file())) if secret else None


def server_host() -> str:
    """Return the host whose GitHub the GITHUB_* variables are about: GITHUB_SERVER_URL's, else github.com.

    A server on loopback is a stand-in for github.com, as for commits (`patchkit.sources.commit`).
    """
    with suppress(ValueError):
        parts = urlsplit(os.environ.get("GITHUB_SERVER_URL", ""))
        name = (parts.hostname or "").lower()
        if name and name != "localhost" and not _is_loopback(name):
            return f"{name}:{parts.port}" if parts.port else name
    return DEFAULT_HOST


def known_hosts() -> frozenset[str]:
    """Return the hosts that this machine says are GitHub: GH_HOST, GITHUB_SERVER_URL, gh's hosts.yml, github.com."""
    named = os.environ.get("GH_HOST", "").strip().lower()
    return frozenset({DEFAULT_HOST, server_host(), *([named] if named else []), *_gh_hosts()})


def in_keyring(host: str) -> bool:
    """Return whether gh is logged in to `host` but keeps the token elsewhere: in the system's keyring."""
    entry = _gh_hosts().get(host.lower())
    return isinstance(entry, dict) and not _secret_of(entry)


def hosts_file() -> Path:
    """Return the path of gh's hosts.yml: GH_CONFIG_DIR, XDG_CONFIG_HOME/gh, else ~/.config/gh."""
    directory = os.environ.get("GH_CONFIG_DIR", "")
    if not directory:
        base = os.environ.get("XDG_CONFIG_HOME", "") or os.path.join(os.path.expanduser("~"), ".config")
        directory = os.path.join(base, "gh")
    return Path(directory) / "hosts.yml"


def _is_loopback(name: str) -> bool:
    with suppress(ValueError):
        return ipaddress.ip_address(name).is_loopback
    return False


def _gh_hosts() -> dict[str, Plain]:
    """Return gh's hosts, lower-case, each with what the file says of it; empty where there is no file."""
    path = hosts_file()
    if not path.exists():
        return {}
    from patchkit.model.yamlfile import read

    try:
        data = read(path, str(path)).data
    except ConfigError:  # its message may quote the file, which holds tokens
        raise ConfigError(
            f"{path}: gh's configuration cannot be read: expected readable YAML",
            hint="correct it (gh auth status), or give the token in GH_TOKEN",
        ) from None
    return {name.lower(): entry for name, entry in data.items()} if isinstance(data, dict) else {}


def _secret_of(entry: Plain) -> str:
    """Return the token in a host's entry: its own (both layouts of gh have it), else its active user's; or ""."""
    if not isinstance(entry, dict):
        return ""
    users, user = entry.get("users"), entry.get("user")
    active = users.get(str(user)) if isinstance(users, dict) else None
    for place in (entry, active):
        secret = place.get("oauth_token") if isinstance(place, dict) else None
        if isinstance(secret, str) and secret.strip():
            return secret.strip()
    return ""
