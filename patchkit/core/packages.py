"""The packages that the interpreter of a site has: read from `*.dist-info/METADATA` on its path, nothing is imported.

What an old setuptools or Debian has installed says the same in `*.egg-info`, a folder or a file.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from functools import lru_cache
from typing import TYPE_CHECKING

from patchkit.core import runs
from patchkit.core.errors import RefusedByMachineError

if TYPE_CHECKING:
    from patchkit.core.site import Site

_OWNED = re.compile(r"(.*)/lib/python(\d+\.\d+)/(?:site|dist)-packages")
_LETTERS = {"alpha": "a", "beta": "b", "c": "rc", "pre": "rc", "preview": "rc", "rev": "post", "r": "post"}


def interpreter(site: Site) -> str:
    """The Python that owns the site: PREFIX/bin/pythonX.Y of PREFIX/lib/pythonX.Y/..., else the running one.

    Raises RefusedByMachineError where the site is of another version than the running one and has none.
    """
    match = _OWNED.fullmatch(os.path.realpath(site.path))
    if match is None:
        return sys.executable
    found = f"{match[1]}/bin/python{match[2]}"
    if os.access(found, os.X_OK):
        return found
    if match[2] == f"{sys.version_info[0]}.{sys.version_info[1]}":
        return sys.executable
    other = shutil.which(f"python{match[2]}")
    if other is None:
        raise RefusedByMachineError(
            f"{site.path}: there is no {found} and no python{match[2]} to install packages with",
            hint="run it inside the container that the site belongs to",
        )
    return other


@lru_cache(maxsize=8)
def path_of(python: str, site: Site) -> tuple[str, ...]:
    """The site and the module path of `python`, in the order in which packages are found."""
    ended = runs.execute([python, "-I", "-c", "import sys; print('\\n'.join(sys.path))"], site, env={}, timeout=60)
    if ended.status != 0:
        raise RefusedByMachineError(f"{python}: it does not start: {ended.why}{ended.last_lines}")
    return tuple(dict.fromkeys([site.path, *(p for p in ended.output.splitlines() if os.path.isdir(p))]))


def normal(name: str) -> str:
    """A package's name as indexes compare it, without extras."""
    return re.sub(r"[-_.]+", "-", name.partition("[")[0]).lower()


def pin(requirement: str) -> tuple[str, str]:
    """The normal name and the version of `NAME==VERSION`."""
    name, _, version = requirement.partition("==")
    return normal(name), version


def same_version(wanted: str, found: str | None) -> bool:
    """Whether `found` is the version that `==wanted` means: a build (`+cpu`) only where `wanted` names one."""
    if found is None:
        return False
    one, other = _canonical(wanted), _canonical(found)
    return one == other or (not one[1] and one[0] == other[0])


def _canonical(version: str) -> tuple[str, str]:
    public, _, local = version.lower().strip().removeprefix("v").partition("+")
    public = re.sub(r"[-_.]?([a-z]+)[-_.]?", lambda m: _LETTERS.get(m[1], m[1]), public)
    release = re.match(r"(?:\d+!)?[\d.]*", public)
    head = release[0] if release is not None else ""
    return re.sub(r"(?:\.0+)+$", "", head.rstrip(".")) + public[len(head) :], re.sub(r"[-_]", ".", local)


def installed(site: Site) -> dict[str, str]:
    """Every package on the interpreter's path: normal name to version."""
    found: dict[str, str] = {}
    for folder in path_of(interpreter(site), site):
        for name, (version, _) in in_folder(folder).items():
            found.setdefault(name, version)
    return found


def in_folder(folder: str) -> dict[str, tuple[str, str]]:
    """The packages in one folder: normal name to (version, path of the dist-info, or egg-info)."""
    found: dict[str, tuple[str, str]] = {}
    try:
        names = sorted(os.listdir(folder), reverse=True)
    except OSError:
        return {}
    for ending in (".egg-info", ".dist-info"):  # the latter counts where a folder has both
        found.update(_named(folder, [name for name in names if name.endswith(ending)]))
    return found


def _named(folder: str, names: list[str]) -> dict[str, tuple[str, str]]:
    found = {}
    for name in names:
        path = f"{folder}/{name}/METADATA"
        if name.endswith(".egg-info"):
            path = f"{folder}/{name}/PKG-INFO" if os.path.isdir(f"{folder}/{name}") else f"{folder}/{name}"
        try:
            with open(path, encoding="utf-8", errors="replace") as stream:
                head = dict(re.findall(r"^(Name|Version): *(\S+)", stream.read(4096), re.MULTILINE))
            found[normal(head["Name"])] = (head["Version"], f"{folder}/{name}")
        except (OSError, KeyError):  # a torn installation is none
            continue
    return found


def installer_of(info: str) -> str:
    """What installed the package whose dist-info folder is `info`; empty where that is not told."""
    try:
        with open(f"{info}/INSTALLER", encoding="utf-8", errors="replace") as stream:
            return stream.read().strip()
    except FileNotFoundError:
        return ""
