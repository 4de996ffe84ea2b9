"""What the forges have said, kept: one SQLite file under the cache.

Observations are only ever added: what was said once is never changed, so `--as-of DATE` can tell what
was known then. The same words said again are one small row. Compares of two full SHAs hold for good.
Bodies with ETags belong to whoever asked: they are keyed by the digest of the token, never by the token.
"""

from __future__ import annotations

import fcntl
import json
import os
import sqlite3
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn

from patchkit.core.errors import BusyError, RefusedByMachineError
from patchkit.sources.cache import Cache
from patchkit.upstream.payload import from_json, to_json

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from patchkit.upstream.facts import Gone, Pull, Ref

FILE = "upstream.sqlite"
_VERSION = 1
_APPLICATION = 0x706B7570  # "pkup": no other program's file
_BUSY_SECONDS = 30.0
_DAMAGED = ("not a database", "malformed", "corrupt")

_SCHEMA = """
CREATE TABLE observations (
    id INTEGER PRIMARY KEY,
    ref TEXT NOT NULL, kind TEXT NOT NULL, payload TEXT NOT NULL,
    UNIQUE (ref, kind, payload)
);
CREATE TABLE sightings (
    ref TEXT NOT NULL, as_of TEXT NOT NULL, observation INTEGER NOT NULL REFERENCES observations (id),
    PRIMARY KEY (ref, as_of)
) WITHOUT ROWID;
CREATE TABLE compares (
    host TEXT NOT NULL, repo TEXT NOT NULL, base TEXT NOT NULL, head TEXT NOT NULL, status TEXT NOT NULL,
    PRIMARY KEY (host, repo, base, head)
) WITHOUT ROWID;
CREATE TABLE objects (key TEXT PRIMARY KEY, body BLOB NOT NULL);
CREATE TABLE tagged (
    owner TEXT NOT NULL, url TEXT NOT NULL, etag TEXT NOT NULL, body BLOB NOT NULL,
    PRIMARY KEY (owner, url)
);
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """How `head` stands to `base`, two full SHAs of one repository: one of `forge.COMPARE_STATES`."""

    host: str
    repo: str
    base: str
    head: str
    status: str


class Store:
    """The store in the cache directory `root` (default: the cache's); safe for concurrent writers.

    Nothing is made before something is written. A file that is no database is moved aside, never deleted,
    and `notes` says where to. Raises `RefusedByMachineError` for a file that cannot be used, with the way out,
    and `BusyError` where another process holds it for longer than half a minute.
    """

    def __init__(self, root: str | None = None) -> None:
        self._cache = Cache(root)
        self.path = os.path.join(self._cache.root, FILE)
        self.notes: tuple[str, ...] = ()
        self._open: sqlite3.Connection | None = None

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file."""
        if self._open is not None:
            self._open.close()
            self._open = None

    def add(self, facts: Iterable[Pull | Gone]) -> None:
        """Add what was said of pull requests, each at its `as_of`; what is known already changes nothing."""
        with self._transaction() as connection:
            for fact in facts:
                kind, content = to_json(fact)
                row = (str(fact.ref), kind, json.dumps(content, sort_keys=True))
                connection.execute("INSERT OR IGNORE INTO observations (ref, kind, payload) VALUES (?, ?, ?)", row)
                connection.execute(
                    "INSERT OR IGNORE INTO sightings (ref, as_of, observation)"
                    " SELECT ref, ?, id FROM observations WHERE ref = ? AND kind = ? AND payload = ?",
                    (fact.as_of, *row),
                )

    def newest(self, ref: Ref, before: str | None = None) -> Pull | Gone | None:
        """Return what was said last of `ref`; with `before` (ISO 8601, UTC), what was said last before that instant."""
        rows = self._rows(
            "SELECT kind, payload, as_of FROM sightings JOIN observations ON observations.id = observation"
            " WHERE sightings.ref = ? AND as_of < ? ORDER BY as_of DESC LIMIT 1",
            (str(ref), before or "~"),
        )
        for kind, payload, as_of in rows:
            try:
                return from_json(ref, kind, json.loads(payload), as_of)
            except ValueError as error:
                self._refuse(f"{ref}: {error}")
        return None

    def compared(self, host: str, repo: str, base: str, head: str) -> str | None:
        """Return how two full SHAs stand to each other, None where that was not asked yet."""
        query = "SELECT status FROM compares WHERE host = ? AND repo = ? AND base = ? AND head = ?"
        return next((str(status) for (status,) in self._rows(query, (host, repo, base, head))), None)

    def add_compared(self, compared: Compared) -> None:
        """Keep how two full SHAs stand to each other: for good."""
        row = (compared.host, compared.repo, compared.base, compared.head, compared.status)
        with self._transaction() as connection:
            connection.execute("INSERT OR IGNORE INTO compares VALUES (?, ?, ?, ?, ?)", row)

    def object(self, key: str) -> bytes | None:
        """Return the immutable bytes kept under `key`, None where there are none."""
        return next((bytes(body) for (body,) in self._rows("SELECT body FROM objects WHERE key = ?", (key,))), None)

    def add_object(self, key: str, body: bytes) -> None:
        """Keep immutable bytes, such as a commit's diff, under `key`."""
        with self._transaction() as connection:
            connection.execute("INSERT OR IGNORE INTO objects VALUES (?, ?)", (key, body))

    def tagged(self, owner: str, url: str) -> tuple[str, bytes] | None:
        """See `forge.Memory`."""
        rows = self._rows("SELECT etag, body FROM tagged WHERE owner = ? AND url = ?", (owner, url))
        return next(((str(etag), bytes(body)) for etag, body in rows), None)

    def keep_tagged(self, owner: str, url: str, etag: str, body: bytes) -> None:
        """See `forge.Memory`."""
        with self._transaction() as connection:
            connection.execute("INSERT OR REPLACE INTO tagged VALUES (?, ?, ?, ?)", (owner, url, etag, body))

    def _rows(self, query: str, values: tuple[str, ...]) -> list[tuple[Any, ...]]:
        with self._failures():
            if self._open is None and not os.path.exists(self.path):
                return []
            return self._connection().execute(query, values).fetchall()

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        with self._failures():
            connection = self._connection()
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield connection
                connection.execute("COMMIT")
            except BaseException:
                with suppress(sqlite3.Error):
                    connection.execute("ROLLBACK")
                raise

    def _connection(self) -> sqlite3.Connection:
        if self._open is None:
            self._cache.directory()
            try:
                self._open = self._opened()
            except sqlite3.DatabaseError as error:
                if not any(word in str(error) for word in _DAMAGED):
                    raise
                self._open = self._anew()
        return self._open

    def _opened(self) -> sqlite3.Connection:
        """Open the file, make it if need be, and see that it is this program's, of this version."""
        os.close(os.open(self.path, os.O_RDWR | os.O_CREAT, 0o600))
        connection = sqlite3.connect(self.path, timeout=_BUSY_SECONDS, isolation_level=None)
        try:
            application, version, tables = _identity(connection)
            if (application, version, tables) == (0, 0, 0):
                connection.execute("BEGIN IMMEDIATE")
                if _identity(connection) == (0, 0, 0):  # nobody else was faster
                    for statement in _SCHEMA.split(";\n"):
                        connection.execute(statement)
                    connection.execute(f"PRAGMA application_id = {_APPLICATION}")
                    connection.execute(f"PRAGMA user_version = {_VERSION}")
                connection.execute("COMMIT")
                application, version, tables = _identity(connection)
            if application != _APPLICATION:
                self._refuse("another program's database")
            if version != _VERSION:
                self._refuse(f"version {version}; this patchkit knows {_VERSION}")
        except BaseException:
            connection.close()
            raise
        return connection

    def _anew(self) -> sqlite3.Connection:
        """Move a damaged file aside and begin a new one; of several processes the first does it."""
        with open(f"{self.path}.lock", "a", encoding="ascii") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            try:
                return self._opened()
            except sqlite3.DatabaseError:
                aside = _free_name(f"{self.path}.damaged")
                for ending in ("", "-journal"):
                    with suppress(FileNotFoundError):
                        os.rename(f"{self.path}{ending}", f"{aside}{ending}")
                self.notes = (*self.notes, f"{self.path}: damaged; it is kept as {aside}, a new one is begun")
                return self._opened()

    @contextmanager
    def _failures(self) -> Iterator[None]:
        """Turn SQLite's and the system's errors into those that a person can act on."""
        try:
            yield
        except sqlite3.OperationalError as error:
            if "locked" in str(error) or "busy" in str(error):
                raise BusyError(
                    f"{self.path}: another process has held it for {_BUSY_SECONDS:g} s", hint="try again"
                ) from error
            self._refuse(str(error))
        except sqlite3.DatabaseError as error:
            self._refuse(str(error))
        except OSError as error:
            self._refuse(error.strerror or str(error))

    def _refuse(self, found: str) -> NoReturn:
        raise RefusedByMachineError(
            f"{self.path}: expected the store of upstream observations, found: {found}",
            hint=f"mv {self.path} {self.path}.aside, or name another directory: PATCHKIT_CACHE=DIR",
        )


def _identity(connection: sqlite3.Connection) -> tuple[int, int, int]:
    queries = ("PRAGMA application_id", "PRAGMA user_version", "SELECT count(*) FROM sqlite_master")
    application, version, tables = (int(connection.execute(query).fetchone()[0]) for query in queries)
    return application, version, tables


def _free_name(base: str) -> str:
    names = (f"{base}-{number}" for number in range(1, 1_000_000))
    return next(name for name in names if not os.path.lexists(name))
