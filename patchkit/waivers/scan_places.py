"""Which part of the serving stack a path means. Paths may hold `${NAME}` where a value is not known."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, TypeAlias

from patchkit.waivers import exempt
from patchkit.waivers.exempt import words

Where: TypeAlias = Literal["installed", "tree", "scratch", "unknown", "elsewhere"]

#: Stands for the site directory that a script asks the interpreter for.
SITE = "/usr/local/lib/python3/dist-packages"
#: Stands for the folder that the scanned file lies in.
HERE = "/__here__"

_SITES = ("site-packages", "dist-packages")
_HOLE = re.compile(r"\$\{[^}]*\}|\$\([^)]*\)|\$\w+")
_SITE_NAME = re.compile(
    r"(?:^|_)(?:SITE_?PACKAGES?|DIST_?PACKAGES|SITE_?DIR|SITE_?PKGS?|PURELIB|PLATLIB|PY_?SITE|SITE|PKG_?DIR)(?:_|$)",
    re.IGNORECASE,
)
_ROOT_WORD = words("DIR ROOT PATH HOME SRC PKG LOC LOCATION INSTALL BASE LIB SITE PACKAGE FOLDER REPO")
_DATA_WORD = words("LOG LOGS CACHE CONFIG RESULT RESULTS OUT OUTPUT MODEL MODELS DATA TMP BENCH BENCHMARK")
_CODE = re.compile(
    r"\.(?:pyi?|pyx|so[\d.]*|cu|cuh|hip|h|hpp|hh|cpp|cc|c|co|hsaco|s|inc|pth|cxx|whl|patch|ptx|cubin)$", re.IGNORECASE
)
_CONFIG = re.compile(r"\.(?:json|csv|ya?ml|toml|txt|jinja)$", re.IGNORECASE)
_SCRATCH = words(
    "tmp var log logs results result output outputs out data models model cache .cache backup backups bak hf_cache"
    " artifacts mnt scratch media dev proc sys run etc .triton share tmp_build nfs"
)
_CLIENT = words("benchmarks benchmark tests test docs doc examples example .buildkite .github recipes logs log results")
_IMAGE = frozenset(("app", "opt", "usr", "vllm-workspace", "sgl-workspace", "workspace", "root"))
_ROOTS = frozenset(("vllm-workspace", "sgl-workspace"))


_LONGEST = 4096  # no path is longer


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a path lies; `name` is the package, `shown` the path as findings name it."""

    where: Where
    name: str
    shown: str

    @property
    def code(self) -> bool:
        """Whether the path is one of a file that the stack executes."""
        if _CODE.search(self.shown) is not None or self.where == "installed":
            return True
        below = self.shown.rsplit(self.name, 1)[-1]
        return _CONFIG.search(below) is not None and "/configs/" in below


@lru_cache(maxsize=20_000)
def place(path: str) -> Place:
    """Where `path` lies. `unknown`: its directory is not known, and nothing in it names the stack."""
    if len(path) > _LONGEST:
        return Place(where="elsewhere", name="", shown=path[:80])
    path = _hinted(path.strip())
    holes = list(_HOLE.finditer(path))
    rest = path[holes[-1].end() :] if holes else path
    absolute = path.startswith("/") and not holes
    full = [part for part in _HOLE.sub("", path).split("/") if part not in ("", ".")]
    parts = [part for part in rest.split("/") if part not in ("", ".")]
    shown = "/".join(parts) if not absolute else path
    if "debian" in full[:-1] or full[:1] == ["DEBIAN"]:
        return Place(where="elsewhere", name="", shown=shown)
    found = _in_site(full, absolute=absolute) or _in_image(full, path, absolute=absolute)
    if found is not None:
        return found
    return Place(where="elsewhere" if absolute else "unknown", name="", shown=shown or path)


def _hinted(path: str) -> str:
    """Replace a variable whose name says what it holds: `$SITE_PACKAGES`, `$VLLM_DIR`."""
    holes = list(_HOLE.finditer(path))
    for hole in reversed(holes):
        name = re.sub(r"[${}()]", "", hole[0])
        if path[hole.end() : hole.end() + 1] not in ("", "/"):
            continue
        if not re.fullmatch(r"\w+", name):
            continue
        words = name.upper().split("_")
        engines = [word for word in words if exempt.engine(word)]
        if _DATA_WORD & set(words):
            continue
        if engines and (_ROOT_WORD & set(words) or len(words) == 1) and "SITE" not in words:
            return f"{SITE}/{engines[0].lower()}{path[hole.end() :]}"
        if _SITE_NAME.search(name):
            return f"{SITE}{path[hole.end() :]}"
    return path


def _in_site(parts: list[str], *, absolute: bool) -> Place | None:
    """What lies below site-packages or dist-packages."""
    at = max((at for at, part in enumerate(parts) if part in _SITES), default=-1)
    if at < 0:
        return None
    below = parts[at + 1 :]
    shown = "/".join(below) or parts[at]
    if not below or re.search(r"[*?$]", below[0][:1]):
        debian = parts[: at + 1] == ["usr", "lib", "python3", "dist-packages"]
        return Place(where="unknown" if debian else "installed", name="", shown=shown)
    name = exempt.normal(re.split(r"\.py\b|\.so\b|\.cpython|-\d|\.dist-info|\.libs|\*|\.pth", below[0])[0])
    if name in exempt.STACK:
        return Place(where="installed", name=name, shown=shown)
    image = absolute and (parts[:2] == ["usr", "local"] or parts[:1] == ["opt"] or parts[:1] == ["app"])
    if name in exempt.EXEMPT or not image:
        return Place(where="elsewhere", name=name, shown=shown)
    return Place(where="installed", name=name, shown=shown)


def _in_image(full: list[str], path: str, *, absolute: bool) -> Place | None:
    """Trees of the engines outside of the site, and the libraries below them."""
    if absolute and len(full) > 1 and full[0] == "opt" and re.match(r"rocm", full[1]):
        return Place(where="installed", name="rocm", shown=path)
    if absolute and full[:2] == ["app", "versions.txt"]:
        return Place(where="installed", name="app", shown=path)
    at = next((at for at, part in enumerate(full) if exempt.engine(part.split(".py")[0])), -1)
    if at < 0:
        if absolute and full and full[0] in _ROOTS and _CODE.search(path):
            return Place(where="installed", name=full[0], shown=path)
        return None
    name = exempt.engine(full[at].split(".py")[0]) or ""
    shown = path if absolute else "/".join(full[at:])
    if any(part in _CLIENT for part in full[at + 1 :]):
        return Place(where="elsewhere", name=name, shown=shown)
    if any(part in _SCRATCH for part in full[:at] if part != "share"):
        return Place(where="scratch", name=name, shown=shown)
    image = absolute and full[0] in _IMAGE and not (full[0] == "root" and full[1:2] == [".cache"])
    last = at == len(full) - 1
    if image and last and "bin" not in full[:at] and "." in full[at]:
        image = False
    return Place(where="installed" if image and full[0] != "workspace" else "tree", name=name, shown=shown)


def touched(path: str, *, in_place: bool = False) -> str | None:
    """What a command that changes the file `path` touches of the stack, as findings name it; None for nothing.

    `in_place` says that the file is there already (sed -i): then a tree in a scratch directory counts as well.
    """
    found = place(path)
    if found.where == "installed":
        return found.shown
    if found.where == "tree" and found.code:
        return found.shown
    if found.where == "scratch" and in_place and found.code:
        return found.shown
    return None
