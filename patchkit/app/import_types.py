"""What an import makes of a script: steps, what it left behind on purpose, what needs a person."""

from __future__ import annotations

import fnmatch
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


def places(lines: Iterable[int]) -> str:
    """Lines of a script as messages name them: `line 9`, `lines 9, 10`."""
    found = tuple(dict.fromkeys(lines))
    return f"line{'' if len(found) == 1 else 's'} {', '.join(map(str, found))}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """A step to be: `body` is its kind with its values as YAML has them; `patch` the bytes of its patch file.

    `hint` is what its id is made from, `origin` an address that the body does not hold, `key` what says
    that two drafts do the same.
    """

    lines: tuple[int, ...]
    body: Mapping[str, Any]
    hint: str
    paths: tuple[str, ...] = ()
    patch: bytes | None = None
    file_name: str = ""
    upstream: tuple[str, ...] = ()
    what: str = ""
    origin: str = ""

    @property
    def key(self) -> tuple[object, ...]:
        """Equal for drafts that do the same."""
        body = {name: value for name, value in self.body.items() if self.patch is None or name != "patch"}
        return (repr(sorted(body.items())), self.patch, self.upstream, self.origin)


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """Something that was not translated: where, why, and what a person does about it."""

    line: int
    code: str
    message: str
    fix: str
    calls: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Dropped:
    """Something that the script does and the stack does not, on purpose."""

    line: int
    what: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """What the whole script says for each of its commands: the sha256 that it demands by path, the folders it makes."""

    sums: Mapping[str, str]
    folders: frozenset[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """An absolute directory seen from the site: `below` is the way from the site to it, `above` the number of
    leading parts of a name that lead from it into the site."""

    below: str = ""
    above: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteView:
    """The image's site as a script sees it: the globs are taken from the root of the file system."""

    globs: tuple[str, ...]

    def place(self, path: str) -> Place | None:
        """Where an absolute directory lies; None where it is neither in the site nor above it."""
        parts = [part for part in path.split("/") if part]
        for glob in self.globs:
            wanted = glob.split("/")
            common = min(len(parts), len(wanted))
            if not all(map(fnmatch.fnmatchcase, parts[:common], wanted[:common])):
                continue
            if len(parts) >= len(wanted):
                return Place(below="/".join(parts[len(wanted) :]))
            return Place(above=tuple(wanted[len(parts) :]))
        return None

    def relative(self, path: str | None) -> str | None:
        """The path in the site that an absolute path is; None where it lies elsewhere."""
        found = None if path is None else self.place(path)
        return found.below if found is not None and not found.above and found.below else None

    @property
    def shown(self) -> str:
        """The site as messages name it."""
        return " or ".join(f"/{glob}" for glob in self.globs)
