"""Keeps an installed package before pip replaces it: packed as a wheel beside the ledger, to come back to without
a network."""

from __future__ import annotations

import csv
import os
import zipfile

from patchkit.core.ledger import PACKAGES, kept_package

_NOT_PACKED = {"RECORD", "INSTALLER", "REQUESTED", "direct_url.json"}
_WHEEL = "Wheel-Version: 1.0\nGenerator: patchkit\nRoot-Is-Purelib: true\nTag: py3-none-any\n"


def path_of(site: str, name: str, version: str) -> str:
    """Where the package is kept below the site's ledger."""
    return f"{site}/{PACKAGES}/{kept_package(name, version)}"


def place(path: str) -> str:
    """`path`, with links on the way to it resolved."""
    folder, name = os.path.split(path)
    return os.path.join(os.path.realpath(folder), name)


def keep(site: str, name: str, version: str, info: str, pristine: dict[str, bytes | None]) -> bool:
    """Pack the package whose dist-info folder is `info`; whether it could be: one without a RECORD cannot.

    `pristine` are the bytes of patched files before the patch, by their `place` (None: not there).
    Scripts are made anew from its entry points when it comes back; other files outside its folder are not kept.
    """
    kept = path_of(site, name, version)
    if os.path.exists(kept):
        return True
    try:
        with open(f"{info}/RECORD", encoding="utf-8", newline="") as stream:
            rows = [row for row in csv.reader(stream) if row]
    except (FileNotFoundError, NotADirectoryError):
        return False
    folder, dist = os.path.split(info)
    target = f"{name.replace('-', '_')}-{version.replace('-', '_')}.dist-info"
    os.makedirs(os.path.dirname(kept), exist_ok=True)
    lines = []
    with zipfile.ZipFile(f"{kept}.tmp", "w", zipfile.ZIP_STORED) as archive:
        for path, *_ in rows:
            inside = path.startswith(f"{dist}/")
            outside = path.startswith(("../", "/")) or path.endswith(".pyc")
            if outside or (inside and path[len(dist) + 1 :] in _NOT_PACKED):
                continue
            name_there, real = target + path[len(dist) :] if inside else path, place(f"{folder}/{path}")
            known = pristine.get(real)
            if known is not None:
                archive.writestr(name_there, known)
            elif real not in pristine and os.path.isfile(real):
                archive.write(real, name_there)
            else:
                continue
            lines.append(f'"{name_there}",,\n')
        if f"{target}/WHEEL" not in archive.namelist():
            archive.writestr(f"{target}/WHEEL", _WHEEL)
            lines.append(f'"{target}/WHEEL",,\n')
        archive.writestr(f"{target}/RECORD", "".join([*lines, f'"{target}/RECORD",,\n']))
    with open(f"{kept}.tmp", "rb") as stream:
        os.fsync(stream.fileno())
    os.replace(f"{kept}.tmp", kept)
    return True
