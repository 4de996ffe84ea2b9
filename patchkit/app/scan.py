"""What of a scan a project covers: by its waivers' steps, else by its stacks that are exempt from waivers."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

from patchkit.core.errors import ConfigError
from patchkit.model.load import read_waiver
from patchkit.waivers import exempt

if TYPE_CHECKING:
    from patchkit.app.project import Project
    from patchkit.core.lockfile import LockedStep
    from patchkit.waivers.scan_types import ScanFinding

#: Kinds whose `touches` is a file: only these can be what a step does to that file.
_FILES = ("patch", "edit", "overwrite", "download", "rebuild")
_BASELINE = "baseline"


class Cover:
    """Which waiver, or exempt stack, a finding belongs to: called with a finding, as `scan` asks it.

    A waiver goes before an exempt stack. A file is covered if a step touches that very path, a folder if the step's
    paths are known, a package if it is installed in the very version that is pinned, and a patch file if a step
    applies it. `notes` names the locks that are stale.
    """

    def __init__(self, project: Project) -> None:
        self.root = Path(project.root).resolve()
        self.paths: dict[str, str] = {}
        self.pins: dict[tuple[str, str], str] = {}
        self.patches: dict[str, str] = {}
        self.notes: list[str] = []
        waivers = _covers(project)
        locks = [project.lock_as_it_is(name) for name in _stacks(project)]
        for lock in locks:
            name = lock.image.name
            if project.stale(lock):
                self.notes.append(
                    f"the lock of {name} is stale, and so is what it covers: patchkit lock --image {name}"
                )
            for step in lock.steps:
                waiver = waivers.get(f"{name}/{step.id}")
                if waiver is not None:
                    self._add(step, waiver)
        for lock in locks:
            for step in lock.steps if not lock.governed else ():
                self._add(step, f"{lock.image.name} (governed: false)")

    def _add(self, step: LockedStep, owner: str) -> None:
        """What one step covers; an owner that is there already stays."""
        known = not step.unresolved
        for path in step.touches or ():
            if known or not path.endswith("/"):
                self.paths.setdefault(path, owner)
        stated = [each for each in step.action.get("requirements", ()) if isinstance(each, str)]
        for requirement in [*stated, *(each.requirement for each in step.packages)]:
            pin = _pin(requirement)
            if pin is not None:
                self.pins.setdefault(pin, owner)
        if step.input is not None and step.input.path is not None:
            self.patches.setdefault(step.input.path, owner)

    def __call__(self, finding: ScanFinding) -> str | None:
        """The waiver's name, or the exempt stack's; None where neither covers it."""
        if finding.kind == "install":
            pin = _pin(finding.touches)
            return None if pin is None else self.pins.get(pin)
        if finding.kind not in _FILES:
            return None
        file = Path(os.path.realpath(finding.path))
        if file.is_relative_to(self.root) and file.suffix in (".patch", ".diff"):
            return self.patches.get(file.relative_to(self.root).as_posix())
        return self._path(finding.touches)

    def _path(self, touches: str) -> str | None:
        if touches in self.paths:
            return self.paths[touches]
        for path, owner in self.paths.items():
            inside = touches.startswith(path) if path.endswith("/") else touches.endswith(f"/{path}")
            if inside or (path.endswith("/") and f"/{path}" in touches):
                return owner
        return None


def _pin(text: str) -> tuple[str, str] | None:
    """A package in one version: `triton==3.7.0`, or a wheel's file name; None for anything that may move."""
    name = exempt.requirement(text)
    version = re.search(r"==\s*([^\s,;*]+)$", text) or re.search(r"-(\d[^-/]*)-[^/]*\.whl$", text)
    return None if name is None or version is None else (name, version[1])


def _stacks(project: Project) -> list[str]:
    return sorted(path.parent.name for path in Path(project.path("patches")).glob("*/stack.lock.json"))


def _covers(project: Project) -> dict[str, str]:
    """IMAGE/STEP to the name of the waiver that covers it. Raises one ConfigError for every file that is wrong."""
    found: dict[str, str] = {}
    problems: list[str] = []
    for path in sorted(Path(project.path("waivers")).glob("*.yaml")):
        if path.stem == _BASELINE:
            continue
        try:
            waiver, _ = read_waiver(path)
        except ConfigError as error:
            problems += error.problems
            continue
        for cover in waiver.covers:
            found.setdefault(cover, path.stem)
    if problems:
        raise ConfigError(*problems, hint="patchkit waiver check")
    return found
