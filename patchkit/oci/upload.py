"""Sending a blob: at once, or in chunks, of which only the one that broke off is sent again."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING
from urllib.parse import urlsplit, urlunsplit

from patchkit.io.http import HttpError
from patchkit.oci.asking import ATTEMPTS, worth_another

if TYPE_CHECKING:
    from patchkit.io.http import Response
    from patchkit.oci.asking import Asker
    from patchkit.oci.types import Descriptor

#: The bytes of a blob from an offset on.
Source = Callable[[int], Iterator[bytes]]
#: Called with the bytes so far and all of them.
Progress = Callable[[int, int], None]

CHUNK = 4 << 20
_RANGE = re.compile(r"(?:bytes[= ])?0-(\d+)")
_GONE = (404, 410, 416)


def upload(
    asker: Asker,
    what: str,
    descriptor: Descriptor,
    source: Source,
    is_there: Callable[[], bool],
    progress: Progress | None = None,
) -> None:
    """Send a blob; `is_there` asks whether it has arrived, where no answer said so. Raises HttpError."""
    sending = _Upload(asker, what, descriptor, source, is_there, progress)
    failures = 0
    while True:
        before = sending.most
        try:
            sending.run()
            return
        except HttpError as error:
            failures = 1 if sending.most > before else failures + 1
            if not (worth_another(error) or sending.may_resume(error)) or failures >= ATTEMPTS:
                sending.cancel()
                raise
            asker.wire.pause(failures, error.wait or 0)
        except BaseException:  # what `source` or `progress` raises
            sending.cancel()
            raise


class _Upload:
    """One blob on its way: `location` is the open session's address, `at` how much of the blob it has."""

    def __init__(
        self,
        asker: Asker,
        what: str,
        descriptor: Descriptor,
        source: Source,
        is_there: Callable[[], bool],
        progress: Progress | None,
    ) -> None:
        self.most = 0
        self._asker, self._what, self._source, self._is_there = asker, what, source, is_there
        self._size, self._digest, self._progress = descriptor.size, descriptor.digest, progress
        self._location, self._at, self._chunk = "", 0, CHUNK
        self._broken, self._committing = False, False

    def run(self) -> None:
        """Begin, or go on after a failure, and come to the end."""
        if self._committing and self._is_there():
            return
        if self._broken:
            self._ask_where()
        if not self._location:
            self._begin()
        self._broken = True  # until it is done
        if self._size <= self._chunk and self._at == 0:
            self._commit(b"".join(self._source(0)))
            self._tell(self._size)
            return
        for data in _cut(self._source(self._at), self._chunk):
            self._send(data)
        if self._at != self._size:
            raise self._asker.wrong(self._what, f"{self._size} bytes to send", str(self._at))
        self._commit(b"")

    def may_resume(self, error: HttpError) -> bool:
        """Whether the failure is one of the session: it is gone, or has more or less than was thought."""
        return self._broken and error.status in _GONE

    def cancel(self) -> None:
        """Close the open session, if that is possible."""
        if self._location:
            with suppress(HttpError):  # it ends by itself some day
                self._asker.ask("DELETE", self._location, self._what, statuses=range(200, 500), once=True)

    def _begin(self) -> None:
        answer = self._asker.ask("POST", "blobs/uploads/", self._what, statuses=(202,), body=b"")
        if "location" not in answer.headers:
            raise self._asker.wrong(self._what, "a Location to send to", "none")
        self._location, self._at = self._asker.located(self._asker.url, answer), 0
        least = answer.headers.get("oci-chunk-min-length", "")
        self._chunk = max(CHUNK, int(least)) if least.isascii() and least.isdigit() else CHUNK

    def _ask_where(self) -> None:
        """Ask how much of the blob is there; where the session is gone, or cannot say, begin anew."""
        if not self._location:
            return
        try:
            answer = self._asker.ask("GET", self._location, self._what, statuses=(204, 200, 202))
        except HttpError as error:
            if error.status is None or error.status >= 500:
                raise
            self._location, self._at = "", 0
            return
        reached = self._reached(answer)
        if reached is None or reached > self._size:
            self.cancel()
            self._location, self._at = "", 0
            return
        self._at = reached
        self._follow(answer)

    def _send(self, data: bytes) -> None:
        headers = {
            "Content-Type": "application/octet-stream",
            "Content-Range": f"{self._at}-{self._at + len(data) - 1}",
        }
        answer = self._asker.ask(
            "PATCH", self._location, self._what, headers, statuses=(202, 204), body=data, once=True
        )
        self._follow(answer)
        reached, end = self._reached(answer), self._at + len(data)
        if reached not in (None, end):
            found = f"Range: {answer.headers['range']}"
            hint = "the registry loses what it is sent: try again, else ask who runs it"
            problem = f"{self._what}: expected Range: 0-{end - 1} after a chunk, found {found}"
            raise HttpError(problem, hint=hint, wait=0.0)
        self._tell(end)

    def _commit(self, data: bytes) -> None:
        parts = urlsplit(self._location)
        query = f"{parts.query}&digest={self._digest}" if parts.query else f"digest={self._digest}"
        self._committing = True
        self._asker.ask(
            "PUT",
            urlunsplit(parts._replace(query=query)),
            self._what,
            {"Content-Type": "application/octet-stream"},
            statuses=(201, 204),
            body=data,
            once=True,
        )
        self._location = ""

    def _follow(self, answer: Response) -> None:
        if "location" in answer.headers:
            self._location = self._asker.located(self._location, answer)

    def _tell(self, reached: int) -> None:
        self._at = reached
        self.most = max(self.most, reached)
        if self._progress is not None:
            self._progress(reached, self._size)

    def _reached(self, answer: Response) -> int | None:
        """Return how many bytes the registry says that it has; None where it does not say. "0-0" is none."""
        match = _RANGE.fullmatch(answer.headers.get("range", "").strip())
        if match is None:
            return None
        return int(match[1]) + 1 if int(match[1]) else 0


def _cut(chunks: Iterator[bytes], size: int) -> Iterator[bytes]:
    """Yield the same bytes in pieces of `size`, the last one shorter."""
    parts: list[bytes] = []
    room = size
    for chunk in chunks:
        rest = memoryview(chunk)
        while len(rest) >= room:
            parts.append(bytes(rest[:room]))
            rest = rest[room:]
            data = b"".join(parts)
            parts.clear()  # one piece is held, not two
            yield data
            room = size
        parts.append(bytes(rest))
        room -= len(rest)
    if room < size:
        yield b"".join(parts)
