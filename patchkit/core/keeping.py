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


def keep(site: str, name: str, version: str, info: str) -> bool:
    """Pack the package whose dist-info folder is `info`; whether it could be: one without a RECORD cannot.

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
            if outside or (inside and path[len(dist) + 1 :] in _NOT_PACKED) or not os.path.isfile(f"{folder}/{path}"):
                continue
            name_there = target + path[len(dist) :] if inside else path
            archive.write(f"{folder}/{path}", name_there)
            lines.append(f'"{name_there}",,\n')
        if f"{target}/WHEEL" not in archive.namelist():
            archive.writestr(f"{target}/WHEEL", _WHEEL)
            lines.append(f'"{target}/WHEEL",,\n')
        archive.writestr(f"{target}/RECORD", "".join([*lines, f'"{target}/RECORD",,\n']))
    with open(f"{kept}.tmp", "rb") as stream:
        os.fsync(stream.fileno())
    os.replace(f"{kept}.tmp", kept)
    return True
