"""Brings a container's site to where its mirror is, so that every interruption leaves a state that core repairs.

An engine unpacks an archive entry after entry, and replaces a file by removing it first. So new
content is only ever written under names that the journal knows; into its place it comes as a hard
link to those, whole or not at all; and what is removed is removed in the order of core's own commit.
"""

from __future__ import annotations

import hashlib
import io
import os
import stat
import tarfile
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from patchkit.core.errors import DriftError, RefusedByMachineError, UnreachableError
from patchkit.core.holding import JOURNAL
from patchkit.core.ledger import LEDGER
from patchkit.core.paths import LEDGER_DIR
from patchkit.core.site import Site
from patchkit.targets.mirror import XATTR

if TYPE_CHECKING:
    from patchkit.targets.mirror import Mirror

_STAGED = f"{JOURNAL}.tmp"
_NOTHING = f"{LEDGER_DIR}/nothing-is-here"


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """What stands at a path of the mirror. `inode` is left out of comparisons."""

    kind: int
    mode: int
    uid: int
    gid: int
    content: bytes
    xattrs: tuple[tuple[str, bytes], ...] = ()
    inode: int = field(compare=False)


def snapshot(base: str) -> dict[str, Node]:
    """Everything below `base`, outermost first."""
    found: dict[str, Node] = {}
    for folder, folders, files in os.walk(base):
        for name in (*folders, *files):
            path = os.path.join(folder, name)
            status = os.lstat(path)
            found[os.path.relpath(path, base)] = _node(path, status)
    return dict(sorted(found.items()))


def _node(path: str, status: os.stat_result) -> Node:
    content = b""
    xattrs: tuple[tuple[str, bytes], ...] = ()
    if stat.S_ISLNK(status.st_mode):
        content = os.fsencode(os.readlink(path))
    elif stat.S_ISREG(status.st_mode):
        with open(path, "rb") as stream:
            content = hashlib.sha256(stream.read()).digest()
        xattrs = tuple((key, os.getxattr(path, key)) for key in sorted(os.listxattr(path)))
    return Node(
        kind=stat.S_IFMT(status.st_mode),
        mode=stat.S_IMODE(status.st_mode),
        uid=status.st_uid,
        gid=status.st_gid,
        content=content,
        xattrs=xattrs,
        inode=status.st_ino,
    )


class MirrorSite(Site):
    """The mirror as core's site; its messages name the container's own paths. With `publish`, what core
    does is brought to the container; without, the container is only looked at."""

    def __init__(self, mirror: Mirror, *, publish: bool) -> None:
        super().__init__(mirror.base)
        self.path = mirror.site
        self._back = WriteBack(mirror) if publish else None

    def checkpoint(self) -> None:
        """Bring the container up to here."""
        if self._back is not None:
            self._back.bring()

    def settle(self) -> None:
        """Bring the container to the end of a command, unless core itself was stopped in the middle."""
        if self._back is None or os.path.lexists(os.path.join(self._back.mirror.base, JOURNAL)):
            return
        committed = self._back.staged
        try:
            self._back.bring()
        except RefusedByMachineError as error:
            if not committed:
                raise
            told = f"the change of {self.path} was interrupted; run the same command again to finish it"
            raise RefusedByMachineError(told, *error.problems, hint=error.hint) from error


class WriteBack:
    """The container's state as far as the mirror knows it, and the way to its next."""

    def __init__(self, mirror: Mirror) -> None:
        self.mirror = mirror
        self._known = snapshot(mirror.base)
        self.staged = False
        self._entries: list[tuple[tarfile.TarInfo, bytes]] = []

    def bring(self) -> None:
        """Bring the container to the mirror's state: staged for a commit where there is a journal, else settled.

        Raises UnreachableError where the engine stops, DriftError where somebody changed a file meanwhile.
        """
        new = snapshot(self.mirror.base)
        if JOURNAL in new:
            self._stage(new)
        else:
            self._settle(new)

    # -- before the commit point

    def _stage(self, new: dict[str, Node]) -> None:
        """The journal, then the files it names, then its committed form, still beside it."""
        added = [path for path, node in new.items() if self._known.get(path) != node]
        own_dirs = [p for p in added if _is_own(p) and stat.S_ISDIR(new[p].kind)]
        for path in own_dirs:
            self._add(path, new[path])
        self._add(_STAGED, new[JOURNAL], read=JOURNAL)
        self._link(JOURNAL, _STAGED, new[JOURNAL])
        inodes = {node.inode: path for path, node in self._known.items() if stat.S_ISREG(node.kind)}
        for path in added:
            if path in (JOURNAL, _STAGED, *own_dirs):
                continue
            twin = inodes.get(new[path].inode)
            if twin is not None and twin in new:
                self._link(path, twin, new[path])
            else:
                self._add(path, new[path])
        self._add(_STAGED, new[_STAGED])
        self._known = dict(sorted({**self._known, **new}.items()))  # part of it, where the engine stops: core undoes it
        self._flush()
        self.staged = True
        self._require_unchanged()

    def _require_unchanged(self) -> None:
        """The last look before the commit: nobody touched in the container what was read from it."""
        for path, mark in self.mirror.marks.items():
            if self._mark(path) != mark:
                self.staged = False  # core undoes it now
                raise DriftError(
                    f"{self.mirror.site}/{path}: somebody changed it while patchkit was at work; nothing was changed",
                    hint="run it again",
                )

    # -- from the commit point on

    def _settle(self, new: dict[str, Node]) -> None:
        """What core did from its commit point on, in its order: each part may be done twice."""
        gone = [path for path in self._known if path not in new]
        put = [path for path, node in new.items() if self._known.get(path) != node]
        if self.staged:
            self._link(JOURNAL, _STAGED, self._known[_STAGED])  # the commit point
        outside = [path for path in gone if not _is_own(path)]
        self._delete([path for path in outside if not _is_temp(path)])
        self._place([path for path in put if not _is_own(path)], new)
        self._delete([path for path in outside if _is_temp(path)])
        self._place([path for path in put if _is_own(path)], new)
        last = [path for path in (_STAGED, JOURNAL, LEDGER_DIR) if path in gone]
        self._delete([path for path in (LEDGER,) if path in gone])
        self._delete([path for path in gone if _is_own(path) and path not in (LEDGER, *last)])
        for path in last:
            self._delete([path])
        self._flush()
        self._known, self.staged = new, False
        for path in self.mirror.marks:
            self.mirror.marks[path] = self._mark(path)

    def _place(self, paths: list[str], new: dict[str, Node]) -> None:
        """Put each path in its place: a file as a link to where it waits."""
        waiting = {node.inode: path for path, node in self._known.items() if stat.S_ISREG(node.kind)}
        for path in paths:
            was = self._known.get(path)
            if was is not None and stat.S_ISDIR(was.kind) and not stat.S_ISDIR(new[path].kind):
                self._require_no_others(path)
            source = waiting.get(new[path].inode)
            if source is not None and source != path:
                self._link(path, source, new[path])
            else:
                self._add(path, new[path])

    # -- archives

    def _delete(self, paths: list[str]) -> None:
        """Remove each path. A directory goes as a whole, unless it holds what the mirror does not know."""
        inside = ""
        for path in sorted(paths):
            if inside and path.startswith(f"{inside}/"):
                continue
            if stat.S_ISDIR(self._known[path].kind) and not _is_temp(path) and not _is_own(path):
                self._flush()
                if self._others(path):
                    continue
            inside = path
            self._remove(path)

    def _others(self, path: str) -> list[str]:
        """What the container's directory holds and the mirror does not know."""
        with self.mirror.engine.archive(self.mirror.container, f"{self.mirror.site}/{path}") as archive:
            names = [f"{path}/{entry.name.partition('/')[2]}".rstrip("/") for entry in archive or ()]
        return [name for name in names if name not in self._known]

    def _require_no_others(self, path: str) -> None:
        self._flush()
        if self._others(path):
            raise DriftError(
                f"{self.mirror.site}/{path}: somebody put a file into this directory, which is to become a file",
                hint="move it away, then run the same command again",
            )

    def _remove(self, path: str) -> None:
        """Remove what stands at `path`: an engine does so before it finds that it cannot make a link to nothing."""
        info = tarfile.TarInfo(self._full(path))
        info.type, info.linkname = tarfile.LNKTYPE, self._full(_NOTHING)
        self._entries.append((info, b""))
        try:
            self._flush()
        except UnreachableError:
            if self._mark(path) is not None:
                raise
            return
        if self._mark(path) is not None:
            raise UnreachableError(f"the container engine cannot remove {self.mirror.site}/{path} in an archive")

    def _add(self, path: str, node: Node, *, read: str | None = None) -> None:
        """A file, link or directory of the mirror; the content of `read` instead of its own."""
        info = self._info(path, node)
        data = b""
        if stat.S_ISDIR(node.kind):
            info.type = tarfile.DIRTYPE
        elif stat.S_ISLNK(node.kind):
            info.type, info.linkname = tarfile.SYMTYPE, os.fsdecode(node.content)
        else:
            with open(os.path.join(self.mirror.base, read or path), "rb") as stream:
                data = stream.read()
        info.size = len(data)
        self._entries.append((info, data))

    def _link(self, path: str, source: str, node: Node) -> None:
        info = self._info(path, node)
        info.type, info.linkname = tarfile.LNKTYPE, self._full(source)
        self._entries.append((info, b""))

    def _info(self, path: str, node: Node) -> tarfile.TarInfo:
        info = tarfile.TarInfo(self._full(path))
        info.mode, info.uid, info.gid, info.mtime = node.mode, node.uid, node.gid, time.time()
        info.pax_headers = {f"{XATTR}{key}": value.decode("utf-8", "surrogateescape") for key, value in node.xattrs}
        return info

    def _full(self, path: str) -> str:
        return f"{self.mirror.site}/{path}".lstrip("/")

    def _mark(self, path: str) -> tuple[object, ...] | None:
        status = self.mirror.engine.stat(self.mirror.container, f"{self.mirror.site}/{path}")
        return None if status is None else status.mark

    def _flush(self) -> None:
        """Send what has been put together, to be unpacked in this order."""
        if not self._entries:
            return
        buffer = io.BytesIO()
        with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as archive:
            for info, data in self._entries:
                archive.addfile(info, io.BytesIO(data))
        self._entries = []
        self.mirror.engine.put(self.mirror.container, "/", buffer.getvalue())


def _is_own(path: str) -> bool:
    return path == LEDGER_DIR or path.startswith(f"{LEDGER_DIR}/")


def _is_temp(path: str) -> bool:
    """Whether the path is, or is in, one of the names under which new files wait."""
    return any(part.startswith(".patchkit-") and part.endswith(".tmp") for part in path.split("/"))
