"""Transfers that outlive their run: the bytes so far in a file, and what tells whether the server's file is still
the same. They are worth nothing before all of them together have the sha256 that is expected.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
from contextlib import suppress
from typing import TYPE_CHECKING, BinaryIO

from patchkit.io.http_failures import Failed, WrongContentError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import TracebackType

_FORMAT = 1


class Partial:
    """A file for the bytes of one transfer; a context manager that leaves it only for another run to go on with.

    `path` is where it is kept, with PATH.json beside it; the directory exists. Where another process has it, and
    with `keep` false, the file is this run's own and goes at the end.
    """

    def __init__(self, path: str, *, keep: bool) -> None:
        self.validator = ""
        self._path = path
        self._keep = keep

    def __enter__(self) -> Partial:
        kept = _locked(self._path) if self._keep else None
        self._keep = kept is not None
        if kept is None:
            self._path = f"{self._path}.part-{os.getpid()}-{os.urandom(4).hex()}"
        self.handle: BinaryIO = kept if kept is not None else open(self._path, "x+b")
        self.validator = _validator_at(f"{self._path}.json") if self._keep else ""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with suppress(OSError):  # what it could not write is why this run failed
            self.handle.close()
        worth = kind is not None and not issubclass(kind, (OSError, WrongContentError))
        if not (self._keep and self.validator and worth):
            for path in (f"{self._path}.json", self._path):
                with suppress(OSError):
                    os.unlink(path)

    def note(self, validator: str) -> None:
        """Remember what the bytes are of: the server's own mark of its file; empty: they are of no use later."""
        if validator == self.validator or not self._keep:
            return
        self.validator, path = validator, f"{self._path}.json"
        if not validator:
            with suppress(FileNotFoundError):
                os.unlink(path)
            return
        with open(f"{path}.tmp", "w", encoding="utf-8") as stream:
            json.dump({"format": _FORMAT, "validator": validator}, stream)
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(f"{path}.tmp", path)

    def take(self, destination: str) -> None:
        """Put the file, which is whole, at `destination`."""
        self.handle.flush()
        os.replace(self._path, destination)


def _locked(path: str) -> BinaryIO | None:
    """The file at `path`, made if need be and locked; None where another process has it."""
    handle = os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644), "r+b")
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.path.samestat(os.fstat(handle.fileno()), os.stat(path)):
            return handle
    except (BlockingIOError, FileNotFoundError):  # it has it; or it has just put it in its place
        pass
    handle.close()
    return None


def _validator_at(path: str) -> str:
    try:
        with open(path, encoding="utf-8") as stream:
            document = json.load(stream)
        if document["format"] == _FORMAT and isinstance(document["validator"], str):
            return str(document["validator"])
    except (OSError, ValueError, KeyError, TypeError):
        pass
    return ""


class Transfer:
    """The bytes of one file on their way into `handle`: how many are there, their digest, and the `headers` that
    ask for the rest. `size` is how many it should be, if that is known.

    With `part`, whose file `handle` is, it goes on with what an earlier run has left there; `is_earlier` says
    that such bytes are among those that are there.
    """

    def __init__(self, handle: BinaryIO, part: Partial | None, size: int | None) -> None:
        self.headers = {"Accept-Encoding": "identity"}
        self.received = 0
        self.is_earlier = False
        self._handle, self._part, self._begin = handle, part, handle.tell()
        self._digest = hashlib.sha256()
        self._ranges, self._known = False, ""
        if part is not None and part.validator:
            while chunk := handle.read(1 << 20):
                self._digest.update(chunk)
                self.received += len(chunk)
            self.is_earlier = self.received > 0
            self._ask(part.validator)
        if part is not None and (not self.is_earlier or (size is not None and self.received > size)):
            self.start_anew()

    @property
    def sha256(self) -> str:
        """The digest of what is there."""
        return self._digest.hexdigest()

    def start_anew(self) -> None:
        """Forget all that is there."""
        self._handle.seek(self._begin)
        self._handle.truncate()
        self._digest, self.received, self.is_earlier = hashlib.sha256(), 0, False
        self.headers.pop("Range", None)
        self.headers.pop("If-Range", None)

    def answered(self, status: int, headers: Mapping[str, str]) -> None:
        """Take note of an answer before its body: of which file it is, and whether it could be gone on with."""
        tag = headers.get("ETag", "")
        self._known = tag if tag.startswith('"') else headers.get("Last-Modified", "")
        self._ranges = status == 206 or headers.get("Accept-Ranges", "").lower() == "bytes"
        if self._part is not None:
            self._part.note(self._known if self._ranges else "")

    def differs(self, found: str) -> Failed:
        """The failure of other bytes than were asked for. What an earlier run has left may be to blame: it is
        not trusted a second time."""
        again = self.is_earlier
        if again:
            self.start_anew()
        hint = "the file changed or was altered on the way: try again, else ask who publishes it"
        return Failed(found, hint=hint, kind=WrongContentError, retry=again)

    def write(self, chunk: bytes) -> None:
        """Add the next bytes."""
        self._digest.update(chunk)
        self._handle.write(chunk)
        self.received += len(chunk)

    def ended(self) -> None:
        """Let `headers` ask for the rest, where the server serves ranges of this very file."""
        self.headers.pop("Range", None)
        self.headers.pop("If-Range", None)
        if self._ranges:
            self._ask(self._known)

    def _ask(self, validator: str) -> None:
        if self.received:
            self.headers["Range"] = f"bytes={self.received}-"
            if validator:
                self.headers["If-Range"] = validator
