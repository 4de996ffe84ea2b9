"""Images for people and programs: the lines of `image list` and `image show`, and their JSON."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from patchkit.core.errors import ConfigError, PatchkitError
from patchkit.core.report import errors_json
from patchkit.core.verdicts import Outcome

if TYPE_CHECKING:
    from collections.abc import Iterator

    from patchkit.core.lockfile import Lock
    from patchkit.model.image import Image


@dataclass(frozen=True, slots=True, kw_only=True)
class Overview:
    """One image's line: `lock` is fresh, stale, missing or broken; `error` what is wrong, if anything is."""

    name: str
    reference: str | None
    digest: str | None
    platform: str | None
    version: int | None
    steps: int
    unresolved: int
    lock: str
    error: PatchkitError | None


@dataclass(frozen=True, slots=True, kw_only=True)
class FileStat:
    """Lines that a patch adds to and removes from one file."""

    path: str
    added: int
    removed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StepDetails:
    """One step for a person: what it touches, why it is there, and what is not known about it."""

    id: str
    kind: str
    type: str
    upstream: tuple[str, ...]
    reason: str
    files: tuple[FileStat, ...]
    unresolved: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Details:
    """One image, whole."""

    image: Image
    lock_state: str
    lock: Lock | None
    steps: tuple[StepDetails, ...]


def list_error(rows: list[Overview]) -> ConfigError | None:
    """What is wrong with any of the images, as one error; None where nothing is."""
    problems = [problem for row in rows if row.error is not None for problem in row.error.problems]
    return ConfigError(*problems, hint="correct the files, then: patchkit image list") if problems else None


def list_lines(rows: list[Overview]) -> Iterator[str]:
    """The list as text, three lines an image."""
    for row in rows:
        yield f"{row.name}  {row.reference or '(broken)'}"
        yield f"    digest {row.digest or _no_digest(row.name)}, {row.platform or '?'}"
        unresolved = f", {row.unresolved} unresolved" if row.unresolved else ""
        yield f"    stack version {row.version or '?'}: {row.steps} steps{unresolved}, lock {row.lock}"


def list_json(rows: list[Overview]) -> dict[str, Any]:
    """The list as the JSON object of the contract."""
    images = []
    for row in rows:
        data = asdict(row)
        del data["error"]
        images.append(data)
    return _document("list", None, list_error(rows), {"images": images})


def _no_digest(name: str) -> str:
    return f"not set (patchkit image pin {name} fills it)"


def _document(action: str, name: str | None, error: PatchkitError | None, extra: dict[str, Any]) -> dict[str, Any]:
    return {
        "command": f"image {action}",
        "image": name,
        "stack": None,
        "target": None,
        "stand_in": False,
        "outcome": Outcome.REPORTED.value,
        **extra,
        "errors": errors_json(error),
    }


def show_json(found: Details) -> dict[str, Any]:
    """One image as the JSON object of the contract; `details` is in the words of its YAML."""
    image, lock = found.image, found.lock
    details = asdict(image)
    details["site"] = list(image.site)
    details["components"] = {name: asdict(component) for name, component in image.components}
    extra = {"details": details, "lock_state": found.lock_state, "steps": [asdict(step) for step in found.steps]}
    document = _document("show", image.name, None, extra)
    document["stack"] = None if lock is None else {"version": lock.version, "lock": lock.digest}
    return document


def show_lines(found: Details) -> Iterator[str]:
    """One image as text."""
    image, lock = found.image, found.lock
    yield f"{image.name}  {image.reference}"
    yield f"  digest      {image.digest or _no_digest(image.name)}"
    yield f"  platform    {image.platform}"
    yield f"  site        {', '.join(image.site)}"
    for name, c in image.components:
        release = f", release {c.release} ({'exact' if c.exact else 'stand-in'})" if c.release else ""
        yield f"  component   {name}: {c.repo} at {c.commit or 'an unknown commit'}{release}"
    if image.identity is not None:
        yield f"  identity    {image.identity.file} records {image.identity.commit}"
    yield f"  lock        {found.lock_state}" + (f", version {lock.version}, {lock.digest}" if lock else "")
    for step in found.steps:
        upstream = f", upstream {', '.join(step.upstream)}" if step.upstream else ""
        yield f"  step {step.id} ({step.kind}, {step.type}{upstream})"
        if step.reason:
            yield f"      {' '.join(step.reason.split())}"
        yield from (f"      {file.path}  +{file.added} -{file.removed}" for file in step.files)
        yield from (f"      unresolved: {fact}" for fact in step.unresolved)
