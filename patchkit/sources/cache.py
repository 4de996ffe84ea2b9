"""The cache: bytes by their sha256, and small facts about what was read where.

On the hot path of `apply`: nothing but the standard library and `patchkit.core`, little of it.
Whatever is read is verified; whatever does not verify is dropped and treated as absent.
"""

from __future__ import annotations

import hashlib
import os
import stat

from patchkit.core.errors import ConfigError, RefusedByMachineError

TYPE_CHECKING = False  # importing typing costs more than all the rest of this module
if TYPE_CHECKING:
    from typing import Any, NoReturn

_VERSION = 1
_HINT = "name another directory: PATCHKIT_CACHE=DIR"
_HEX = frozenset("0123456789abcdef")


def default_root() -> str:
    """Return the cache's directory: PATCHKIT_CACHE, else XDG_CACHE_HOME/patchkit, else ~/.cache/patchkit."""
    given = os.environ.get("PATCHKIT_CACHE")
    if given:
        return os.path.abspath(given)
    base = os.environ.get("XDG_CACHE_HOME", "")
    if not os.path.isabs(base):
        base = os.path.join(os.path.expanduser("~"), ".cache")
    return os.path.join(base, "patchkit")


class Cache:
    """A directory of blobs by content and of facts by key; safe for concurrent writers.

    `root` defaults to `default_root()`. Nothing is made before something is written. Raises
    `RefusedByMachineError` for a directory that others can write to or that another user owns.
    """

    def __init__(self, root: str | None = None) -> None:
        self.root = os.path.abspath(root) if root is not None else default_root()
        self._checked = False

    def blob(self, sha256: str) -> bytes | None:
        """Return the bytes whose hex sha256 is `sha256`, or None where the cache does not hold them."""
        path = self._blob_path(sha256)
        data = self._load(path)
        if data is not None and hashlib.sha256(data).hexdigest() != sha256:
            _drop(path)
            return None
        return data

    def add(self, data: bytes) -> str:
        """Put `data` into the cache and return its hex sha256."""
        sha256 = hashlib.sha256(data).hexdigest()
        if self.blob(sha256) is None:
            self._store(self._blob_path(sha256), data)
        return sha256

    def blob_file(self, sha256: str) -> str | None:
        """Return the path of a whole artifact that the cache holds, verified now, or None."""
        path = self._blob_path(sha256)
        self._check()
        digest = hashlib.sha256()
        try:
            with open(path, "rb") as handle:
                while chunk := handle.read(1 << 20):
                    digest.update(chunk)
        except FileNotFoundError:
            return None
        except OSError as error:
            _refuse(path, error)
        if digest.hexdigest() != sha256:
            _drop(path)
            return None
        return path

    def blob_destination(self, sha256: str) -> str:
        """Return where a writer that replaces atomically may put the bytes of `sha256`; the directory exists."""
        path = self._blob_path(sha256)
        self._make_directory(os.path.dirname(path))
        return path

    def partial(self, key: str) -> str:
        """Return where the bytes of a transfer that ended early may be kept under `key`; the directory exists."""
        path = f"{self.root}/partial/{hashlib.sha256(key.encode('utf-8', 'surrogateescape')).hexdigest()}"
        self._make_directory(os.path.dirname(path))
        return path

    def fact(self, key: str) -> dict[str, Any] | None:
        """Return what was remembered under `key`, or None; a corrupt entry is dropped and absent."""
        import json

        path = self._fact_path(key)
        text = self._load(path)
        if text is None:
            return None
        try:
            entry = json.loads(text)
            value = entry["value"]
            if entry["version"] == _VERSION and entry["key"] == key and isinstance(value, dict):
                return value
        except (ValueError, KeyError, TypeError, RecursionError):
            pass
        _drop(path)
        return None

    def remember(self, key: str, value: dict[str, Any]) -> None:
        """Remember `value` (JSON) under `key`, in place of what was there."""
        import json

        entry = {"version": _VERSION, "key": key, "value": value}
        self._store(self._fact_path(key), json.dumps(entry, sort_keys=True).encode())

    def directory(self) -> str:
        """Return the cache's directory, made if need be, for a file of another kind; errors as for the class."""
        self._make_directory(self.root)
        return self.root

    def _blob_path(self, sha256: str) -> str:
        if len(sha256) != 64 or not _HEX.issuperset(sha256):
            raise ConfigError(f"{sha256!r}: expected a sha256 (64 lower-case hexadecimal digits)")
        return f"{self.root}/blobs/{sha256[:2]}/{sha256[2:]}"

    def _fact_path(self, key: str) -> str:
        name = hashlib.sha256(key.encode("utf-8", "surrogateescape")).hexdigest()
        return f"{self.root}/facts/{name[:2]}/{name[2:]}.json"

    def _check(self) -> None:
        """Refuse a directory in which somebody else could put or change files."""
        if self._checked:
            return
        try:
            status = os.stat(self.root)
        except FileNotFoundError:
            return
        except OSError as error:
            _refuse(self.root, error)
        if not stat.S_ISDIR(status.st_mode):
            raise RefusedByMachineError(f"{self.root}: the cache must be a directory, found another file", hint=_HINT)
        if status.st_uid not in (os.geteuid(), 0):
            found = f"expected to be owned by user {os.geteuid()} or root, found user {status.st_uid}"
            raise RefusedByMachineError(f"{self.root}: the cache is not trusted: {found}", hint=_HINT)
        if status.st_mode & stat.S_IWOTH and not status.st_mode & stat.S_ISVTX:
            found = f"found mode {stat.S_IMODE(status.st_mode):04o}: everybody can write there"
            raise RefusedByMachineError(
                f"{self.root}: the cache is not trusted: {found}", hint=f"chmod o-w {self.root}, or {_HINT}"
            )
        self._checked = True

    def _load(self, path: str) -> bytes | None:
        self._check()
        try:
            with open(path, "rb") as handle:
                return handle.read()
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            _refuse(path, error)

    def _make_directory(self, directory: str) -> None:
        self._check()
        try:
            os.makedirs(self.root, mode=0o700, exist_ok=True)
            at = self.root
            for part in os.path.relpath(directory, self.root).split("/"):
                at = f"{at}/{part}"
                if not os.path.isdir(at):
                    os.makedirs(at, mode=0o700, exist_ok=True)
        except OSError as error:
            _refuse(directory, error)
        self._check()

    def _store(self, path: str, data: bytes) -> None:
        self._make_directory(os.path.dirname(path))
        temporary = f"{path}.{os.getpid()}.{os.urandom(6).hex()}.tmp"
        try:
            descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with open(descriptor, "wb") as handle:
                handle.write(data)
                os.fchmod(descriptor, 0o644)
            os.replace(temporary, path)
        except OSError as error:
            _drop(temporary)
            _refuse(path, error)
        except BaseException:
            _drop(temporary)
            raise


def _drop(path: str) -> None:
    try:  # noqa: SIM105 - contextlib is not loaded on the hot path otherwise
        os.unlink(path)
    except OSError:
        pass


def _refuse(path: str, error: OSError) -> NoReturn:
    raise RefusedByMachineError(f"{path}: the cache cannot be used: {error.strerror}", hint=_HINT) from error
