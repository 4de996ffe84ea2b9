"""Which source a text names."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from patchkit.core.errors import ConfigError
from patchkit.sources import open as opening

if TYPE_CHECKING:
    from pathlib import Path

    from patchkit.sources.cache import Cache

SITE = ("usr/local/lib/python3.12/dist-packages",)


def open_it(spec: str, cache: Cache) -> Any:
    return opening.open_source(spec, site=SITE, platform=None, cache=cache)


def test_directory(cache: Cache, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    os.mkdir("there")
    for spec in (str(tmp_path), ".", "./there", "there"):
        assert type(open_it(spec, cache)).__name__ == "DirectorySource"
        assert open_it(spec, cache).spec == spec


def test_release(cache: Cache) -> None:
    source = open_it("vllm==0.33.0", cache)
    assert type(source).__name__ == "IndexSource"
    assert (source.spec, source.artifact_sha256) == ("vllm==0.33.0", None)
    assert source.describe() == "vllm==0.33.0 (nothing read yet)"


def test_git(cache: Cache, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="expected a clone or a bare repository"):
        open_it(f"git:{tmp_path}@HEAD", cache)


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ("git:../vllm@main", ("../vllm", "main")),
        ("git:/srv/a@b/vllm@v1", ("/srv/a@b/vllm", "v1")),
        ("git:x@main@{1}", ("x", "main@{1}")),
        ("git:C:/x@0123", ("C:/x", "0123")),
    ],
)
def test_revision_is_what_follows_the_last_at(spec: str, expected: tuple[str, str]) -> None:
    assert opening._split_revision(spec) == expected


@pytest.mark.parametrize("spec", ["git:dir", "git:@x", "git:dir@", "git:"])
def test_git_without_revision(spec: str, cache: Cache) -> None:
    with pytest.raises(ConfigError, match="expected git:DIR@REV"):
        open_it(spec, cache)


@pytest.mark.parametrize("spec", ["", "vllm", "vllm>=0.33", "vllm=0.33.0", "==1", "pr:12"])
def test_unknown_forms_list_the_known_ones(spec: str, cache: Cache) -> None:
    with pytest.raises(ConfigError) as caught:
        open_it(spec, cache)
    assert str(caught.value) == (
        f"source {spec!r}: expected one of\n"
        "  a release on the package index: NAME==VERSION (vllm==0.33.0)\n"
        "  a commit in a local clone: git:DIR@REV (git:../vllm@c50aca144)\n"
        "  a directory: the target's root, or the site itself (./root)"
    )


@pytest.mark.parametrize("spec", ["vllm==not-a-version", "vllm==*", "vllm==1.0; x"])
def test_release_without_a_version(spec: str, cache: Cache) -> None:
    with pytest.raises(ConfigError, match="expected a release as NAME==VERSION"):
        open_it(spec, cache)


@pytest.mark.parametrize(
    ("site", "python"),
    [
        (("usr/local/lib/python3.12/dist-packages",), (3, 12)),
        (("usr/lib/python3/dist-packages", "opt/python3.9/x"), (3, 9)),
        (("a/python3.9/x", "a/python3.10/x"), None),
        (("usr/lib/python3.*/site-packages",), None),
    ],
)
def test_python_of_the_site(site: tuple[str, ...], python: tuple[int, int] | None) -> None:
    assert opening.python_of(site) == python


def test_no_network_library_is_imported_before_the_first_read() -> None:
    code = (
        "import sys; from patchkit.sources.open import open_source; from patchkit.sources.cache import Cache;"
        "open_source('vllm==0.33.0', site=(), platform=None, cache=Cache('/nonexistent'));"
        "print(sorted({'requests', 'urllib3', 'git', 'pip'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
