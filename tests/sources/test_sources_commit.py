"""A commit as a patch, from a forge on loopback."""

from __future__ import annotations

from typing import Any

import pytest

from patchkit.core.errors import ConfigError, UnreachableError
from patchkit.io.http import Http
from patchkit.sources.commit import commit_patch, commit_url

SHA = "ab" * 20
PATCH = f"From {SHA} Mon Sep 17 00:00:00 2001\nFrom: A <a@example.invalid>\nSubject: x\n\n---\n".encode()


@pytest.fixture
def forge(server: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("GITHUB_SERVER_URL", server.url("/"))
    return server


def test_patch_of_a_commit(forge: Any) -> None:
    forge.serve(f"/ROCm/aiter/commit/{SHA}.patch", PATCH)
    with Http() as http:
        assert commit_patch("ROCm/aiter", SHA, http) == PATCH


def test_default_server() -> None:
    assert commit_url("ROCm/aiter", SHA) == f"https://github.com/ROCm/aiter/commit/{SHA}.patch"


@pytest.mark.parametrize(
    ("body", "found"),
    [
        (PATCH.replace(b"ab", b"cd", 1), "one of commit cd"),
        (b"<!DOCTYPE html>", "b'<!DOCTYPE html>'"),
        (b"", "b''"),
        (b"\n" + PATCH, "b'"),
    ],
)
def test_anything_else_is_refused(forge: Any, body: bytes, found: str) -> None:
    forge.serve(f"/ROCm/aiter/commit/{SHA}.patch", body)
    with Http() as http, pytest.raises(UnreachableError, match=f"expected a patch of commit {SHA}, found {found}"):
        commit_patch("ROCm/aiter", SHA, http)


def test_commit_that_is_not_there(forge: Any) -> None:
    with Http() as http, pytest.raises(UnreachableError, match=f"expected commit {SHA} of ROCm/aiter, found 404"):
        commit_patch("ROCm/aiter", SHA, http)


@pytest.mark.parametrize(
    ("repo", "sha"),
    [("aiter", SHA), ("a/b/c", SHA), ("../x", SHA), ("a/..", SHA), ("a/b?c", SHA), ("a/b", "main"), ("a/b", SHA[:-1])],
)
def test_only_a_repository_and_a_full_sha(repo: str, sha: str) -> None:
    with pytest.raises(ConfigError, match="expected a"):
        commit_url(repo, sha)
