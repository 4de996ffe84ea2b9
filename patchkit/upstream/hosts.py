"""Which forge a host is, and where its interfaces are."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from patchkit.core.errors import ConfigError
from patchkit.upstream.facts import DEFAULT_HOST
from patchkit.upstream.github import GitHub
from patchkit.upstream.tokens import TENANTS, find_token, in_keyring, known_hosts, server_host

if TYPE_CHECKING:
    from patchkit.io.http import Http
    from patchkit.upstream.forge import Forge, Memory

_OTHERS = {"gitlab": "GitLab", "bitbucket": "Bitbucket", "codeberg": "Forgejo", "gitea": "Gitea", "forgejo": "Forgejo"}


def for_host(host: str, *, memory: Memory | None = None, http: Http | None = None) -> Forge:
    """Return the forge at `host`; `memory` keeps ETags, `http` is the session to use (else one of its own).

    Raises `ConfigError` for a host that nothing says is GitHub, and as `find_token` does.
    """
    host = host.lower()
    rest, graphql = addresses(host)
    token = find_token(host)
    variable = "GH_TOKEN" if host == DEFAULT_HOST or host.endswith(TENANTS) else "GH_ENTERPRISE_TOKEN"
    hint = f"gh auth login --hostname {host}, or set {variable}: a token has a limit of its own"
    if token is None and in_keyring(host):
        hint = f"gh keeps the token in the keyring: export {variable}=$(gh auth token --hostname {host})"
    return GitHub(host=host, rest=rest, graphql=graphql, token=token, token_hint=hint, memory=memory, http=http)


class Forges:
    """The forges of one run, each made when it is first asked for: `forges(host)`, as `observe` wants it."""

    def __init__(self, memory: Memory | None = None, http: Http | None = None) -> None:
        self._memory = memory
        self._http = http
        self._made: dict[str, Forge] = {}

    def __call__(self, host: str) -> Forge:
        """Return the forge at `host`; raises as `for_host` does."""
        host = host.lower()
        if host not in self._made:
            self._made[host] = for_host(host, memory=self._memory, http=self._http)
        return self._made[host]

    def __enter__(self) -> Forges:
        return self

    def __exit__(self, *_: object) -> None:
        for forge in self._made.values():
            forge.close()


def addresses(host: str) -> tuple[str, str]:
    """Return the addresses of a GitHub host's REST and GraphQL interfaces, without a slash at the end.

    github.com: api.github.com; SUBDOMAIN.ghe.com: api.SUBDOMAIN.ghe.com; an Enterprise server: HOST/api/v3 and
    HOST/api/graphql. For the server that the GITHUB_* variables are about, GITHUB_API_URL and
    GITHUB_GRAPHQL_URL have the first word: Actions sets them.
    """
    if host == DEFAULT_HOST:
        rest = "https://api.github.com"
    elif host.endswith(TENANTS):
        rest = f"https://api.{host}"
    elif host in known_hosts():
        rest = f"https://{host}/api/v3"
    else:
        raise _unknown(host)
    graphql = ""
    if host == server_host():
        rest = os.environ.get("GITHUB_API_URL", "").rstrip("/") or rest
        graphql = os.environ.get("GITHUB_GRAPHQL_URL", "").rstrip("/")
    if not graphql:
        graphql = f"{rest.removesuffix('/v3')}/graphql" if rest.endswith("/api/v3") else f"{rest}/graphql"
    return rest, graphql


def _unknown(host: str) -> ConfigError:
    kind = next((name for label, name in _OTHERS.items() if label in host), None)
    if kind is not None:
        return ConfigError(
            f"{host}: expected GitHub or GitHub Enterprise, found {kind}, which patchkit cannot ask yet",
            hint="leave `upstream` of the step empty and say in `reason` where the change comes from",
        )
    return ConfigError(
        f"{host}: nothing says which forge this is: patchkit asks GitHub and GitHub Enterprise",
        hint=f"if it is GitHub Enterprise: gh auth login --hostname {host}, or GH_HOST={host}",
    )
