"""A private copy, on this machine, of the part of a container's site that a command may look at.

For containers that do not run, or hold no python3: core works on the copy as on any directory. It
holds the files of lock, ledger and journal, their directories, the names of their byte-code, and the
whole ledger directory. Where a directory may become empty, one of its other entries stands for all.
"""

from __future__ import annotations

import os
from contextlib import suppress
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from patchkit.core.errors import ConfigError, DriftError
from patchkit.core.holding import JOURNAL
from patchkit.core.journal import parse as parse_journal
from patchkit.core.ledger import LEDGER
from patchkit.core.ledger import parse as parse_ledger
from patchkit.core.paths import LEDGER_DIR, parents

if TYPE_CHECKING:
    import tarfile
    from collections.abc import Iterator

    from patchkit.core.lockfile import Lock
    from patchkit.io.engine import Container, Engine

XATTR = "SCHILY.xattr."


def find_site(engine: Engine, container: Container, patterns: tuple[str, ...]) -> str | None:
    """The site in the container as an absolute path without links; None where none is there.

    Raises ConfigError where several match. A glob costs a reading of the directory it stands in.
    """
    found: list[str] = []
    for pattern in patterns:
        for hit in _expand(engine, container, pattern):
            real = _real_dir(engine, container, hit)
            if real is not None and real not in found:
                found.append(real)
    if len(found) > 1:
        raise ConfigError(
            f"container {container.name}: several site directories match {', '.join(patterns)}: {', '.join(found)}",
            hint="name the one that is meant: --site PATH (relative to the root)",
        )
    return found[0] if found else None


def _expand(engine: Engine, container: Container, pattern: str) -> list[str]:
    heads = [""]
    for part in pattern.split("/"):
        if not any(c in part for c in "*?["):
            heads = [f"{head}/{part}" for head in heads]
            continue
        heads = [
            f"{head}/{name}"
            for head in heads
            for name in sorted(set(_names(engine, container, head or "/")))
            if fnmatchcase(name, part) and (not name.startswith(".") or part.startswith("."))
        ]
    return heads


def _names(engine: Engine, container: Container, path: str) -> Iterator[str]:
    real = _real_dir(engine, container, path)
    if real is not None:
        with engine.archive(container, real) as archive:
            for entry in archive or ():
                _, _, inside = entry.name.partition("/")
                if inside:
                    yield inside.partition("/")[0]


def _real_dir(engine: Engine, container: Container, path: str) -> str | None:
    done = ""
    is_dir = True
    for part in path.strip("/").split("/"):
        status = engine.stat(container, f"{done}/{part}")
        if status is None:
            return None
        done = status.link or f"{done}/{part}"
        if status.link:
            status = engine.stat(container, done)
        is_dir = status is not None and status.is_dir
    return done if is_dir else None


def resolved(engine: Engine, container: Container, path: str) -> str:
    """The absolute path without the links on the way, as far as there is something."""
    done = ""
    parts = path.strip("/").split("/")
    for number, part in enumerate(parts):
        status = engine.stat(container, f"{done}/{part}")
        if status is None:
            return "/".join([done, *parts[number:]])
        done = status.link or f"{done}/{part}"
    return done


class Mirror:
    """The copy of the container's `site` at `base`, which is made. `marks` tell for each file
    that matters how it was when it was read (None: not there)."""

    def __init__(self, engine: Engine, container: Container, site: str, base: str) -> None:
        self.engine, self.container, self.site, self.base = engine, container, site, base
        self.marks: dict[str, tuple[object, ...] | None] = {}
        self._dirs: dict[str, bool] = {"": True}
        self._whole = os.geteuid() == 0  # nobody else can give files away

    def load(self, lock: Lock) -> None:
        """Copy everything that a command with `lock` may look at. Raises UnreachableError, OSError."""
        with self.engine.archive(self.container, self.site) as archive:
            entry = archive.next() if archive is not None else None
            if entry is not None:
                self._make("", entry, None)  # new files take its group where it says so
        self._tree(LEDGER_DIR)
        wanted, trees, shrinking = self._of_lock(lock)
        for more in (self._of_ledger(LEDGER), self._of_ledger(f"{LEDGER}.tmp"),
                     self._of_journal(JOURNAL), self._of_journal(f"{JOURNAL}.tmp")):  # fmt: skip
            wanted, trees, shrinking = wanted | more[0], trees | more[1], shrinking | more[2]
        for path in sorted(trees):
            self._tree(path)
        for path in sorted(wanted):
            self._file(path)
        for cache in sorted({f"{p.rpartition('/')[0]}/__pycache__".lstrip("/") for p in wanted if p.endswith(".py")}):
            self._tree(cache, content=False)
        for directory in sorted({d for path in shrinking for d in (*parents(path), path)}):
            self._others(directory)

    # -- which paths

    def _of_lock(self, lock: Lock) -> tuple[set[str], set[str], set[str]]:
        wanted = {lock.image.identity_file} if lock.image.identity_file else set()
        shrinking: set[str] = set()
        for step in lock.steps:
            wanted |= {path for path in step.touches or () if not path.endswith("/")}
            wanted |= {path for c in step.changes for path in (c.path, c.source) if path}
            for states in (step.before, step.after):
                wanted |= set(states)
                shrinking |= {path for path, ref in states.items() if ref is None}
        return wanted, set(), shrinking

    def _of_ledger(self, path: str) -> tuple[set[str], set[str], set[str]]:
        with suppress(OSError, DriftError):  # core says what is wrong with it
            with open(self._at(path), "rb") as stream:
                ledger = parse_ledger(stream.read(), path)
            shrinking = {p for p, file in ledger.files.items() if file.before is None or file.after is None}
            shrinking |= {*ledger.dirs_created, *(d.path for d in ledger.dirs_removed)}
            return set(ledger.files), set(), shrinking
        return set(), set(), set()

    def _of_journal(self, path: str) -> tuple[set[str], set[str], set[str]]:
        with suppress(OSError, DriftError):
            with open(self._at(path), "rb") as stream:
                journal = parse_journal(stream.read(), path)
            files = {entry.path for entry in journal.entries}
            trees = {e.temp for e in journal.entries if e.temp is not None} | set(journal.temp_dirs)
            trees |= {move[1] for move in journal.moves if move[0] in journal.temp_dirs}
            return files, trees | {source for source, _ in journal.moves}, {*journal.rmdirs, *files}
        return set(), set(), set()

    # -- reading

    def _at(self, path: str) -> str:
        return os.path.join(self.base, path)

    def _file(self, path: str) -> None:
        """Copy one file or link, with the directories above it."""
        if not all(self._dir(above) for above in sorted(parents(path), key=len)):
            return
        status = self.engine.stat(self.container, f"{self.site}/{path}")
        self.marks[path] = None if status is None else status.mark
        if status is not None and not os.path.lexists(self._at(path)):
            self._first(path)

    def _dir(self, path: str) -> bool:
        """Copy the directory itself, without what is in it; whether it is one."""
        if path not in self._dirs:
            if not os.path.lexists(self._at(path)):
                self._first(path)
            self._dirs[path] = os.path.isdir(self._at(path)) and not os.path.islink(self._at(path))
        return self._dirs[path]

    def _first(self, path: str) -> None:
        full = f"{self.site}/{path}"
        if self.engine.stat(self.container, full) is None:
            return
        with self.engine.archive(self.container, full) as archive:
            entry = archive.next() if archive is not None else None
            if archive is not None and entry is not None:
                self._make(path, entry, archive)

    def _tree(self, path: str, *, content: bool = True) -> None:
        """Copy what stands at `path` with all below it; without `content` files are empty."""
        if not all(self._dir(above) for above in sorted(parents(path), key=len)):
            return
        full = f"{self.site}/{path}"
        if self.engine.stat(self.container, full) is None:
            return
        with self.engine.archive(self.container, full) as archive:
            for entry in archive or ():
                inside = f"{path}/{entry.name.partition('/')[2]}".rstrip("/")
                if not os.path.lexists(self._at(inside)):
                    self._make(inside, entry, archive if content else None)

    def _others(self, path: str) -> None:
        """Copy the name of one entry of the directory that is not in the copy yet: it will not become empty."""
        if not os.path.isdir(self._at(path)) or os.path.islink(self._at(path)):
            return
        with self.engine.archive(self.container, f"{self.site}/{path}") as archive:
            for entry in archive or ():
                inside = f"{path}/{entry.name.partition('/')[2]}".rstrip("/")
                if "__pycache__" not in inside.split("/") and not os.path.lexists(self._at(inside)):
                    self._make(inside, entry, None)
                    return

    def _make(self, path: str, entry: tarfile.TarInfo, archive: tarfile.TarFile | None) -> None:
        at = self._at(path) if path else self.base
        if entry.isdir():
            os.mkdir(at, 0o700)
        elif entry.issym():
            os.symlink(entry.linkname, at)
        elif entry.islnk() and os.path.lexists(self._linked(path, entry)):
            os.link(self._linked(path, entry), at, follow_symlinks=False)
            return
        elif entry.isreg() or entry.islnk():
            stream = archive.extractfile(entry) if archive is not None and entry.isreg() else None
            with open(at, "xb") as target:
                target.write(stream.read() if stream is not None else b"")
        else:
            os.mkfifo(at)
        if self._whole:
            os.lchown(at, entry.uid, entry.gid)
            for key, value in entry.pax_headers.items():
                if key.startswith(XATTR) and entry.isreg():
                    os.setxattr(at, key[len(XATTR) :], value.encode("utf-8", "surrogateescape"))
        if not entry.issym():
            os.chmod(at, entry.mode if self._whole or not entry.isdir() else entry.mode | 0o700)

    def _linked(self, path: str, entry: tarfile.TarInfo) -> str:
        """Where in the copy a hard link leads: names in an archive begin with the last part of what was asked for."""
        below = entry.name.partition("/")[2]
        top = path[: -len(below) - 1] if below else path
        return self._at(f"{top}/{entry.linkname.partition('/')[2]}".rstrip("/"))
