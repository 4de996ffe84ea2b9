"""Where everything of one change goes: temporary names, new directories, directories that go.

New files wait beside their targets under temporary names. Where a directory is missing, too, the
whole new directory waits beside its place, with its files in it, so that one rename puts it there:
even in the place of a file that the same change removes.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from patchkit.core import files
from patchkit.core.errors import DriftError
from patchkit.core.ledger import KeptDir, Ledger
from patchkit.core.paths import parents

if TYPE_CHECKING:
    from patchkit.core.ledger import Kept, LedgerFile
    from patchkit.core.site import Site


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """One file's change: from what is on disk (`before`) to `after` with the bytes `data`."""

    path: str
    before: Kept | None
    after: Kept | None
    data: bytes = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """`temps`: each written path's temporary name; `new_dirs`: (temporary name, what it is to be),
    outermost first; `moves`: the renames; `rmdirs`: directories to remove, innermost first;
    `created` and `removed` are the ledger's record after the change."""

    temps: dict[str, str] = field(default_factory=dict)
    new_dirs: tuple[tuple[str, KeptDir | None], ...] = ()
    moves: tuple[tuple[str, str], ...] = ()
    rmdirs: tuple[str, ...] = ()
    created: tuple[str, ...] = ()
    removed: tuple[KeptDir, ...] = ()


def lay_out(site: Site, operations: list[Operation], old: Ledger | None, new: Ledger | None) -> Layout:
    """The layout of the change from `old` to `new`. Raises DriftError where a directory that holds
    somebody else's files stands where a file is to go."""
    dirs = _Directories(site, old, new.files if new is not None else {})
    created, removed = dirs.created(), dirs.removed()
    going = set(dirs.made) - set(created) | ({d.path for d in removed} - set(dirs.gone))
    rmdirs = sorted((d for d in going if files.is_dir(site, d)), key=lambda d: (-d.count("/"), d))
    temps, new_dirs, moves = _stage(site, operations, dirs.gone)
    _require_free(site, operations, moves, set(rmdirs))
    return Layout(
        temps=temps,
        new_dirs=tuple(new_dirs),
        moves=tuple(moves),
        rmdirs=tuple(rmdirs),
        created=tuple(created),
        removed=tuple(removed),
    )


class _Directories:
    """Which directories a set of files makes and empties, against the pristine tree: on disk stands
    what the old ledger made of it (`made` and `gone` are its directories)."""

    def __init__(self, site: Site, old: Ledger | None, new_files: dict[str, LedgerFile]) -> None:
        self.site = site
        self.old_files = old.files if old is not None else {}
        self.made = old.dirs_created if old is not None else ()
        self.gone = {d.path: d for d in old.dirs_removed} if old is not None else {}
        self.new_files = new_files
        self.needed = {d for path, file in new_files.items() if file.after is not None for d in parents(path)}

    def created(self) -> list[str]:
        """The directories that the new files need and the pristine tree has not, outermost first."""
        return sorted(d for d in self.needed if not self._was_dir(d))

    def removed(self) -> list[KeptDir]:
        """The pristine directories that the new files leave empty, innermost first."""
        found: dict[str, KeptDir] = {}
        leaving = {p for p, file in self.new_files.items() if file.before is not None and file.after is None}
        for directory in sorted({d for p in leaving for d in parents(p)}, key=lambda d: (-d.count("/"), d)):
            inside = self._pristine_entries(directory)
            if directory not in self.needed and all(p in leaving or p in found for p in inside):
                found[directory] = self.gone.get(directory) or self._as_it_is(directory)
        return list(found.values())

    def _was_dir(self, path: str) -> bool:
        return path in self.gone or (path not in self.made and files.is_dir(self.site, path))

    def _pristine_entries(self, directory: str) -> set[str]:
        """What the pristine directory holds, byte-code aside."""
        inside = {f"{directory}/{name}" for name in files.entries(self.site, directory) if name != "__pycache__"}
        inside = {p for p in inside if p not in self.made and p not in self.old_files}
        known = [path for path, file in self.old_files.items() if file.before is not None]
        return inside | {p for p in (*known, *self.gone) if p.rpartition("/")[0] == directory}

    def _as_it_is(self, directory: str) -> KeptDir:
        status = self.site.lstat(directory)
        assert status is not None
        return KeptDir(path=directory, mode=status.st_mode & 0o7777, uid=status.st_uid, gid=status.st_gid)


def _stage(
    site: Site, operations: list[Operation], gone: dict[str, KeptDir]
) -> tuple[dict[str, str], list[tuple[str, KeptDir | None]], list[tuple[str, str]]]:
    temps: dict[str, str] = {}
    new_dirs: dict[str, str] = {}
    moves: list[tuple[str, str]] = []
    number = 0
    for path in sorted(op.path for op in operations if op.after is not None):
        above = parents(path)[::-1]
        for directory in above:
            if directory in new_dirs or files.is_dir(site, directory):
                continue
            outer = new_dirs.get(directory.rpartition("/")[0])
            if outer is None:
                number, new_dirs[directory] = _free_name(site, directory, number)
                moves.append((new_dirs[directory], directory))
            else:
                new_dirs[directory] = f"{outer}/{directory.rpartition('/')[2]}"
        waiting = new_dirs.get(above[-1]) if above else None
        if waiting is None:
            number, temps[path] = _free_name(site, path, number)
            moves.append((temps[path], path))
        else:
            temps[path] = f"{waiting}/{path.rpartition('/')[2]}"
    return temps, [(temp, gone.get(directory)) for directory, temp in new_dirs.items()], moves


def _free_name(site: Site, path: str, number: int) -> tuple[int, str]:
    """A temporary name beside `path` that nothing has, counted on from `number`."""
    folder = path.rpartition("/")[0]
    while True:
        number += 1
        name = f"{folder}/.patchkit-{number}.tmp" if folder else f".patchkit-{number}.tmp"
        if site.lstat(name) is None:
            return number, name


def _require_free(site: Site, operations: list[Operation], moves: list[tuple[str, str]], rmdirs: set[str]) -> None:
    leaving = {op.path for op in operations if op.after is None}
    compiled = {entry for path in leaving for entry in files.bytecode(site, path)}

    def empties(directory: str) -> bool:
        for name in files.entries(site, directory):
            inside = f"{directory}/{name}"
            goes = inside in leaving or inside in compiled
            if not goes and not ((inside in rmdirs or name == "__pycache__") and empties(inside)):
                return False
        return True

    for _, target in moves:
        if files.is_dir(site, target) and not empties(target):
            raise DriftError(
                f"{site.path}/{target}: a file is to stand here, and a directory with files of"
                " somebody else's is in its place",
                hint="move those files away, then run the same command again",
            )
