"""From what the user writes to the source that it names."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

from patchkit.core.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable

    from patchkit.io.http import Http
    from patchkit.sources.base import HttpFactory, Source
    from patchkit.sources.cache import Cache

_RELEASE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*==.+")
_PYTHON = re.compile(r"(?:^|/)python(\d)\.(\d+)(?:/|$)")
FORMS = (
    "a release on the package index: NAME==VERSION (vllm==0.33.0)",
    "a commit in a local clone: git:DIR@REV (git:../vllm@c50aca144)",
    "a directory: the target's root, or the site itself (./root)",
)


def open_http(*, ca_bundle: str | None = None) -> Http:
    """Return a new HTTP session; the HTTP library is imported now and not before.

    PATCHKIT_TIMEOUT says how many seconds a server may be silent (30). Raises ConfigError where that is no number.
    """
    from patchkit.io.http import Http

    given = os.environ.get("PATCHKIT_TIMEOUT", "")
    if not given:
        return Http(ca_bundle=ca_bundle)
    if not re.fullmatch(r"[0-9]+(?:\.[0-9]+)?", given) or float(given) == 0:
        raise ConfigError(f"PATCHKIT_TIMEOUT: expected a number of seconds, found {given}", hint="PATCHKIT_TIMEOUT=60")
    return Http(ca_bundle=ca_bundle, connect_timeout=min(10.0, float(given)), read_timeout=float(given))


def open_source(
    spec: str,
    *,
    site: tuple[str, ...],
    platform: str | None,
    cache: Cache,
    http_factory: HttpFactory = open_http,
    progress: Callable[[int, int | None], None] | None = None,
) -> Source:
    """Return the source that `spec` names, in one of `FORMS`; the caller closes it.

    `site` is the image's list of globs, `platform` its platform (`linux/amd64`). Nothing is asked
    of the network before the first read. Raises `ConfigError` for an unknown form (it lists the
    known ones), a directory that is none, and an unknown revision.
    """
    if spec.startswith("git:"):
        from patchkit.sources.git import GitSource

        directory, revision = _split_revision(spec)
        return GitSource(directory, revision)
    if _RELEASE.fullmatch(spec):
        from patchkit.sources.index import IndexSource

        return IndexSource(
            spec,
            platform=platform,
            cache=cache,
            http_factory=http_factory,
            python=python_of(site),
            progress=progress,
        )
    if "/" in spec or spec in (".", "..") or os.path.isdir(spec):
        from patchkit.sources.directory import DirectorySource

        return DirectorySource(spec, site=site)
    raise ConfigError(
        f"source {spec!r}: expected one of\n" + "\n".join(f"  {form}" for form in FORMS),
        hint="correct the source; a directory in the current one is ./NAME",
    )


def _split_revision(spec: str) -> tuple[str, str]:
    """Return directory and revision of `git:DIR@REV`; `@{` belongs to the revision (`main@{1}`)."""
    match = re.fullmatch(r"git:(.+?)@((?:[^@]|@\{)+)", spec)
    if match is None:
        raise ConfigError(f"source {spec!r}: expected git:DIR@REV", hint="name the revision: git:DIR@HEAD")
    return match[1], match[2]


def python_of(site: tuple[str, ...]) -> tuple[int, int] | None:
    """Return the Python version that all of the site's globs name, or None."""
    found = {(int(m[1]), int(m[2])) for m in map(_PYTHON.search, site) if m is not None}
    return found.pop() if len(found) == 1 else None
