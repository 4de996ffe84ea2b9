"""What is on disk of a stack: on a directory, or in a container; and what a root says about its components."""

from __future__ import annotations

import json
import os
from argparse import Namespace
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from patchkit.core import inspect
from patchkit.core import options as shared
from patchkit.core.errors import ERROR_CLASSES, ConfigError, PatchkitError
from patchkit.core.lockfile import FileChange
from patchkit.core.operate import Request
from patchkit.core.report import Report, StepReport
from patchkit.core.verdicts import Change, Outcome, Verdict

if TYPE_CHECKING:
    from patchkit.app.project import Project
    from patchkit.core.lockfile import Lock
    from patchkit.io.engine import Container, Engine

#: Where AMD's ROCm base images name the branch or tag of each component (facts of the image family).
VERSIONS = "app/versions.txt"
_VERSIONS_LIMIT = 1 << 16


@dataclass(frozen=True, slots=True, kw_only=True)
class OnDisk:
    """A stack on its target, and the text of the target's /app/versions.txt (None where it has none)."""

    report: Report
    versions: str | None = None


def look(project: Project, lock: Lock, args: Namespace) -> OnDisk:
    """The stack on the target that `args` name; without a tree, what the lock alone says. Raises as `status` does."""
    if args.container:
        if args.root is not None:
            raise ConfigError("--root and --container: only one of them names the target", hint="leave one of them out")
        return _in_container(project, lock, args)
    from patchkit.app.target import open_target

    with open_target(project, lock, shared.choice(args), create=False) as (target, _):
        if target is None:
            return OnDisk(report=_no_tree(lock, shared.choice(args).caller.spell("apply", image=lock.image.name)))
        report = inspect.status(Request(lock=lock, read_input=project.read_input), target)
        root = args.root if args.root is not None else None if target.managed else "/"
        return OnDisk(report=report, versions=None if root is None else _versions_below(root))


def _no_tree(lock: Lock, apply: str) -> Report:
    steps = tuple(
        StepReport(
            id=step.id,
            verdict=None,
            changes=step.changes,
            upstream=step.upstream,
            detail=tuple(f"unresolved: {fact}" for fact in step.unresolved),
        )
        for step in lock.steps
    )
    return Report(
        command="status",
        image=lock.image.name,
        outcome=Outcome.REPORTED,
        version=lock.version,
        lock=lock.digest,
        steps=steps,
        notes=(f"there is no tree yet; {apply} makes one",),
    )


def _versions_below(root: str) -> str | None:
    try:
        with open(os.path.join(root, VERSIONS), "rb") as stream:
            return stream.read(_VERSIONS_LIMIT).decode("utf-8", "replace")
    except OSError:
        return None


def _in_container(project: Project, lock: Lock, args: Namespace) -> OnDisk:
    from patchkit.app import container
    from patchkit.core.bundle import perform

    asked = Namespace(**{**vars(args), "json": True})
    with container.opened(lock, "status", asked) as place:
        versions = _versions_in(place.engine, place.container)
        inside = container.run_inside(project, lock, place, "status", asked)
        if inside is not None:
            return OnDisk(report=report_from(json.loads(inside.out)), versions=versions)
        from patchkit.app.archives import by_archives

        with by_archives(lock, place, asked) as target:
            done = perform("status", shared.request(lock, project.read_input, asked), target)
        return OnDisk(report=done.report, versions=versions)


def _versions_in(engine: Engine, container: Container) -> str | None:
    if engine.stat(container, f"/{VERSIONS}") is None:
        return None
    with engine.archive(container, f"/{VERSIONS}") as archive:
        entry = archive.next() if archive is not None else None
        stream = archive.extractfile(entry) if archive is not None and entry is not None else None
        return None if stream is None else stream.read(_VERSIONS_LIMIT).decode("utf-8", "replace")


def report_from(document: dict[str, Any]) -> Report:
    """The report that a bundle's `status --json` printed. Raises the error that it tells of."""
    if document["errors"]:
        first = document["errors"][0]
        kind = next((error for error in ERROR_CLASSES if error.code == first["code"]), PatchkitError)
        raise kind(*(entry["message"] for entry in document["errors"]), hint=first["hint"])
    steps = tuple(
        StepReport(
            id=step["id"],
            verdict=None if step["on_disk"] is None else Verdict(step["on_disk"]),
            changes=tuple(
                FileChange(path=file["path"], change=Change(file["change"]), source=file.get("from"))
                for file in step["files"]
            ),
            detail=tuple(step["detail"].splitlines()),
            upstream=tuple(pull["ref"] for pull in step["upstream"]),
        )
        for step in document["steps"]
    )
    return Report(
        command="status",
        image=document["image"],
        outcome=Outcome(document["outcome"]),
        version=document["stack"]["version"],
        lock=document["stack"]["lock"],
        target=document["target"],
        stand_in=document["stand_in"],
        steps=steps,
        notes=tuple(document["notes"]),
    )
