"""Reads what waivers are about: every stack, waiver and document of a project, and renders the documents."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from patchkit.core.errors import ConfigError
from patchkit.model import diffstat
from patchkit.model.load import COMMON, load_image, read_baseline, read_stack, read_waiver
from patchkit.model.stack import PatchStep
from patchkit.upstream import record as records
from patchkit.waivers import output, view
from patchkit.waivers.render import render
from patchkit.waivers.scaffold import scaffold
from patchkit.waivers.subject import StackFacts, Subject, WaiverFacts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from datetime import date

    from patchkit.app.project import Project
    from patchkit.core.lockfile import Lock
    from patchkit.model.diffstat import FileCount
    from patchkit.model.image import Image
    from patchkit.upstream.record import Record
    from patchkit.waivers.rules import Finding

T = TypeVar("T")

BASELINE = "baseline"
TEMPLATE = "template.md.j2"
_PATCHES = (".patch", ".diff")


def read(project: Project, *, template: str | None = None, baseline: str | None = None, accept: bool = True) -> Subject:
    """The whole project. `template` and `baseline` are files of the caller's; without them those in waivers/ are
    taken, where there are any. No baseline is read unless `accept`. Raises one ConfigError with the problems of every file that cannot be read."""
    failures: list[ConfigError] = []
    images = _each(project.images(), lambda name: load_image(Path(project.image_file(name))), failures)
    by_name = {image.name: image for image in images}
    waivers = _each(_waiver_stems(project), lambda stem: _waiver(project, stem), failures)
    covered = {waiver.waiver.image for waiver in waivers}
    stacks = _each(_stack_names(project), lambda name: _stack(project, name, by_name, count=name in covered), failures)
    accepted = _baseline_path(project, baseline)
    shown = os.path.relpath(accepted.absolute(), project.root)
    wanted = accept and (baseline is not None or accepted.exists())
    kept = _each([shown] if wanted else [], lambda _: read_baseline(accepted), failures)
    if failures:
        problems = dict.fromkeys(problem for failure in failures for problem in failure.problems)
        raise ConfigError(*problems, hint=failures[0].hint)
    subject = Subject(
        stacks=tuple(stacks),
        images=tuple(images),
        waivers=tuple(waivers),
        documents=_documents(project),
        record=_record(project),
        shared_loose=_shared_loose(project, stacks),
        baseline=kept[0][0] if kept else None,
        baseline_path=shown,
        baseline_document=kept[0][1] if kept else None,
    )
    name, text = _template(project, template)
    rendered = (replace(each, rendered=_rendered(each, subject, name, text)) for each in waivers)
    return replace(subject, waivers=tuple(rendered))


def _each(names: Iterable[str], load: Callable[[str], T], failures: list[ConfigError]) -> list[T]:
    """What `load` makes of each name; what it raises is kept in `failures`."""
    found = []
    for name in names:
        try:
            found.append(load(name))
        except ConfigError as error:
            failures.append(error)
    return found


def _stack_names(project: Project) -> list[str]:
    folder = Path(project.path("patches"))
    return sorted(path.parent.name for path in folder.glob("*/stack.yaml"))


def _stack(project: Project, name: str, images: Mapping[str, Image], *, count: bool) -> StackFacts:
    path = project.stack_file(name)
    stack, document = read_stack(Path(path))
    image = images.get(name) or load_image(Path(project.image_file(name)))
    lock = project.lock_as_it_is(name)
    named = {step.patch for step in stack.steps if isinstance(step, PatchStep) and isinstance(step.patch, str)}
    return StackFacts(
        image=image,
        stack=stack,
        document=document,
        lock=lock,
        stale=tuple(project.stale(lock)),
        counts=_counts(project, lock) if count else {},
        loose=tuple(f"patches/{name}/{file}" for file in _patch_names(Path(path).parent) if file not in named),
    )


def _counts(project: Project, lock: Lock) -> Mapping[str, tuple[FileCount, ...] | None]:
    """The counted patches. One that is not on this machine is an error: the document would differ without it."""
    counts: dict[str, tuple[FileCount, ...] | None] = {}
    for step in lock.steps:
        if step.kind != "patch" or step.input is None:
            continue
        try:
            counts[step.id] = diffstat.count(project.read_input(step))
        except (ConfigError, OSError):
            if step.input.path is None:
                raise
            counts[step.id] = None  # the file was changed or removed: the lock is stale, which is told
    return counts


def _patch_names(folder: Path) -> list[str]:
    """The patch files in a folder, sorted."""
    if not folder.is_dir():
        return []
    return sorted(path.name for path in folder.iterdir() if path.suffix in _PATCHES)


def _shared_loose(project: Project, stacks: list[StackFacts]) -> tuple[str, ...]:
    """The patch files in patches/common that no step of any stack names."""
    steps = [step for stack in stacks for step in stack.stack.steps]
    named = {step.patch for step in steps if isinstance(step, PatchStep) and isinstance(step.patch, str)}
    names = _patch_names(Path(project.path("patches", COMMON)))
    return tuple(f"patches/{COMMON}/{name}" for name in names if name not in named)


def _waiver_stems(project: Project) -> list[str]:
    folder = Path(project.path("waivers"))
    return sorted(path.stem for path in folder.glob("*.yaml") if path.stem != BASELINE)


def _waiver(project: Project, stem: str) -> WaiverFacts:
    path = Path(project.path("waivers", f"{stem}.yaml"))
    waiver, document = read_waiver(path)
    return WaiverFacts(waiver=waiver, document=document, stem=stem)


def _rendered(waiver: WaiverFacts, subject: Subject, name: str, template: str | None) -> str | None:
    stack = subject.stack(waiver.waiver.image)
    if stack is None:
        return None
    return render(view.derive(waiver, stack, subject.record), template, name)


def _template(project: Project, given: str | None) -> tuple[str, str | None]:
    """The name and the text of the template: the caller's, the project's own, or None for the one that ships."""
    own = Path(project.path("waivers", TEMPLATE)) if given is None else Path(given)
    if given is None and not own.exists():
        return "the template", None
    try:
        return project.shown(str(own)), own.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise ConfigError(f"{own}: not UTF-8: {error.reason}", hint="name a template: --template FILE") from None
    except OSError as error:
        raise ConfigError(f"{own}: {error.strerror}", hint="name a template: --template FILE") from None


def _documents(project: Project) -> dict[str, str]:
    """The committed documents by their path; a README beside them is none."""
    folder = Path(project.path("docs", "waiver"))
    paths = sorted(folder.glob("*.md"))
    return {
        f"docs/waiver/{path.name}": path.read_bytes().decode("utf-8", "backslashreplace")
        for path in paths
        if not path.name.upper().startswith("README")
    }


def _record(project: Project) -> Record:
    path = Path(project.path("patches", "upstream.json"))
    if not path.exists():
        return records.Record(fates={})
    return records.parse(path.read_text(encoding="utf-8"), project.shown(str(path)))


def choose(subject: Subject, names: list[str]) -> tuple[WaiverFacts, ...]:
    """The waivers of these pull requests, all without a name. Raises ConfigError for one that is not there."""
    known = {waiver.stem: waiver for waiver in subject.waivers}
    missing = [name for name in names if name not in known]
    if missing:
        problems = [f"waivers/{name}.yaml: there is no such waiver" for name in missing]
        raise ConfigError(*problems, hint=f"there are: {', '.join(known) or 'none'}; patchkit waiver new PR --image N")
    return tuple(known[name] for name in dict.fromkeys(names)) if names else subject.waivers


def differing(subject: Subject, waivers: tuple[WaiverFacts, ...]) -> list[WaiverFacts]:
    """The waivers whose committed document is not what is rendered."""
    return [each for each in waivers if subject.documents.get(each.output) != _must(subject, each)]


def write(project: Project, subject: Subject, waivers: tuple[WaiverFacts, ...]) -> list[WaiverFacts]:
    """Write the documents that differ and return those waivers. Raises ConfigError where a lock is stale."""
    stale = [
        problem
        for each in waivers
        for problem in view.stack_of(each, subject.stack(each.waiver.image)).stale
    ]  # fmt: skip
    if stale:
        raise ConfigError(*dict.fromkeys(stale), hint="patchkit lock, then: patchkit waiver render")
    changed = differing(subject, waivers)
    for waiver in changed:
        path = Path(project.path(waiver.output))
        path.parent.mkdir(parents=True, exist_ok=True)
        new = path.with_name(f".{path.name}.new")
        new.write_bytes(_must(subject, waiver).encode("utf-8"))
        os.replace(new, path)
    return changed


def _must(subject: Subject, waiver: WaiverFacts) -> str:
    view.stack_of(waiver, subject.stack(waiver.waiver.image))
    if waiver.rendered is None:
        raise AssertionError(waiver.path)
    return waiver.rendered


def new(project: Project, number: int, image: str, *, filed: str) -> str:
    """Write the scaffold of a waiver for the steps of `image` that no waiver covers; return its path.

    Raises ConfigError where it is there already (it is never overwritten), or nothing is left to cover.
    """
    path = Path(project.path("waivers", f"{number}.yaml"))
    if os.path.lexists(path):
        raise ConfigError(
            f"waivers/{number}.yaml: it is there already, and is not overwritten", hint="patchkit waiver check"
        )
    failures: list[ConfigError] = []
    waivers = _each(_waiver_stems(project), lambda stem: _waiver(project, stem), failures)
    for failure in failures:
        raise failure
    stack = _stack(project, image, {}, count=False)
    covered = {cover for each in waivers for cover in each.waiver.covers}
    steps = tuple(step for step in stack.stack.steps if f"{image}/{step.id}" not in covered)
    if not steps:
        raise ConfigError(f"image {image}: every step is covered already", hint="patchkit waiver check")
    repositories = {each.waiver.repository for each in waivers if each.waiver.repository}
    only = repositories.pop() if len(repositories) == 1 else None
    text = scaffold(pull_request=number, stack=stack, steps=steps, repository=only, filed=filed)
    path.parent.mkdir(exist_ok=True)
    with path.open("x", encoding="utf-8", newline="\n") as stream:
        stream.write(text)
    return f"waivers/{number}.yaml"


def write_baseline(project: Project, given: str | None, findings: tuple[Finding, ...], reason: str, until: date) -> str:
    """Write a baseline that accepts these findings, in place of the one that is there; return its path."""
    path = _baseline_path(project, given)
    path.parent.mkdir(exist_ok=True)
    path.write_text(output.baseline(findings, reason, until.isoformat()), encoding="utf-8", newline="\n")
    return project.shown(str(path))


def _baseline_path(project: Project, given: str | None) -> Path:
    return Path(given) if given is not None else Path(project.path("waivers", f"{BASELINE}.yaml"))
