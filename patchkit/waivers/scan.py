"""Finds patching of the serving stack that nobody declared, in shell, Python, Dockerfiles and YAML.

`scan` is the use case: which files, what each says, which patch files that leads to, and which waiver covers it.
"""

from __future__ import annotations

import fnmatch
import os
import posixpath
import re
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from patchkit.core.errors import ConfigError
from patchkit.waivers import exempt as lists
from patchkit.waivers import scan_cache, scan_install
from patchkit.waivers.exempt import words
from patchkit.waivers.scan_file import MAX_BYTES, NOTHING, FileResult, Language, analyse, language, worth_reading
from patchkit.waivers.scan_patches import diff_touches
from patchkit.waivers.scan_places import HERE
from patchkit.waivers.scan_types import Report, ScanFinding, Trace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    Covered: TypeAlias = Mapping[str, str] | Callable[[ScanFinding], str | None]

__all__ = ["Report", "ScanFinding", "covered_by", "files_below", "scan", "scan_report"]

_SKIPPED = frozenset(
    (".git", ".hg", ".venv", "venv", "node_modules", "__pycache__", ".tox", ".mypy_cache", ".patchkit")
)
_NO_SCRIPTS = words(
    ".md .rst .txt .json .jsonl .csv .tsv .xml .html .css .js .ts .svg .png .jpg .gif .pdf .gz .bz2 .xz .zst .zip .tar .whl"
    " .so .o .a .co .hsaco .bin .pyc .pyi .c .h .cc .cpp .hpp .cu .rs .go .java .lock .log .toml .ini .cfg .po .mo .1 .8"
    " .safetensors .pt .npy .parquet .sqlite .db .ttf .woff .woff2"
)
_PARALLEL = 12  # files to parse; fewer are read sooner than other processes start
_HOLE = re.compile(r"\$\{[^}]*\}|[*?\[]")
_CHANGES = re.compile(r"write|replace|rename|shutil|symlink|subprocess|system\(|fileinput|unlink|remove|urlretrieve")
_FILE_KINDS = ("patch", "edit", "overwrite", "download", "install", "rebuild")
_WRITTEN = ("/tmp/", "/dev/", "/proc/", "/var/tmp/")  # noqa: S108 - places where scripts put what they make


def scan(
    paths: Sequence[str | Path], *, covered: Covered | None = None, exempt: tuple[str, ...] = (), cache: bool = True
) -> list[ScanFinding]:
    """Find patching of the serving stack in files and folders; a file named itself is read whatever its name.

    `covered` names the waiver of a finding: a table from a path in the site (or a package) to the waiver, or a
    function. `exempt` are packages, or patterns of paths, that are no finding besides those the policy exempts.
    Raises ConfigError for a path that is not there.
    """
    return list(scan_report(paths, covered=covered, exempt=exempt, cache=cache).findings)


def scan_report(
    paths: Sequence[str | Path],
    *,
    covered: Covered | None = None,
    exempt: tuple[str, ...] = (),
    cache: bool = True,
    cache_root: str | None = None,
) -> Report:
    """As `scan`; tells besides how many files were read, and which could not be read whole."""
    files = list(_files([Path(path) for path in paths]))
    results = _results(files, scan_cache.ScanCache(cache_root) if cache else None)
    waiver = covered if callable(covered) else covered_by(covered or {})
    beside = _Beside([Path(path) for path in paths])
    traces: dict[Path, dict[tuple[int, str, str], Trace]] = {path: {} for path, _ in files}
    real = {path.resolve(): path for path, _ in files}
    for (path, _), result in zip(files, results, strict=True):
        for file, trace in _resolved(result, path, beside):
            where = path if file is None else real.get(file.resolve())
            if where is not None and not _is_exempt(trace, exempt):
                traces[where].setdefault((trace.line, trace.kind, trace.touches), trace)
    found = [_finding(path, each, waiver) for path, kept in traces.items() for each in _in_order(kept.values())]
    unread = tuple(
        (str(path), result.unread) for (path, _), result in zip(files, results, strict=True) if result.unread
    )
    return Report(findings=tuple(found), files=len(files), unread=unread)


def _in_order(traces: Iterable[Trace]) -> list[Trace]:
    return sorted(traces, key=lambda trace: (trace.line, trace.kind, trace.touches))


def _finding(path: Path, trace: Trace, waiver: Callable[[ScanFinding], str | None]) -> ScanFinding:
    touches = trace.touches.removeprefix(f"{HERE}/")
    made = ScanFinding(path=str(path), line=trace.line, kind=trace.kind, touches=touches, waiver=None, text=trace.text)
    return replace(made, waiver=waiver(made))


def covered_by(table: Mapping[str, str]) -> Callable[[ScanFinding], str | None]:
    """A function that looks a finding up in a table: a path in the site, or a package's name, to its waiver."""

    def find(finding: ScanFinding) -> str | None:
        touches = finding.touches.split(" ")[0]
        name = lists.requirement(touches) or ""
        for each in (touches, name if finding.kind == "install" else ""):
            if each in table:
                return table[each]
        return next((waiver for path, waiver in table.items() if "/" in path and touches.endswith("/" + path)), None)

    return find


def files_below(paths: Iterable[Path]) -> list[tuple[Path, Language]]:
    """Every file that a scan of `paths` reads, with its language."""
    return list(_files(paths))


def _files(paths: Iterable[Path]) -> Iterator[tuple[Path, Language]]:
    """Every file to be read, with its language, in a stable order."""
    for path in paths:
        if path.is_file():
            found = language(path, _head(path), asked=True)
            if found is not None:
                yield path, found
        elif path.is_dir():
            yield from _below(path)
        else:
            raise ConfigError(f"{path}: no such file or folder", hint="name files or folders to be scanned")


def _below(folder: Path) -> Iterator[tuple[Path, Language]]:
    for root, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if name not in _SKIPPED)
        for name in sorted(names):
            path = Path(root, name)
            named = language(path, b"")
            if named is None and path.suffix.lower() in _NO_SCRIPTS:
                continue
            if path.is_symlink() or not path.is_file():
                continue
            found = named or language(path, _head(path))
            if found is not None:
                yield path, found


def _head(path: Path) -> bytes:
    try:
        with path.open("rb") as stream:
            return stream.read(128)
    except OSError:
        return b""


def _results(files: list[tuple[Path, Language]], cache: scan_cache.ScanCache | None) -> list[FileResult]:
    """What each file says, from the cache where it is known."""
    results: list[FileResult | None] = []
    waiting: list[tuple[int, str, bytes, Language, str]] = []
    for path, kind in files:
        name = f"{'tests/' if 'tests' in path.parts or 'test' in path.parts else ''}{path.name}"
        try:
            data = path.read_bytes()
        except OSError as error:
            results.append(FileResult(unread=f"cannot be read: {error.strerror}"))
            continue
        key = scan_cache.key(data, kind, name) if cache is not None else ""
        known = cache.get(key) if cache is not None else None
        if known is None and kind not in ("patch", "pth") and not worth_reading(data) and len(data) <= 1_000_000:
            known = NOTHING
            if name not in ("sitecustomize.py", "usercustomize.py"):
                results.append(known)
                if cache is not None:
                    cache.put(key, known)
                continue
            known = None
        if known is None:
            waiting.append((len(results), key, data, kind, name))
        results.append(known)
    for (at, key, *_), result in zip(waiting, _analysed(waiting), strict=True):
        results[at] = result
        if cache is not None:
            cache.put(key, result)
    if cache is not None:
        cache.save()
    return [result or NOTHING for result in results]


def _analysed(waiting: list[tuple[int, str, bytes, Language, str]]) -> Iterator[FileResult]:
    jobs = [(data, kind, name) for _, _, data, kind, name in waiting]
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1
    if len(jobs) < _PARALLEL or cores < 2:
        yield from map(_one, jobs)
        return
    from patchkit.waivers import scan_python, scan_shell, scan_yaml  # noqa: F401 - loaded once, before the fork

    with ProcessPoolExecutor(min(cores, 8), mp_context=get_context("fork")) as pool:
        yield from pool.map(_one, jobs, chunksize=max(1, len(jobs) // 16))


def _one(job: tuple[bytes, Language, str]) -> FileResult:
    return analyse(*job)


class _Beside:
    """The files of the repositories that are scanned, by name, for the patch files that scripts call."""

    def __init__(self, paths: list[Path]) -> None:
        self.paths = paths
        self.names: dict[Path, dict[str, list[Path]]] = {}

    def root(self, path: Path) -> Path:
        """The repository that a file lies in; else the scanned folder; else its own folder."""
        real = path.resolve()
        for folder in real.parents:
            if (folder / ".git").exists():
                return folder
        for given in self.paths:
            if given.is_dir() and real.is_relative_to(given.resolve()):
                return given.resolve()
        return real.parent

    def find(self, text: str, script: Path, *, only: bool = False) -> Path | None:
        """The file that a call of `text` in `script` means; None where the repository holds none of that name.

        A file of that name elsewhere in the repository is taken too; with `only`, where there is just one.
        """
        folder, root = script.resolve().parent, self.root(script)
        named = text.replace(HERE, str(folder)) if text.startswith(HERE) else re.sub(r"^(?:\$\{\w+\}/)+", "", text)
        tries = (
            [Path(named)] if named.startswith(str(folder)) else [folder / named.lstrip("/"), root / named.lstrip("/")]
        )
        for each in tries:
            if each.is_file():
                return each
        others = self._index(root).get(posixpath.basename(named), [])
        return others[0] if others and not (only and len(others) > 1) else None

    def _index(self, root: Path) -> dict[str, list[Path]]:
        if root not in self.names:
            index: dict[str, list[Path]] = {}
            known = (root / ".git").exists() or any(given.resolve() == root for given in self.paths)
            for folder, folders, names in os.walk(root) if known else ():
                folders[:] = sorted(name for name in folders if name not in _SKIPPED)
                for name in names:
                    index.setdefault(name, []).append(Path(folder, name))
            self.names[root] = index
        return self.names[root]


def _resolved(result: FileResult, path: Path, beside: _Beside) -> Iterator[tuple[Path | None, Trace]]:
    """The traces of a file, once its surroundings are known, and (with their file) those of programs that it calls."""
    for trace in result.traces:
        sure = trace.sure or result.context
        if trace.argv is not None:
            yield from _program(trace, path, beside)
        elif not trace.patch:
            if sure:
                yield None, trace
        elif sure:
            yield from ((None, each) for each in _looked_up(trace, path, beside))


def _looked_up(trace: Trace, path: Path, beside: _Beside) -> Iterator[Trace]:
    """A file that a script names: what it holds, or that it is nowhere."""
    file = posixpath.basename(trace.patch)
    found = None if _HOLE.search(file) else beside.find(trace.patch, path)
    if trace.kind == "install":
        text = _text(found) if found is not None else ""
        yield from (replace(trace, touches=each) for each in scan_install.required(text))
    elif trace.kind == "missing-patch":
        if found is None and not _HOLE.search(file) and not trace.patch.startswith(_WRITTEN):
            yield trace
    elif found is not None:
        yield from _opened(trace, found)
    elif _HOLE.search(file) or trace.patch.startswith(_WRITTEN):
        yield trace
    else:
        yield replace(trace, kind="missing-patch")


def _program(trace: Trace, path: Path, beside: _Beside) -> Iterator[tuple[Path | None, Trace]]:
    """A Python program that a script calls: what it changes stands in its own line, and in that of the call."""
    file = None if _HOLE.search(posixpath.basename(trace.patch)) else beside.find(trace.patch, path, only=True)
    text = _text(file) if file is not None else ""
    if file is None or file.resolve() == path.resolve() or not _CHANGES.search(text):
        return
    from patchkit.waivers.scan_python import python

    for each in python(text, name=file.name, argv=tuple(trace.argv or ())):
        if each.sure and not each.patch and each.kind in _FILE_KINDS:
            yield file, each
            yield None, replace(trace, kind=each.kind, touches=each.touches)


def _text(file: Path) -> str:
    """A file's text as far as it is one; "" where it cannot be read or is too large."""
    try:
        return file.read_bytes().decode("utf-8", "replace") if file.stat().st_size <= MAX_BYTES else ""
    except OSError:
        return ""


def _opened(trace: Trace, file: Path) -> Iterator[Trace]:
    """A patch file that is there: the files of the stack that it changes."""
    try:
        text = file.read_bytes().decode("utf-8", "replace")
    except OSError:
        yield trace
        return
    touches = diff_touches(text, trace.folder, trace.strip, known=True)
    for each in touches:
        yield replace(trace, touches=each)


def _is_exempt(trace: Trace, names: tuple[str, ...]) -> bool:
    """Whether what is touched is exempt by the caller's list: a package, or a pattern of a path."""
    if not names:
        return False
    touches = trace.touches
    package = lists.requirement(touches if trace.kind == "install" else re.split(r"[/.]", touches.lstrip("/"))[0]) or ""
    plain = {lists.normal(name) for name in names}
    return package in plain or any(fnmatch.fnmatchcase(touches, name) for name in names)
