"""A commit in a local clone as a source: objects are read without a work tree and without the network.

Git serves the objects (`cat-file --batch`, see `patchkit.sources.repository`); every one is checked against its id.
"""

from __future__ import annotations

import hashlib
import os

from patchkit.core.errors import ConfigError, UnreachableError
from patchkit.core.tree import LINK, FileState
from patchkit.sources.base import checked_parts, not_a_file
from patchkit.sources.repository import Repository

_TREE, _LINK, _SUBMODULE = 0o040000, 0o120000, 0o160000


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
        self._repository = Repository(directory, self.spec)
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
        self._repository.close()

    def _resolve(self, revision: str) -> tuple[str, bytes]:
        """Return the full SHA of the commit and its tree's id."""
        sha, complaint = self._repository.ask("rev-parse", "--verify", "--end-of-options", f"{revision}^{{commit}}")
        if complaint:
            raise ConfigError(
                f"{self.spec}: expected a commit, found no such revision in {self._directory} ({complaint})",
                hint=f"git -C {self._directory} fetch --all --tags, or correct the revision",
            )
        header = self._object(bytes.fromhex(sha), "commit", revision).split(b"\n", 1)[0]
        return sha, bytes.fromhex(header.removeprefix(b"tree ").decode())

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
        given = self._repository.object(sha.hex())
        if given is None:
            raise self._missing(sha, kind, path, self._repository.ask("cat-file", kind, sha.hex())[1])
        found, size, data = given
        header = f"{found} {size}\0".encode()
        if found != kind or hashlib.sha1(header + data).digest() != sha:  # noqa: S324 - git's own ids
            raise self._missing(sha, kind, path, f"{found} of other bytes")
        return bytes(data)

    def _missing(self, sha: bytes, kind: str, path: str, complaint: str) -> UnreachableError:
        expected = f"{self.spec}: {path}: expected {kind} {sha.hex()}"
        if self._repository.filter() is not None:
            return UnreachableError(
                f"{expected}, found a partial clone without it: patchkit does not fetch",
                hint=f"git -C {self._directory} cat-file -p {self.commit}:{path} > /dev/null  # fetches it",
            )
        return UnreachableError(
            f"{expected}, found a damaged or incomplete clone ({complaint})", hint=f"git -C {self._directory} fsck"
        )
