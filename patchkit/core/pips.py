"""`pip` steps: pinned packages in the interpreter that owns the site.

What is installed is read from `*.dist-info/METADATA` on that interpreter's path; nothing is imported. Only
wheels are taken: installing one runs no code of its own. `pip install --dry-run` says first what would
move; packages that the step does not name must not.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import sys
import tempfile
from contextlib import contextmanager
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from patchkit.core import keeping, runs
from patchkit.core.errors import ConfigError, RefusedByMachineError, UnreachableError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from patchkit.core.lockfile import LockedStep
    from patchkit.core.operate import ReadInput
    from patchkit.core.site import Site

_TIMEOUT = 3600
_ENV = {
    "PIP_NO_INPUT": "1",
    "PIP_DISABLE_PIP_VERSION_CHECK": "1",
    "PIP_BREAK_SYSTEM_PACKAGES": "1",
    "PIP_ROOT_USER_ACTION": "ignore",
    "PIP_RETRIES": "1",
    "PIP_REQUIRE_HASHES": "",
}
_OWNED = re.compile(r"(.*)/lib/python(\d+\.\d+)/(?:site|dist)-packages")
_NETWORK = re.compile(
    r"NewConnectionError|NameResolutionError|ConnectTimeout|ReadTimeout|Connection (?:refused|reset|broken)"
    r"|Failed to establish|Temporary failure in name|SSLError|ProxyError|connection error|Remote end closed"
)
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
def _path_of(python: str, site: Site) -> tuple[str, ...]:
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
    for folder in _path_of(interpreter(site), site):
        for name, (version, _) in _in_folder(folder).items():
            found.setdefault(name, version)
    return found


def _in_folder(folder: str) -> dict[str, tuple[str, str]]:
    """The packages in one folder: normal name to (version, path of the dist-info)."""
    found = {}
    try:
        names = sorted(name for name in os.listdir(folder) if name.endswith(".dist-info"))
    except OSError:
        return {}
    for name in names:
        try:
            with open(f"{folder}/{name}/METADATA", encoding="utf-8", errors="replace") as stream:
                head = dict(re.findall(r"^(Name|Version): *(\S+)", stream.read(4096), re.MULTILINE))
            found[normal(head["Name"])] = (head["Version"], f"{folder}/{name}")
        except (OSError, KeyError):  # a torn installation is none
            continue
    return found


def is_done(action: dict[str, Any], record: dict[str, Any] | None, site: Site) -> bool:
    """Whether every package is there in its version. What a killed run has begun must be there whole."""
    begun = record is not None and record["state"] == "begun"
    return not _missing(action, site) and not (begun and _torn(action, site))


def _missing(action: dict[str, Any], site: Site) -> list[str]:
    there = installed(site)
    return [r for r in action["requirements"] if not same_version(pin(r)[1], there.get(pin(r)[0]))]


def _torn(action: dict[str, Any], site: Site) -> list[str]:
    """The dist-info folders of the step's packages that pip had not finished: it writes RECORD last.
    Another installer than pip may leave it out."""
    wanted = dict(pin(requirement) for requirement in action["requirements"])
    return [
        path
        for folder in _path_of(interpreter(site), site)
        for name, (version, path) in _in_folder(folder).items()
        if name in wanted
        and same_version(wanted[name], version)
        and not os.path.exists(f"{path}/RECORD")
        and _installer(path) in ("", "pip")
    ]


def _installer(info: str) -> str:
    try:
        with open(f"{info}/INSTALLER", encoding="utf-8", errors="replace") as stream:
            return stream.read().strip()
    except FileNotFoundError:
        return ""


def moves_line(action: dict[str, Any], site: Site) -> str:
    """What would be installed, in one line."""
    there = installed(site)
    parts = [_move(pin(r)[0], there.get(pin(r)[0]), pin(r)[1]) for r in _missing(action, site)]
    index = action["index"]
    return f"would install {', '.join(parts)} from {'the index that pip is set to' if index == 'default' else index}"


def _move(name: str, old: str | None, new: str) -> str:
    return f"{name} {old or '(not there)'} -> {new}"


def begin(step: LockedStep, site: Site) -> dict[str, Any]:
    """The record of a step that is about to be carried out: the versions that are there."""
    there = installed(site)
    packages: dict[str, Any] = {
        pin(r)[0]: {"before": there.get(pin(r)[0]), "after": None, "sha256": []} for r in _pins(step)
    }
    return {"kind": "pip", "action": step.action, "state": "begun", "packages": packages}


def _pins(step: LockedStep) -> list[str]:
    return list(step.action["requirements"])


def merged(record: dict[str, Any], old: dict[str, Any] | None) -> dict[str, Any]:
    """`record` with what was there before patchkit ever installed these packages, and with known hashes."""
    known = old.get("packages", {}) if old is not None else {}
    packages: dict[str, Any] = {
        name: {
            **entry,
            "before": known[name]["before"],
            "previous": entry["before"],
            "known": [known[name]["after"], known[name]["sha256"]],
        }
        if name in known
        else entry
        for name, entry in record["packages"].items()
    }
    extra = {name: entry for name, entry in known.items() if name not in packages}
    return {**record, "packages": {**packages, **extra}}


def _digest_of(download: dict[str, Any]) -> str:
    """The sha256 of the archive that pip means to install; pip before 23.1 states none for a local file."""
    stated: str = download.get("archive_info", {}).get("hashes", {}).get("sha256", "")
    if stated or not download["url"].startswith("file://"):
        return stated
    from urllib.parse import unquote, urlsplit

    with open(unquote(urlsplit(download["url"]).path), "rb") as stream:
        return hashlib.sha256(stream.read()).hexdigest()


def look(step: LockedStep, record: dict[str, Any] | None, site: Site, read_input: ReadInput) -> dict[str, list[str]]:
    """See what installing would move, without doing it; each named package's accepted sha256.

    Raises RefusedByMachineError where other packages would move, there is no pip, a hash differs or pip
    refuses; ConfigError where the lock lacks hashes; UnreachableError where the index cannot be reached.
    """
    hashes = _known_hashes(step, record)
    python = interpreter(site)
    if runs.execute([python, "-m", "pip", "--version"], site, env=_ENV, timeout=60).status != 0:
        raise RefusedByMachineError(
            f"step {step.id} (pip): {python} has no pip", hint="apply it where that Python has pip, or install it there"
        )
    with _sources(step, read_input) as (folder, source):
        wanted, report = f"{folder}/requirements.txt", f"{folder}/report.json"
        _write(wanted, "".join(f"{requirement}\n" for requirement in _pins(step)))
        _pip(step, python, site, ["install", "--dry-run", "--quiet", "--report", report, *source, "-r", wanted])
        with open(report, encoding="utf-8") as stream:
            plan = json.load(stream)["install"]
        digests = [_digest_of(each["download_info"]) for each in plan]  # while the folder is there
    there, named = installed(site), {pin(requirement)[0] for requirement in _pins(step)}
    others = []
    for each, digest in zip(plan, digests, strict=True):
        name, version = normal(each["metadata"]["name"]), each["metadata"]["version"]
        if name not in named:
            others.append(_move(name, there.get(name), version))
            continue
        accepted = hashes.setdefault(name, [digest])
        if digest not in accepted:
            raise RefusedByMachineError(
                f"step {step.id} (pip): {name} {version}: expected sha256 {' or '.join(accepted)}, the index has {digest}",
                hint="what the index has is not what was locked: find out who changed it before you go on",
            )
    if others:
        raise RefusedByMachineError(
            f"step {step.id} (pip): it would move packages that it does not name: {', '.join(sorted(others))}",
            hint="name them in `requirements`, pinned; or take a version that goes with what is installed",
        )
    return hashes


def _known_hashes(step: LockedStep, record: dict[str, Any] | None) -> dict[str, list[str]]:
    """What is accepted for each package: the lock's hashes, or those of its first use."""
    found = {pin(package.requirement)[0]: list(package.hashes) for package in step.packages}
    absent = [r for r in _pins(step) if not found.get(pin(r)[0])]
    if step.action["hashes"] == "required" and absent:
        raise ConfigError(
            *(f"step {step.id} (pip): the lock holds no hash of {requirement}" for requirement in absent),
            hint="take them from the index: patchkit lock",
        )
    packages = (record or {}).get("packages", {})
    for requirement in absent:
        name, version = pin(requirement)
        entry = packages.get(name, {})
        after, digests = entry.get("known", [entry.get("after"), entry.get("sha256")])
        if digests and same_version(version, after):
            found[name] = digests
    return {name: hashes for name, hashes in found.items() if hashes}


@contextmanager
def _sources(step: LockedStep, read_input: ReadInput) -> Iterator[tuple[str, list[str]]]:
    """A folder to work in, and pip's options for where packages come from: the wheels that the bundle or the
    project carries and nothing else, where there is one for each; else the index."""
    with tempfile.TemporaryDirectory(prefix="patchkit-pip-") as folder:
        wheels = [wheel for package in step.packages for wheel in package.wheels]
        for wheel in wheels:
            with open(f"{folder}/{wheel.name}", "wb") as stream:
                stream.write(read_input(replace(step, input=wheel.input)))
        index = step.action["index"]
        source = [] if index == "default" else ["--index-url", index]
        if step.packages and all(package.wheels for package in step.packages):
            source = ["--no-index", "--find-links", folder]
        yield folder, ["--only-binary", ":all:", *source]


def _write(path: str, text: str) -> None:
    with open(path, "w", encoding="utf-8") as stream:
        stream.write(text)


def _pip(step: LockedStep, python: str, site: Site, words: list[str]) -> runs.Ended:
    """Run pip. Raises UnreachableError where its index cannot be reached, else RefusedByMachineError."""
    ended = runs.execute([python, "-m", "pip", *words], site, env=_ENV, timeout=_TIMEOUT)
    if ended.status == 0:
        return ended
    what = f"step {step.id} (pip): pip {words[0]} failed: {ended.why}{ended.last_lines}"
    if _NETWORK.search(ended.output):
        raise UnreachableError(what, hint="check network, proxy and the index that pip is set to: pip config list")
    raise RefusedByMachineError(what, hint="see pip's words above; nothing that the step does not name was changed")


def perform(
    step: LockedStep, record: dict[str, Any], site: Site, read_input: ReadInput
) -> tuple[dict[str, Any], str, str]:
    """Install what is missing, exactly; the record, a line for a person, and pip's output."""
    python, before = interpreter(site), installed(site)
    for path in _torn(step.action, site) if record["state"] == "begun" else []:
        shutil.rmtree(path)
    hashes = look(step, record, site, read_input)
    missing = _missing(step.action, site)
    _keep(site, {pin(r)[0] for r in missing})
    with _sources(step, read_input) as (folder, source):
        wanted = f"{folder}/requirements.txt"
        lines = [f"{r} {' '.join(f'--hash=sha256:{h}' for h in hashes[pin(r)[0]])}\n" for r in missing]
        _write(wanted, "".join(lines))
        words = ["install", "--no-deps", "--force-reinstall", "--require-hashes", *source, "-r", wanted]
        ended = _pip(step, python, site, words)
    after = installed(site)
    wrong = _missing(step.action, site)
    if wrong:
        raise RefusedByMachineError(
            f"step {step.id} (pip): pip ended with 0, but {', '.join(wrong)} is not on the path of {python}",
            hint="see where pip installs to: pip config list",
        )
    moved = [_move(name, before.get(name), after[name]) for name in after if before.get(name) != after[name]]
    packages = {
        name: {
            "before": entry["before"],
            "previous": entry.get("previous"),
            "after": after.get(name),
            "sha256": hashes.get(name, entry["sha256"]),
        }
        for name, entry in record["packages"].items()
    }
    record = {**record, "state": "done", "packages": packages}
    return record, f"installed {', '.join(sorted(moved))}", ended.output


def _keep(site: Site, names: set[str]) -> None:
    """Keep the installed packages of these names: pip is about to replace them."""
    for folder in _path_of(interpreter(site), site):
        found = _in_folder(folder)
        for name in names & found.keys():
            version, info = found[name]
            keeping.keep(site.path, name, version, info)
        names = names - found.keys()


def settled(record: dict[str, Any]) -> dict[str, Any]:
    """`record` at the end of a run: what only a roll-back of it needs is forgotten."""
    packages = {name: {**entry, "previous": None} for name, entry in record.get("packages", {}).items()}
    return {**record, "packages": packages} if packages else record


def _way_back(record: dict[str, Any], site: Site, name: str, old: str | None) -> list[str]:
    """What pip is to do to bring back version `old` of a package (None: it was not there)."""
    if old is None:
        return ["uninstall", "--yes", name]
    words, kept = ["install", "--no-deps", "--force-reinstall"], keeping.path_of(site.path, name, old)
    if os.path.exists(kept):
        return [*words, "--no-index", kept]
    index = record["action"]["index"]
    return [*words, "--only-binary", ":all:", *([] if index == "default" else ["--index-url", index]), f"{name}=={old}"]


def undo(step_id: str, record: dict[str, Any], site: Site) -> str | None:
    """Bring every package back to the version that was there, or uninstall it; what is not back, or None."""
    for path in _torn(record["action"], site) if record["state"] == "begun" else []:
        shutil.rmtree(path)  # pip itself takes off nothing that is not whole
    python, there, problems = interpreter(site), installed(site), []
    for name, entry in record["packages"].items():
        old, now = entry["before"], there.get(name)
        if now == old:
            continue
        words = _way_back(record, site, name, old)
        ended = runs.execute([python, "-m", "pip", *words], site, env=_ENV, timeout=_TIMEOUT)
        if installed(site).get(name) != old:
            was = "it was not there" if old is None else f"it was {old}"
            problems.append(
                f"{name} is {installed(site).get(name) or 'not there'}, {was}: {ended.why}{ended.last_lines}"
            )
    return f"step {step_id} (pip): not undone: {'; '.join(problems)}" if problems else None


def problem(step_id: str, record: dict[str, Any], site: Site) -> str | None:
    """Which of the step's packages is no longer there in its version, or None."""
    there = installed(site)
    wrong = [
        f"{pin(r)[0]} is {there.get(pin(r)[0]) or 'not there'}, not {pin(r)[1]}"
        for r in _missing(record["action"], site)
    ]
    return f"step {step_id} (pip): {', '.join(wrong)}" if wrong else None
