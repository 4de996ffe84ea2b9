"""Managed roots: `.patchkit/roots/NAME`, made by patchkit from the lock's sources.

A managed root holds the files that the stack reads or writes and the identity file, nothing else.
Beside it `NAME.json` records what was put there, so that a root made for older sources is renewed
where nobody has touched it, and a missing file is added when the stack grows.
"""

from __future__ import annotations

import json
import os
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING

from patchkit.core.errors import ConfigError, DriftError, UnreachableError
from patchkit.core.lockfile import FileRef, Lock, pristine_refs
from patchkit.core.site import machine_says
from patchkit.core.tree import LINK, FileState
from patchkit.sources.cache import Cache

if TYPE_CHECKING:
    from patchkit.app.pristine import Pristine
    from patchkit.app.project import Project


@dataclass(frozen=True, slots=True, kw_only=True)
class ManagedRoot:
    """A managed root that is ready: its path, its site below it, what was fetched for it."""

    path: str
    site: str
    notes: tuple[str, ...] = ()


def site_of(lock: Lock) -> str:
    """The site of a managed root: the first of the image's sites that is no glob. Raises ConfigError."""
    for pattern in lock.image.site:
        if not any(c in pattern for c in "*?["):
            return pattern
    raise ConfigError(
        f"images/{lock.image.name}.yaml: every site is a glob, so a managed root has none",
        hint="name one: --site PATH; or a real root: --root DIR",
    )


def needed(lock: Lock) -> dict[str, FileRef]:
    """The files that a managed root holds: path below the site to state."""
    refs = {**lock.support, **pristine_refs(lock.steps)}
    return {path: ref for path, ref in refs.items() if ref is not None}


def ensure(project: Project, lock: Lock, site: str | None = None) -> ManagedRoot:
    """Make or complete the managed root of `lock`'s image.

    Reads pristine bytes from the cache, else from the lock's sources. Raises UnreachableError where
    they cannot be had, DriftError where a file of older sources was changed by hand.
    """
    path = project.managed_root(lock.image.name)
    inside = site or site_of(lock)
    base = os.path.join(path, inside)
    placed = _placed(path)
    wanted = needed(lock)
    absent = {p: ref for p, ref in wanted.items() if placed.get(p) != ref.sha256 or not os.path.isdir(base)}
    if not absent:
        return ManagedRoot(path=path, site=inside)
    there = [p for p in absent if os.path.lexists(os.path.join(base, p))]
    outdated = [p for p in there if p in placed]
    notes = _renew(path, base, outdated, placed) if outdated else ()
    # a file that is there and in no record is left alone: apply holds it against the lock
    contents, received = _contents(lock, {p: ref for p, ref in absent.items() if p not in there or p in outdated})
    if received:
        notes = (*notes, f"fetched {len(contents)} pristine files: {received / 1e6:.2f} MB received")
    with machine_says(f"cannot make the managed root {path}"):
        for relative, (ref, data) in contents.items():
            _put(os.path.join(base, relative), ref, data)
        placed.update({p: ref.sha256 for p, ref in absent.items()})
        _record(path, placed)
    return ManagedRoot(path=path, site=inside, notes=notes)


def _placed(path: str) -> dict[str, str]:
    """What was put into the root by its record; nothing where the root is gone."""
    if not os.path.isdir(path):
        return {}
    try:
        with open(f"{path}.json", "rb") as stream:
            files = json.load(stream)["files"]
    except (OSError, ValueError, KeyError, TypeError):
        return {}
    return {str(p): str(digest) for p, digest in files.items()} if isinstance(files, dict) else {}


def _record(path: str, placed: dict[str, str]) -> None:
    temp = f"{path}.json.tmp"
    with open(temp, "w", encoding="ascii") as stream:
        json.dump({"format": 1, "files": dict(sorted(placed.items()))}, stream, indent=1)
    os.replace(temp, f"{path}.json")


def _renew(path: str, base: str, outdated: list[str], placed: dict[str, str]) -> tuple[str, ...]:
    """Take an applied stack off a root whose sources have changed, and see that nobody edited it."""
    from patchkit.core.holding import read_ledger
    from patchkit.core.operate import Target, revert
    from patchkit.core.site import Site

    hint = f"if nothing in it matters: rm -r {path}, then run it again"
    with Site(base) as site:
        ledger = read_ledger(site)
        if ledger is not None:
            report = revert(ledger.image, Target(site=site, label=path, managed=True))
            if report.error is not None:
                raise DriftError(*report.error.problems, hint=hint)
        for relative in outdated:
            state = site.read(relative)
            if state is not None and state.sha256 != placed[relative]:
                raise DriftError(
                    f"{base}/{relative}: the lock's sources have changed, and so has this file by hand", hint=hint
                )
    return ("the managed root was renewed: the lock's sources have changed",)


def _contents(lock: Lock, wanted: dict[str, FileRef]) -> tuple[dict[str, tuple[FileRef, bytes]], int]:
    """The bytes of `wanted`, from the cache, else from the lock's sources, checked against the lock;
    and how many bytes came over the network."""
    cache = Cache()
    found: dict[str, tuple[FileRef, bytes]] = {}
    pristine: Pristine | None = None
    with ExitStack() as stack:
        for path, ref in wanted.items():
            data = cache.blob(ref.sha256)
            if data is None:
                if pristine is None:
                    pristine = stack.enter_context(_open(lock, cache))
                data = _checked(lock, path, ref, pristine.read(path))
                cache.add(data)
            found[path] = (ref, data)
    return found, 0 if pristine is None else pristine.traffic.bytes_received


def _open(lock: Lock, cache: Cache) -> Pristine:
    from patchkit.app.pristine import Pristine  # the network is needed only on a cold cache

    specs = tuple(source.spec for source in lock.sources)
    return Pristine(specs, site=lock.image.site, platform=lock.image.platform, cache=cache)


def _checked(lock: Lock, path: str, ref: FileRef, state: FileState | None) -> bytes:
    sources = ", ".join(source.spec for source in lock.sources) or "(the lock names no source)"
    if state is None or state.kind != ref.kind:
        raise UnreachableError(
            f"{path}: none of the lock's sources holds it: {sources}", hint=f"patchkit lock --image {lock.image.name}"
        )
    if state.sha256 != ref.sha256:
        raise ConfigError(
            f"{path}: expected sha256 {ref.sha256} from {sources}, found {state.sha256}",
            hint=f"the source has changed since it was locked; patchkit lock --image {lock.image.name}",
        )
    return state.data


def _put(path: str, ref: FileRef, data: bytes) -> None:
    os.makedirs(os.path.dirname(path), exist_ok=True)
    temp = os.path.join(os.path.dirname(path), f".patchkit-new-{os.getpid()}")
    if os.path.lexists(temp):
        os.unlink(temp)
    if ref.kind == LINK:
        os.symlink(data, os.fsencode(temp))
    else:
        with open(temp, "wb") as stream:
            stream.write(data)
        os.chmod(temp, 0o755 if ref.mode & 0o100 else 0o644)
    os.replace(temp, path)
