"""Real repositories: clones, bare and partial ones, read without work tree and without the network."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from patchkit.core.errors import ConfigError, ConflictError, RefusedByMachineError, UnreachableError
from patchkit.core.tree import LINK, FileState
from patchkit.sources.git import GitSource

if TYPE_CHECKING:
    from pathlib import Path


def git(directory: Path, *arguments: str) -> str:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    environment |= {"GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null"}
    identity = ["-c", "user.name=T", "-c", "user.email=t@example.invalid", "-c", "protocol.file.allow=always"]
    command = ["git", *identity, "-C", str(directory), *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True, env=environment).stdout.strip()


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    top = tmp_path / "clone"
    (top / "vllm").mkdir(parents=True)
    git(top, "init", "-q", "-b", "main")
    (top / "vllm/a.py").write_bytes(b"one\r\n")
    (top / "vllm/run.sh").write_bytes(b"#!/bin/sh\n")
    (top / "vllm/run.sh").chmod(0o755)
    (top / "vllm/link.py").symlink_to("a.py")
    (top / "alias").symlink_to("vllm")
    git(top, "add", "-A")
    git(top, "commit", "-q", "-m", "one")
    git(top, "tag", "-a", "v1", "-m", "v1")
    (top / "vllm/a.py").write_bytes(b"two\n")
    git(top, "commit", "-q", "-a", "-m", "two")
    (top / "vllm/a.py").write_bytes(b"dirty\n")
    return top


def test_files_of_a_commit(clone: Path) -> None:
    source = GitSource(str(clone), "v1")
    sha = git(clone, "rev-parse", "v1^{commit}")
    assert source.commit == sha
    assert source.spec == f"git:{clone}@v1"
    assert source.describe() == f"git:{clone}@v1 (commit {sha})"
    assert source.artifact_sha256 is None
    assert source.read("vllm/a.py") == FileState(data=b"one\r\n")
    assert source.read("vllm/run.sh") == FileState(mode=0o755, data=b"#!/bin/sh\n")
    assert source.read("vllm/link.py") == FileState(kind=LINK, mode=0o777, data=b"a.py")
    for path in ("vllm/b.py", "other/a.py", "vllm/a.py/x"):
        assert source.read(path) is None
    source.close()


@pytest.mark.parametrize("revision", ["HEAD", "main", "v1", "HEAD~1", "main@{0}"])
def test_revisions_are_those_of_git(clone: Path, revision: str) -> None:
    assert GitSource(str(clone), revision).commit == git(clone, "rev-parse", f"{revision}^{{commit}}")


def test_abbreviated_and_full_sha(clone: Path) -> None:
    sha = git(clone, "rev-parse", "HEAD~1")
    for revision in (sha, sha[:9]):
        assert GitSource(str(clone), revision).commit == sha


@pytest.mark.parametrize("packed", [False, True])
def test_bare_clone(clone: Path, tmp_path: Path, packed: bool) -> None:
    git(tmp_path, "clone", "-q", "--bare", str(clone), "bare.git")
    if packed:
        git(tmp_path / "bare.git", "repack", "-adq")
    source = GitSource(str(tmp_path / "bare.git"), "main")
    assert source.read("vllm/a.py") == FileState(data=b"two\n")


def test_linked_work_tree_and_alternates(clone: Path, tmp_path: Path) -> None:
    git(clone, "worktree", "add", "-q", str(tmp_path / "linked"), "v1")
    git(tmp_path, "clone", "-q", "--shared", str(clone), "shared")
    assert GitSource(str(tmp_path / "linked"), "HEAD").read("vllm/a.py") == FileState(data=b"one\r\n")
    assert GitSource(str(tmp_path / "shared"), "HEAD").read("vllm/a.py") == FileState(data=b"two\n")


def test_source_layout(clone: Path) -> None:
    git(clone, "checkout", "-q", "-f", "main")
    (clone / "src").mkdir()
    git(clone, "mv", "vllm", "src/vllm")
    git(clone, "commit", "-q", "-m", "moved")
    source = GitSource(str(clone), "HEAD")
    assert source.read("vllm/a.py") == FileState(data=b"two\n")
    assert source.read("setup.py") is None


def test_what_is_no_file(clone: Path, tmp_path: Path) -> None:
    git(clone, "submodule", "-q", "add", "--force", str(clone), "sub")
    git(clone, "commit", "-q", "-m", "sub")
    source = GitSource(str(clone), "HEAD")
    cases = [("vllm", "a directory"), ("sub", "a submodule"), ("sub/vllm/a.py", "a submodule at sub")]
    for path, found in [*cases, ("alias/a.py", "a symbolic link at alias")]:
        with pytest.raises(ConflictError, match=f"{path}: expected a file, found {found}"):
            source.read(path)
    for path in ("../a", "/a", "vllm//a.py"):
        with pytest.raises(ConfigError, match="expected a path relative to the site"):
            source.read(path)


def test_replacement_objects_do_not_count(clone: Path) -> None:
    git(clone, "replace", "HEAD", "HEAD~1")
    source = GitSource(str(clone), "HEAD")
    assert source.read("vllm/a.py") == FileState(data=b"two\n")


def test_environment_of_another_repository(clone: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = tmp_path / "other"
    other.mkdir()
    git(other, "init", "-q")
    settings = {
        "GIT_DIR": str(other / ".git"),
        "GIT_WORK_TREE": str(other),
        "GIT_COMMON_DIR": str(other / ".git"),
        "GIT_OBJECT_DIRECTORY": str(other / ".git/objects"),
        "GIT_INDEX_FILE": "/nowhere",
    }
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    source = GitSource(str(clone), "HEAD")
    assert source.read("vllm/a.py") == FileState(data=b"two\n")
    source.close()
    assert {name: os.environ[name] for name in settings} == settings
    assert "GIT_PYTHON_REFRESH" not in os.environ


def test_partial_clone_is_read_but_not_filled(clone: Path, tmp_path: Path) -> None:
    git(clone, "config", "uploadpack.allowFilter", "true")
    git(tmp_path, "clone", "-q", "--no-checkout", "--filter=blob:none", f"file://{clone}", "partial")
    partial = tmp_path / "partial"
    before = sorted(str(path) for path in partial.rglob("*"))
    source = GitSource(str(partial), "HEAD")
    assert source.read("vllm/none.py") is None
    with pytest.raises(UnreachableError, match="found a partial clone without it: patchkit does not fetch") as caught:
        source.read("vllm/a.py")
    assert sorted(str(path) for path in partial.rglob("*")) == before
    git(partial, "cat-file", "-p", f"{source.commit}:vllm/a.py")
    assert f"cat-file -p {source.commit}:vllm/a.py" in caught.value.hint
    assert GitSource(str(partial), "HEAD").read("vllm/a.py") == FileState(data=b"two\n")


def test_damaged_and_missing_objects(clone: Path) -> None:
    blob = git(clone, "rev-parse", "HEAD:vllm/a.py")
    other = git(clone, "rev-parse", "HEAD:vllm/run.sh")
    path = clone / ".git/objects" / blob[:2] / blob[2:]
    path.chmod(0o644)
    swapped = (clone / ".git/objects" / other[:2] / other[2:]).read_bytes()
    for damage in (swapped, b"rubbish", b"", None):
        if damage is None:
            path.unlink()
        else:
            path.write_bytes(damage)
        source = GitSource(str(clone), "HEAD")
        with pytest.raises(UnreachableError, match=f"expected blob {blob}, found a damaged or incomplete") as caught:
            source.read("vllm/a.py")
        assert caught.value.hint == f"git -C {clone} fsck"
        assert source.read("vllm/run.sh") == FileState(mode=0o755, data=b"#!/bin/sh\n")
        source.close()


def test_no_git_installed(clone: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(RefusedByMachineError, match="expected the program git, found none"):
        GitSource(str(clone), "HEAD")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a repository away")
def test_repository_of_another_user(clone: Path) -> None:
    for path in (clone, clone / ".git"):
        os.chown(path, 12345, 12345)
    with pytest.raises(RefusedByMachineError, match="another user owns") as caught:
        GitSource(str(clone), "HEAD")
    assert "safe.directory" in caught.value.hint


@pytest.mark.parametrize("revision", ["nonsense", "0" * 40, "HEAD~99", "HEAD:vllm/a.py", "", "--help"])
def test_unknown_revision(clone: Path, revision: str) -> None:
    with pytest.raises(ConfigError, match="expected a commit, found no such revision"):
        GitSource(str(clone), revision)


def test_no_repository(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    for name in ("empty", "nothing"):
        with pytest.raises(ConfigError, match="expected a clone or a bare repository"):
            GitSource(str(tmp_path / name), "HEAD")


def test_sha256_repository(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q", "--object-format=sha256")
    with pytest.raises(ConfigError, match="expected object format sha1, found sha256"):
        GitSource(str(tmp_path), "HEAD")


def test_importing_the_module_does_not_import_gitpython() -> None:
    code = "import sys, patchkit.sources.git, patchkit.sources.open; print('git' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
