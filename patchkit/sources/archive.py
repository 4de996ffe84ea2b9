"""Files out of a wheel or an sdist: a wheel also by ranges, so that only what is wanted is moved."""

from __future__ import annotations

import base64
import csv
import gzip
import hashlib
import io
import os
import shutil
import stat
import tarfile
import tempfile
import zipfile
import zlib
from bisect import bisect_right
from typing import IO, TYPE_CHECKING, Protocol

from patchkit.core.errors import UnreachableError
from patchkit.core.tree import LINK, FileState
from patchkit.sources.base import not_a_file

if TYPE_CHECKING:
    from collections.abc import Callable

    from typing_extensions import Buffer

TAIL_BYTES = 32 << 10
_LOCAL_HEADER_BYTES = 30
_SLACK_BYTES = 256
_MAX_FILE_BYTES = 1 << 30


class Archive(Protocol):
    """A release's file that is open for reading."""

    def read(self, path: str) -> FileState | None:
        """Return the file at `path` (relative to the site), checked as well as the archive allows, or None."""
        ...

    def close(self) -> None:
        """Close the archive."""
        ...


class RangedFile(io.RawIOBase):
    """A seekable file of `size` bytes whose pieces are fetched as they are read: `fetch(start, end)`.

    What is missing of one read is one request; `prefetch` gets a piece ahead, `forget` drops those.
    """

    def __init__(self, size: int, fetch: Callable[[int, int], bytes]) -> None:
        super().__init__()
        self.size = size
        self._fetch = fetch
        self._at = 0
        self._kept: list[tuple[int, bytes]] = []
        self._ahead: tuple[int, bytes] = (0, b"")

    def readable(self) -> bool:
        """It can be read."""
        return True

    def seekable(self) -> bool:
        """It can be sought in."""
        return True

    def tell(self) -> int:
        """Return where the next read starts."""
        return self._at

    def seek(self, offset: int, whence: int = os.SEEK_SET, /) -> int:
        """Go to `offset` from `whence` and return the place; raise `OSError` for one before the start."""
        base = {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: self.size}[whence]
        if base + offset < 0:
            raise OSError("seek before the start")
        self._at = base + offset
        return self._at

    def keep(self, start: int, data: bytes) -> None:
        """Hold `data`, which stands at `start`, for good."""
        self._kept.append((start, data))

    def prefetch(self, start: int, end: int) -> None:
        """Get the bytes [start, end) with one request, in place of the last that were got ahead."""
        end = min(end, self.size)
        if self._held(start, end) is None:
            self._ahead = (start, self._fetch(start, end))

    def readinto(self, buffer: Buffer, /) -> int:
        """Fill `buffer` and return the number of bytes."""
        with memoryview(buffer).cast("B") as view:
            data = self.read(len(view))
            view[: len(data)] = data
            return len(data)

    def read(self, size: int | None = -1, /) -> bytes:
        """Return the next `size` bytes, fewer at the end, all of them for -1."""
        end = self.size if size is None or size < 0 else min(self._at + size, self.size)
        if end <= self._at:
            return b""
        data = self._held(self._at, end)
        if data is None:
            data = self._complete(self._at, end)
        self._at = end
        return data

    def span(self, start: int) -> bytes:
        """Return everything from `start` to the end."""
        self.seek(start)
        return self.read()

    def _held(self, start: int, end: int) -> bytes | None:
        for begin, data in (self._ahead, *self._kept):
            if begin <= start and end <= begin + len(data):
                return data[start - begin : end - begin]
        return None

    def _complete(self, start: int, end: int) -> bytes:
        """Fetch what is missing; before a piece that is held, it is held as well from then on."""
        for index, (begin, data) in enumerate(self._kept):
            if start < begin < end <= begin + len(data):
                joined = self._fetch(start, begin) + data
                self._kept[index] = (start, joined)
                return joined[: end - start]
        return self._fetch(start, end)


class WheelArchive:
    """A wheel in a seekable file. `label` names it in messages; a file by range is fetched as one piece.

    Every file is checked by the zip's CRC and against the wheel's RECORD, if that lists it.
    `recorded(name)` and `record(name, data)` reach a cache for RECORD, which is read once.
    """

    def __init__(self, file: IO[bytes] | RangedFile, label: str) -> None:
        self._file = file
        self._label = label
        self._hashes: dict[str, str] | None = None
        try:
            self._zip = zipfile.ZipFile(file)
        except (zipfile.BadZipFile, ValueError, NotImplementedError) as error:
            raise self._damaged("its central directory", error) from error
        self._infos = {info.filename: info for info in self._zip.infolist()}
        self._offsets = sorted(info.header_offset for info in self._infos.values())
        names = [name for name in self._infos if name.count("/") == 1 and name.endswith(".dist-info/RECORD")]
        self.record_name = names[0] if len(names) == 1 else None
        self._data = (names[0].removesuffix(".dist-info/RECORD") + ".data") if len(names) == 1 else None

    @property
    def directory_start(self) -> int:
        """Where the central directory starts, in bytes from the start of the file."""
        return int(self._zip.start_dir)

    def read(self, path: str) -> FileState | None:
        """Return the file at `path`, as pip would install it (0644, or 0755 if executable), or None."""
        info = self._find(path)
        if info is None:
            if any(name.startswith(f"{path}/") for name in self._infos):
                raise not_a_file(self._label, path, "a directory")
            return None
        data = self.member(info.filename)
        self._check_record(info.filename, data)
        return FileState(mode=0o755 if info.external_attr >> 16 & 0o111 else 0o644, data=data)

    def use_record(self, record: bytes) -> None:
        """Check files against `record`, the bytes of the wheel's RECORD."""
        self._hashes = {}
        for row in csv.reader(io.StringIO(record.decode("utf-8", "replace"))):
            if len(row) >= 2 and row[1].startswith("sha256="):
                self._hashes[row[0]] = row[1].removeprefix("sha256=")

    def member(self, name: str) -> bytes:
        """Return the bytes of the member `name`, checked by CRC."""
        info = self._infos[name]
        if info.file_size > _MAX_FILE_BYTES:
            raise self._damaged(name, ValueError(f"{info.file_size} bytes"))
        try:
            if isinstance(self._file, RangedFile):
                self._file.prefetch(info.header_offset, self._end_of(info))
            return self._zip.read(info)
        except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError) as error:
            raise self._damaged(name, error) from error

    def close(self) -> None:
        """Close the zip and the file."""
        self._zip.close()
        self._file.close()

    def _find(self, path: str) -> zipfile.ZipInfo | None:
        names = [path] if self._data is None else [path, f"{self._data}/purelib/{path}", f"{self._data}/platlib/{path}"]
        return next((self._infos[name] for name in names if name in self._infos), None)

    def _end_of(self, info: zipfile.ZipInfo) -> int:
        """Return where to stop fetching: after the data (the local header's length is known but for its extra part)."""
        header = _LOCAL_HEADER_BYTES + len(info.filename.encode()) + len(info.extra) + _SLACK_BYTES
        index = bisect_right(self._offsets, info.header_offset)
        after = self._offsets[index] if index < len(self._offsets) else self.directory_start
        return min(info.header_offset + header + info.compress_size, after)

    def _check_record(self, name: str, data: bytes) -> None:
        if self._hashes is None and self.record_name is not None:
            self.use_record(self.member(self.record_name))
        expected = (self._hashes or {}).get(name)
        found = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        if expected is not None and expected.rstrip("=") != found:
            raise UnreachableError(
                f"{self._label}: {name}: expected sha256={expected} (its RECORD), found sha256={found}",
                hint="the release's file is damaged, or was changed: use another index",
            )

    def _damaged(self, what: str, error: Exception) -> UnreachableError:
        return UnreachableError(
            f"{self._label}: expected a readable wheel, found {what} damaged ({type(error).__name__}: {error})",
            hint="try again; if it stays so, the index serves a damaged file",
        )


class SdistArchive:
    """An sdist (.tar.gz) at `path`, unpacked once into an unnamed temporary file.

    Files are at `NAME-VERSION/path`, or at `NAME-VERSION/src/path` where only that holds the first part.
    """

    def __init__(self, path: str, label: str) -> None:
        self._label = label
        self._plain = tempfile.TemporaryFile()  # noqa: SIM115 - closed by close()
        try:
            with gzip.open(path) as packed:
                shutil.copyfileobj(packed, self._plain, 1 << 20)
            self._plain.seek(0)
            self._tar = tarfile.open(fileobj=self._plain, mode="r:")  # noqa: SIM115 - closed by close()
            members = self._tar.getmembers()
        except (tarfile.TarError, EOFError, zlib.error, gzip.BadGzipFile) as error:
            self._plain.close()
            raise UnreachableError(
                f"{label}: expected a readable sdist, found it damaged ({type(error).__name__})",
                hint="the index serves a damaged file: use another index",
            ) from error
        self._members: dict[str, tarfile.TarInfo] = {}
        for member in members:
            self._members[member.name.removeprefix("./").partition("/")[2].rstrip("/")] = member
        self._tops = {name.partition("/")[0] for name in self._members}

    def read(self, path: str) -> FileState | None:
        """Return the file or link at `path`, with the mode pip would give it (0644, or 0755 if executable), or None."""
        first = path.partition("/")[0]
        if first not in self._tops and any(
            name == f"src/{first}" or name.startswith(f"src/{first}/") for name in self._members
        ):
            path = f"src/{path}"
        member = self._members.get(path)
        if member is None:
            if any(name.startswith(f"{path}/") for name in self._members):
                raise not_a_file(self._label, path, "a directory")
            return None
        if member.issym():
            return FileState(kind=LINK, mode=0o777, data=os.fsencode(member.linkname))
        content = self._tar.extractfile(member) if member.isreg() or member.islnk() else None
        if content is None:
            raise not_a_file(self._label, path, "a directory" if member.isdir() else "a device")
        executable = member.mode & (stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH)
        return FileState(mode=0o755 if executable else 0o644, data=content.read())

    def close(self) -> None:
        """Close the archive and drop its unpacked bytes."""
        self._tar.close()
        self._plain.close()
