"""`pip` steps: pinned packages in the interpreter that owns the site.

Only wheels are taken: installing one runs no code of its own. `pip install --dry-run` says first what would
move; packages that the step does not name must not, but for those in its `may_move`.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from patchkit.core import keeping, runs
from patchkit.core.errors import ConfigError, RefusedByMachineError, UnreachableError
from patchkit.core.holding import read_ledger
from patchkit.core.packages import in_folder, installed, installer_of, interpreter, normal, path_of, pin, same_version
from patchkit.core.transaction import read_pristine
from patchkit.core.tree import REGULAR

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
_MODULE = ("-I", "-B", "-m", "pip")
_NO_WHEEL = re.compile(r"No matching distribution found for|Could not find a version that satisfies")
_NO_WHEEL_HINT = (
    "only wheels are taken, since building a package runs its code, and only for this Python and machine: build one"
    " with `pip wheel`, and put it on an index that the step's `index` names"
)
_NOT_CARRIED_HINT = (
    "the wheels that the stack carries are all that it may take: name what is missing in `requirements`, pinned,"
    " then: patchkit lock --vendor"
)
_NETWORK = re.compile(
    r"NewConnectionError|NameResolutionError|ConnectTimeout|ReadTimeout|Connection (?:refused|reset|broken)"
    r"|Failed to establish|Temporary failure in name|SSLError|ProxyError|connection error|Remote end closed"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What installing a step's packages takes: the accepted sha256 of each, and the version of every other
    package that would move and may."""

    hashes: dict[str, list[str]]
    moves: dict[str, str]


def is_done(action: dict[str, Any], record: dict[str, Any] | None, site: Site) -> bool:
    """Whether every package is there in its version, those that moved with them as well. What a killed run
    has begun must be there whole."""
    begun = record is not None and record["state"] == "begun"
    return not _missing(action, site) and not _gone(action, record, site) and not (begun and _torn(action, site))


def _allowed(action: dict[str, Any]) -> list[str]:
    return [normal(name) for name in action.get("may_move", ())]


def _gone(action: dict[str, Any], record: dict[str, Any] | None, site: Site) -> dict[str, str]:
    """The packages that the step has moved without naming them, and that are no longer as it left them."""
    if not _allowed(action) or record is None:
        return {}
    there, packages = installed(site), record.get("packages", {})
    mine = {name: packages[name] for name in _allowed(action) if name in packages}
    left = {name: entry["after"] or entry.get("known", [None])[0] for name, entry in mine.items()}
    return {name: after for name, after in left.items() if after is not None and there.get(name) != after}


def _missing(action: dict[str, Any], site: Site) -> list[str]:
    there = installed(site)
    return [r for r in action["requirements"] if not same_version(pin(r)[1], there.get(pin(r)[0]))]


def _torn(action: dict[str, Any], site: Site) -> list[str]:
    """The dist-info folders of the step's packages that pip had not finished: it writes RECORD last.
    Another installer than pip may leave it out."""
    wanted: dict[str, str | None] = dict.fromkeys(_allowed(action))
    wanted.update(pin(requirement) for requirement in action["requirements"])
    return [
        path
        for folder in path_of(interpreter(site), site)
        for name, (version, path) in in_folder(folder).items()
        if name in wanted
        and same_version(wanted[name] or version, version)
        and path.endswith(".dist-info")
        and not os.path.exists(f"{path}/RECORD")
        and installer_of(path) in ("", "pip")
    ]


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
    names = [*(pin(requirement)[0] for requirement in _pins(step)), *_allowed(step.action)]
    packages: dict[str, Any] = {name: {"before": there.get(name), "after": None, "sha256": []} for name in names}
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


def look(step: LockedStep, record: dict[str, Any] | None, site: Site, read_input: ReadInput) -> Plan:
    """See what installing would move, without doing it.

    Raises RefusedByMachineError where packages would move that must not, there is no pip, a hash differs or
    pip refuses; ConfigError where the lock lacks hashes; UnreachableError where the index cannot be reached.
    """
    hashes = _known_hashes(step, record)
    there, named = installed(site), {pin(requirement)[0] for requirement in _pins(step)}
    others, moves = [], {}
    for name, version, digest in _resolved(step, site, read_input):
        if name not in named and name not in _allowed(step.action):
            others.append((name, version))
            continue
        if name not in named:
            moves[name] = version
            hashes[name] = _first_use(record, name, version) or [digest]
        accepted = hashes.setdefault(name, [digest])
        if digest not in accepted:
            raise RefusedByMachineError(
                f"step {step.id} (pip): {name} {version}: expected sha256 {' or '.join(accepted)}, the index has {digest}",
                hint="what the index has is not what was locked: find out who changed it before you go on",
            )
    if others:
        listed = ", ".join(sorted(_move(name, there.get(name), version) for name, version in others))
        raise RefusedByMachineError(
            f"step {step.id} (pip): it would move packages that it does not name: {listed}",
            hint="name them in `requirements`, pinned; or let them move with it:"
            f" `may_move: [{', '.join(sorted(name for name, _ in others))}]`;"
            " or take a version that goes with what is installed",
        )
    return Plan(hashes=hashes, moves=moves)


def _resolved(step: LockedStep, site: Site, read_input: ReadInput) -> list[tuple[str, str, str]]:
    """What pip would install for the step: name, version and sha256 of each."""
    python = interpreter(site)
    if runs.execute([python, *_MODULE, "--version"], site, env=_ENV, timeout=60).status != 0:
        raise RefusedByMachineError(
            f"step {step.id} (pip): {python} has no pip", hint="apply it where that Python has pip, or install it there"
        )
    with _sources(step, read_input) as (folder, source):
        wanted, report = f"{folder}/requirements.txt", f"{folder}/report.json"
        _write(wanted, "".join(f"{requirement}\n" for requirement in _pins(step)))
        _pip(step, python, site, ["install", "--dry-run", "--quiet", "--report", report, *source, "-r", wanted])
        with open(report, encoding="utf-8") as stream:
            plan = json.load(stream)["install"]
        return [  # while the folder is there
            (normal(each["metadata"]["name"]), each["metadata"]["version"], _digest_of(each["download_info"]))
            for each in plan
        ]


def planned_line(step: LockedStep, plan: Plan, site: Site) -> str:
    """What would be installed, in one line, with what moves with it."""
    there = installed(site)
    moves = [_move(name, there.get(name), version) for name, version in sorted(plan.moves.items())]
    return moves_line(step.action, site) + (f"; with it would move {', '.join(moves)}" if moves else "")


def _known_hashes(step: LockedStep, record: dict[str, Any] | None) -> dict[str, list[str]]:
    """What is accepted for each package: the lock's hashes, or those of its first use."""
    found = {pin(package.requirement)[0]: list(package.hashes) for package in step.packages}
    absent = [r for r in _pins(step) if not found.get(pin(r)[0])]
    if step.action["hashes"] == "required" and absent:
        raise ConfigError(
            *(f"step {step.id} (pip): the lock holds no hash of {requirement}" for requirement in absent),
            hint="take them from the index: patchkit lock",
        )
    for requirement in absent:
        name, version = pin(requirement)
        found[name] = _first_use(record, name, version)
    return {name: hashes for name, hashes in found.items() if hashes}


def _first_use(record: dict[str, Any] | None, name: str, version: str) -> list[str]:
    """The sha256 that this version of a package had when it was installed before; empty where it was not."""
    entry = (record or {}).get("packages", {}).get(name, {})
    after, digests = entry.get("known", [entry.get("after"), entry.get("sha256")])
    return list(digests) if digests and same_version(version, after) else []


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
    ended = _run_pip(python, site, words)
    if ended.status == 0:
        return ended
    what = f"step {step.id} (pip): pip {words[0]} failed: {ended.why}{ended.last_lines}"
    told = ended.output
    if _NO_WHEEL.search(told) and "--no-index" not in words:
        # a page that could not be read is no page to pip: it tells of that only to those who ask
        told = _run_pip(python, site, [word if word != "--quiet" else "-vv" for word in words]).output
        what += "".join(f"\n    {line.strip()}" for line in told.splitlines() if _NETWORK.search(line))
    if _NETWORK.search(told):
        hint = "check network, proxy and the index that pip is set to: pip config list"
        raise UnreachableError(what, hint=hint, output=ended.output)
    if _NO_WHEEL.search(ended.output):
        hint = _NOT_CARRIED_HINT if "--no-index" in words else _NO_WHEEL_HINT
    else:
        hint = "see pip's words above; " if ended.last_lines else ""
        hint += "nothing that the step does not name was changed"
    raise RefusedByMachineError(what, hint=hint, output=ended.output)


def _run_pip(python: str, site: Site, words: list[str]) -> runs.Ended:
    """Run pip on what `installed` sees and nothing else, without a trace of its own: no byte-code, no cache."""
    cache = {} if "PIP_CACHE_DIR" in os.environ else {"PIP_CACHE_DIR": _cache().name}
    ended = runs.execute([python, *_MODULE, *words], site, env={**_ENV, **cache}, timeout=_TIMEOUT)
    path_of.cache_clear()  # it may have made a folder of the path
    return ended


@lru_cache(maxsize=1)
def _cache() -> tempfile.TemporaryDirectory[str]:
    """Pip's cache until this process ends: what it has looked at it need not fetch again to install it."""
    return tempfile.TemporaryDirectory(prefix="patchkit-pip-cache-")


def perform(
    step: LockedStep, record: dict[str, Any], site: Site, read_input: ReadInput
) -> tuple[dict[str, Any], str, str]:
    """Install what is missing, exactly; the record, a line for a person, and pip's output."""
    python, before = interpreter(site), installed(site)
    for path in _torn(step.action, site) if record["state"] == "begun" else []:
        shutil.rmtree(path)
    plan = look(step, record, site, read_input)
    missing = _missing(step.action, site)
    _keep(site, {pin(r)[0] for r in missing} | set(plan.moves))
    output = ""
    with _sources(step, read_input) as (folder, source):
        wanted = f"{folder}/requirements.txt"
        # what moves with them comes first: where the named ones are there, all is
        for part in ([f"{name}=={version}" for name, version in plan.moves.items()], missing):
            lines = [f"{r} {' '.join(f'--hash=sha256:{h}' for h in plan.hashes[pin(r)[0]])}\n" for r in part]
            _write(wanted, "".join(lines))
            words = ["install", "--no-deps", "--force-reinstall", "--require-hashes", *source, "-r", wanted]
            output += _pip(step, python, site, words).output if part else ""
    after = installed(site)
    wrong = _missing(step.action, site)
    if wrong:
        raise RefusedByMachineError(
            f"step {step.id} (pip): pip ended with 0, but {', '.join(wrong)} is not on the path of {python}",
            hint="see where pip installs to: pip config list",
            output=output,
        )
    moved = [_move(name, before.get(name), after[name]) for name in after if before.get(name) != after[name]]
    record = {**record, "state": "done", "packages": _done(step, record, plan, after)}
    return record, f"installed {', '.join(sorted(moved))}" if moved else "nothing was left to install", output


def _done(step: LockedStep, record: dict[str, Any], plan: Plan, after: dict[str, str]) -> dict[str, Any]:
    """The record's packages once all is installed: the named ones, and what has moved with them."""
    named = {pin(requirement)[0] for requirement in _pins(step)}
    return {
        name: {
            "before": entry["before"],
            "previous": entry.get("previous"),
            "after": after.get(name),
            "sha256": plan.hashes.get(name, entry["sha256"]),
        }
        for name, entry in record["packages"].items()
        if name in named or entry["before"] != after.get(name)
    }


def _keep(site: Site, names: set[str]) -> None:
    """Keep the installed packages of these names, without what patches made of their files: pip is about to
    replace them."""
    ledger = read_ledger(site)
    pristine: dict[str, bytes | None] = {
        keeping.place(f"{site.path}/{path}"): None if file.before is None else read_pristine(site, file.before)
        for path, file in (ledger.files if ledger is not None else {}).items()
        if file.before is None or file.before.kind == REGULAR
    }
    for folder in path_of(interpreter(site), site):
        found = in_folder(folder)
        for name in names & found.keys():
            version, info = found[name]
            keeping.keep(site.path, name, version, info, pristine)
        names = names - found.keys()


def settled(record: dict[str, Any]) -> dict[str, Any]:
    """`record` at the end of a run: what only a roll-back of it needs is forgotten."""
    packages = {name: {**entry, "previous": None} for name, entry in record.get("packages", {}).items()}
    return {**record, "packages": packages} if packages else record


def _way_back(record: dict[str, Any], site: Site, name: str, old: str | None) -> list[str]:
    """What pip is to do to bring back version `old` of a package (None: it was not there)."""
    if old is None or _is_shadowed(site, name, old):
        return ["uninstall", "--yes", name]
    words, kept = ["install", "--no-deps", "--force-reinstall"], keeping.path_of(site.path, name, old)
    if os.path.exists(kept):
        # by its name: of a package that is named by its file pip notes that file in direct_url.json
        return [*words, "--no-index", "--find-links", os.path.dirname(kept), f"{name}=={old}"]
    index = record["action"]["index"]
    return [*words, "--only-binary", ":all:", *([] if index == "default" else ["--index-url", index]), f"{name}=={old}"]


def _is_shadowed(site: Site, name: str, version: str) -> bool:
    """Whether that version is still there, behind another one that is found before it (Debian's own packages)."""
    found = (in_folder(folder).get(name, ("", ""))[0] for folder in path_of(interpreter(site), site))
    return version in found


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
        ended = _run_pip(python, site, words)
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
    ] + [
        f"{name} is {there.get(name) or 'not there'}, not {after}, which came with it"
        for name, after in _gone(record["action"], record, site).items()
    ]
    return f"step {step_id} (pip): {', '.join(wrong)}" if wrong else None
