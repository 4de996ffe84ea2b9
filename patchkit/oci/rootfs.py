"""The root file system of an image, read from its layers, the top one first, and no more of them than needed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from patchkit.oci.entries import Entry, Kind, parents_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from patchkit.oci.scan import LayerIndex
    from patchkit.oci.types import Descriptor

_MAX_LINKS = 40


class Indexes(Protocol):
    """Where the index of a layer comes from: a scan, or what an earlier one has left."""

    def __call__(self, layer: Descriptor, wanted: frozenset[str]) -> LayerIndex:
        """Return the layer's index; the entries of the files in `wanted` that are in it carry their content."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What stands at a path: `path` is where it really is (no link on the way), `layer` the digest it comes from.

    `parents` are the directories above, the uppermost first; one that no layer has an entry for is root's, 0755.
    """

    asked: str
    path: str
    entry: Entry
    layer: str
    parents: tuple[Entry, ...]


class RootFs:
    """The layers of an image, the lowest first, as one tree. Content is there for the paths that are `wanted`.

    A layer is read only when the ones above it leave a question open.
    """

    def __init__(self, layers: Sequence[Descriptor], indexes: Indexes, wanted: Iterable[str] = ()) -> None:
        self._layers = tuple(reversed(layers))
        self._indexes = indexes
        self._wanted = frozenset(wanted)
        self._known: list[LayerIndex] = []

    @property
    def read(self) -> int:
        """How many layers had to be read so far."""
        return len(self._known)

    def find(self, path: str) -> Found | None:
        """Return what stands at `path`, links on the way followed, itself not; None where nothing does.

        Where a link turns out to be on the way, the layers are read again for the content of what it leads to.
        Raises ValueError for links that lead in a circle or out of the root.
        """
        asked, links = path, 0
        while True:
            link = next((entry for part in parents_of(path) if (entry := self._link_at(part)) is not None), None)
            if link is None:
                break
            links += 1
            if links > _MAX_LINKS:
                raise ValueError(f"{asked}: links on the way lead in a circle")
            path = _led(link) + path[len(link.path) :]
            self._want(path)
        found = self._at(path)
        if found is None:
            return None
        parents = tuple(self._directory(part) for part in parents_of(path))
        return Found(asked=asked, path=path, entry=found[0], layer=found[1], parents=parents)

    def children(self, folder: str, *, further: bool = True) -> tuple[str, ...]:
        """Return the paths right in a directory. This reads every layer; not `further`: those that were read say it."""
        names = set()
        for number in range(len(self._layers) if further else self.read):
            for path in self._index(number).entries:
                if path.rpartition("/")[0] == folder:
                    names.add(path)
        return tuple(sorted(name for name in names if self._at(name) is not None))

    def _want(self, path: str) -> None:
        if self._wanted and path not in self._wanted:
            self._wanted |= {path}
            self._known = [
                index
                if (entry := index.entries.get(path)) is None or entry.data is not None or entry.kind is not Kind.FILE
                else self._scanned(number)
                for number, index in enumerate(self._known)
            ]

    def _index(self, number: int) -> LayerIndex:
        while len(self._known) <= number:
            self._known.append(self._scanned(len(self._known)))
        return self._known[number]

    def _scanned(self, number: int) -> LayerIndex:
        """Return a layer's index; a second time, where a wanted file is a hard link and its content elsewhere."""
        index = self._indexes(self._layers[number], self._wanted)
        shown = (index.entries.get(path) for path in self._wanted)
        elsewhere = frozenset(entry.target for entry in shown if entry and entry.split and entry.data is None)
        return self._indexes(self._layers[number], self._wanted | elsewhere) if elsewhere else index

    def _link_at(self, path: str) -> Entry | None:
        found = self._at(path)
        return found[0] if found is not None and found[0].kind is Kind.LINK else None

    def _directory(self, path: str) -> Entry:
        found = self._at(path)
        if found is None or found[0].kind is not Kind.DIRECTORY:
            return Entry(path=path, kind=Kind.DIRECTORY, mode=0o755)
        return found[0]

    def _at(self, path: str) -> tuple[Entry, str] | None:
        """Return the entry at exactly `path` and the layer it is from: the topmost that says anything of it."""
        above = tuple(parents_of(path))
        implied = ""
        for number, layer in enumerate(self._layers):
            index = self._index(number)
            entry = index.entries.get(path)
            if entry is not None and not (implied and entry.kind is not Kind.DIRECTORY):
                return entry, layer.digest
            if entry is not None:
                break
            if path in index.implied:
                implied = implied or layer.digest
            if path in index.deleted or "" in index.opaque:
                break
            if any(part in index.deleted or part in index.opaque for part in above):
                break
            if any((part := index.entries.get(name)) and part.kind is not Kind.DIRECTORY for name in above):
                break
        return (Entry(path=path, kind=Kind.DIRECTORY, mode=0o755), implied) if implied else None


def _led(link: Entry) -> str:
    """Return the path that a symbolic link leads to. Raises ValueError where that is outside of the root."""
    base = [] if link.target.startswith("/") else link.path.split("/")[:-1]
    for part in link.target.split("/"):
        if part == "..":
            if not base:
                raise ValueError(f"{link.path}: a link out of the root, to {link.target}")
            base.pop()
        elif part not in ("", "."):
            base.append(part)
    if not base:
        raise ValueError(f"{link.path}: a link to the root itself, {link.target}")
    return "/".join(base)
