"""Where an image's pristine files come from: the releases its components name, or one source for this run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from patchkit.sources.open import open_http, open_source

if TYPE_CHECKING:
    from patchkit.core.tree import FileState
    from patchkit.io.http import Http
    from patchkit.sources.base import Source
    from patchkit.sources.cache import Cache

Progress = Callable[[int, "int | None"], None]


@dataclass(slots=True)
class Traffic:
    """Counts what all HTTP sessions of a run received, in bytes of bodies as on the wire."""

    sessions: list[Http] = field(default_factory=list)

    def open(self, *, ca_bundle: str | None = None) -> Http:
        """Open a session that is counted."""
        http = open_http(ca_bundle=ca_bundle)
        self.sessions.append(http)
        return http

    @property
    def bytes_received(self) -> int:
        """The bytes received so far."""
        return sum(session.bytes_received for session in self.sessions)


class Pristine:
    """Several sources read as one tree: the first that holds a path answers. A context manager."""

    def __init__(self, specs: tuple[str, ...], *, site: tuple[str, ...], platform: str, cache: Cache) -> None:
        self.traffic = Traffic()
        self.sources: list[Source] = []
        try:
            for spec in specs:
                self.sources.append(
                    open_source(spec, site=site, platform=platform, cache=cache, http_factory=self.traffic.open)
                )
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Pristine:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Give back files and connections."""
        for source in self.sources:
            source.close()

    def read(self, path: str) -> FileState | None:
        """What the first source that holds `path` has there; None where none does (Tree.read)."""
        for source in self.sources:
            state = source.read(path)
            if state is not None:
                return state
        return None
