"""A commit of a forge as a patch, by its immutable address."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

from patchkit.core.errors import ConfigError, UnreachableError

if TYPE_CHECKING:
    from patchkit.io.http import Http

_REPO = re.compile(r"[A-Za-z0-9_.-]+/[A-Za-z0-9_.-]+")
_SHA = re.compile(r"[0-9a-f]{40}")
_FROM = re.compile(rb"^From ([0-9a-f]{40}) ", re.MULTILINE)


def commit_url(repo: str, sha: str) -> str:
    """Return the address of commit `sha` of `repo` ("ROCm/aiter") as a patch, at GITHUB_SERVER_URL.

    Raises `ConfigError` for a repository that is not OWNER/NAME and a SHA that is not 40 hexadecimal digits.
    """
    if not _REPO.fullmatch(repo) or set(repo.split("/")) & {".", ".."}:
        raise ConfigError(f"{repo!r}: expected a repository as OWNER/NAME")
    if not _SHA.fullmatch(sha):
        raise ConfigError(f"{repo}@{sha}: expected a full commit SHA (40 lower-case hexadecimal digits)")
    server = os.environ.get("GITHUB_SERVER_URL") or "https://github.com"
    return f"{server.rstrip('/')}/{repo}/commit/{sha}.patch"


def commit_patch(repo: str, sha: str, http: Http) -> bytes:
    """Return commit `sha` (40 hexadecimal digits) of `repo` ("ROCm/aiter") as the mail patch that the forge serves.

    Raises `ConfigError` as `commit_url` does, and `UnreachableError` where the forge does not
    answer, does not hold the commit, or answers with anything but a patch of that very commit.
    """
    answer = http.get(commit_url(repo, sha), {"Accept": "text/plain"})
    if answer.status != 200:
        raise UnreachableError(
            f"{answer.url}: expected commit {sha} of {repo}, found {answer.status}: the forge does not hold it",
            hint="check repository and SHA; for a private one, put credentials into ~/.netrc",
        )
    match = _FROM.match(answer.body)
    if match is None or match[1].decode() != sha:
        found = f"one of commit {match[1].decode()}" if match else f"{answer.body[:40]!r}"
        raise UnreachableError(
            f"{answer.url}: expected a patch of commit {sha}, found {found}",
            hint="check GITHUB_SERVER_URL: something else answers there",
        )
    return answer.body
