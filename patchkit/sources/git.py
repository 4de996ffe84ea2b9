"""A commit in a local clone as a source: objects are read without a work tree and without the network.

Git serves the objects (`cat-file --batch`, through GitPython) with an environment of its own: no
replacement object, no lazy fetch, no repository of the caller's. Every object is checked against its id.
"""

from __future__ import annotations

import hashlib
import os
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from patchkit.core.errors import ConfigError, RefusedByMachineError, UnreachableError
from patchkit.core.tree import LINK, FileState
from patchkit.sources.base import checked_parts, not_a_file

if TYPE_CHECKING:
    from collections.abc import Iterator

_TREE, _LINK, _SUBMODULE = 0o040000, 0o120000, 0o160000
_ENVIRONMENT = {
    "GIT_ALLOW_PROTOCOL": "none",  # with a git that is older than GIT_NO_LAZY_FETCH, this prevents the fetch
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_OPTIONAL_LOCKS": "0",
}


class GitSource:
    """The files of the commit that `revision` names in the clone (or bare repository) at `directory`.

    Paths are relative to the top of the tree, or to `src/` where only that holds a path's first
    part. `commit` is the full SHA. Raises `ConfigError` for a directory that is no clone and a
    revision that it does not know.
    """

    artifact_sha256: str | None = None

    def __init__(self, directory: str, revision: str) -> None:
        self.spec = f"git:{directory}@{revision}"
        self._directory = directory
        self._revision = revision
        self._repository = _open(directory)
        self._trees: dict[bytes, dict[str, tuple[int, bytes]]] = {}
        self.commit = revision
        try:
            self.commit, self._root = self._resolve(revision)
        except BaseException:
            self.close()
            raise

    def describe(self) -> str:
        """Return the clone, the revision and the full SHA of the commit."""
        return f"{self.spec} (commit {self.commit})"

    def read(self, path: str) -> FileState | None:
        """Return the file or link at `path`; see `Source`. Nothing is fetched: see the class."""
        parts = checked_parts(path)
        top = self._tree(self._root, path)
        if parts[0] not in top and "src" in top and top["src"][0] == _TREE:
            source = self._tree(top["src"][1], path)
            top = source if parts[0] in source else top
        for index, part in enumerate(parts[:-1]):
            mode, sha = top.get(part, (0, b""))
            at = "/".join(parts[: index + 1])
            if mode in (_LINK, _SUBMODULE):
                found = f"a symbolic link at {at}" if mode == _LINK else f"a submodule at {at}"
                raise not_a_file(self.spec, path, found)
            if mode != _TREE:
                return None
            top = self._tree(sha, path)
        mode, sha = top.get(parts[-1], (0, b""))
        if mode == 0:
            return None
        if mode in (_TREE, _SUBMODULE):
            raise not_a_file(self.spec, path, "a directory" if mode == _TREE else "a submodule")
        data = self._object(sha, "blob", path)
        if mode == _LINK:
            return FileState(kind=LINK, mode=0o777, data=data)
        return FileState(mode=0o755 if mode & 0o111 else 0o644, data=data)

    def close(self) -> None:
        """End git's processes."""
        with _no_git_environment():
            self._repository.close()

    def _resolve(self, revision: str) -> tuple[str, bytes]:
        """Return the full SHA of the commit and its tree's id."""
        with _no_git_environment():
            sha, complaint = self._ask("rev-parse", "--verify", "--end-of-options", f"{revision}^{{commit}}")
        if complaint:
            raise ConfigError(
                f"{self.spec}: expected a commit, found no such revision in {self._directory} ({complaint})",
                hint=f"git -C {self._directory} fetch --all --tags, or correct the revision",
            )
        header = self._object(bytes.fromhex(sha), "commit", revision).split(b"\n", 1)[0]
        return sha, bytes.fromhex(header.removeprefix(b"tree ").decode())

    def _ask(self, command: str, *arguments: str) -> tuple[str, str]:
        """Run git; return its output, and its complaint where it fails."""
        from git.exc import GitCommandError, GitCommandNotFound

        try:
            return str(self._repository.git.execute(["git", command, *arguments])), ""
        except GitCommandNotFound as error:
            raise RefusedByMachineError(
                f"{self.spec}: expected the program git, found none", hint="apt-get install git"
            ) from error
        except GitCommandError as error:
            complaint = str(error.stderr).partition("stderr: '")[2].rstrip("'").strip() or f"exit {error.status}"
        if "dubious ownership" in complaint:
            raise RefusedByMachineError(
                f"{self.spec}: git refuses a repository that another user owns",
                hint=f"git config --global --add safe.directory {os.path.abspath(self._directory)}",
            )
        return "", complaint.splitlines()[0]

    def _tree(self, sha: bytes, path: str) -> dict[str, tuple[int, bytes]]:
        """Return a tree's entries: name to mode and id."""
        known = self._trees.get(sha)
        if known is not None:
            return known
        data, at, entries = self._object(sha, "tree", path), 0, {}
        while at < len(data):
            space = data.index(b" ", at)
            end = data.index(b"\0", space)
            entries[os.fsdecode(data[space + 1 : end])] = (int(data[at:space], 8), data[end + 1 : end + 21])
            at = end + 21
        self._trees[sha] = entries
        return entries

    def _object(self, sha: bytes, kind: str, path: str) -> bytes:
        """Return an object's bytes, checked against its id."""
        with _no_git_environment():
            try:
                _, found, size, data = self._repository.git.get_object_data(sha.hex())
            except (ValueError, OSError):  # the process says "missing", or is gone
                self._repository.git.clear_cache()
                _, complaint = self._ask("cat-file", kind, sha.hex())
                raise self._missing(sha, kind, path, complaint) from None
        found = found.decode() if isinstance(found, bytes) else found
        header = f"{found} {size}\0".encode()
        if found != kind or hashlib.sha1(header + data).digest() != sha:  # noqa: S324 - git's own ids
            raise self._missing(sha, kind, path, f"{found} of other bytes")
        return bytes(data)

    def _missing(self, sha: bytes, kind: str, path: str, complaint: str) -> UnreachableError:
        expected = f"{self.spec}: {path}: expected {kind} {sha.hex()}"
        if self._is_partial():
            return UnreachableError(
                f"{expected}, found a partial clone without it: patchkit does not fetch",
                hint=f"git -C {self._directory} cat-file -p {self.commit}:{path} > /dev/null  # fetches it",
            )
        return UnreachableError(
            f"{expected}, found a damaged or incomplete clone ({complaint})", hint=f"git -C {self._directory} fsck"
        )

    def _is_partial(self) -> bool:
        with _no_git_environment(), self._repository.config_reader("repository") as config:
            for section in config.sections():
                for option in ("partialclone", "promisor", "partialclonefilter"):
                    if config.has_option(section, option):
                        return True
        return False


@contextmanager
def _no_git_environment() -> Iterator[None]:
    """Take GIT_DIR and its kin out of the environment: the caller's repository is not the source's."""
    saved = {name: os.environ.pop(name) for name in list(os.environ) if name.startswith("GIT_")}
    os.environ["GIT_PYTHON_REFRESH"] = "quiet"
    try:
        yield
    finally:
        del os.environ["GIT_PYTHON_REFRESH"]
        os.environ.update(saved)


def _open(directory: str) -> Any:
    """Return the repository at `directory` itself (a work tree's top, a bare repository, a .git directory)."""
    with _no_git_environment():
        import git

        try:
            repository = git.Repo(directory, search_parent_directories=False)
            with repository.config_reader("repository") as config:
                kind = config.get_value("extensions", "objectformat", "sha1")
        except (git.exc.InvalidGitRepositoryError, git.exc.NoSuchPathError) as error:
            raise ConfigError(
                f"git:{directory}: expected a clone or a bare repository, found {type(error).__name__}",
                hint="name the directory that holds .git, or a bare repository",
            ) from error
        if kind != "sha1":
            raise ConfigError(f"git:{directory}: expected object format sha1, found {kind}, which is not supported")
        repository.git.update_environment(**_ENVIRONMENT)
        return repository
