"""Resolves a stack into its lock: reads the YAML, fetches remote patches, tries every step on pristine files."""

from __future__ import annotations

import dataclasses
import hashlib
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from patchkit.app.lock_inputs import Resolver, write_if_changed
from patchkit.app.pristine import Pristine
from patchkit.core.errors import ConfigError, ConflictError
from patchkit.core.identity import read_commit, same_commit
from patchkit.core.judge import Judgement, judge_file, judge_patch, judge_replace, sections_of
from patchkit.core.lockfile import (
    FileRef,
    Lock,
    LockedImage,
    LockedSource,
    LockedStep,
    content_digest,
    parse,
    render,
)
from patchkit.core.selection import FILE_KINDS
from patchkit.core.tree import Overlay
from patchkit.core.verdicts import GOOD, Verdict
from patchkit.model.load import load_image, load_stack
from patchkit.sources.cache import Cache

if TYPE_CHECKING:
    from patchkit.app.project import Project
    from patchkit.core.diffs import Section
    from patchkit.core.operate import ReadInput
    from patchkit.model.image import Image
    from patchkit.model.stack import Stack


@dataclass(frozen=True, slots=True, kw_only=True)
class Locked:
    """A lock made: `changed` tells whether the file differs now, `notes` what a person should see,
    `bytes_received` what came over the network."""

    lock: Lock
    changed: bool
    notes: tuple[str, ...]
    bytes_received: int


def lock_stack(
    project: Project, name: str, *, amend: bool = False, vendor: bool = False, source: str | None = None
) -> Locked:
    """Resolve the stack of image `name` and write its lock.

    `source` names where pristine files come from in this run; `vendor` puts remote patches beside
    the stack; `amend` allows changed content under a version that was locked before.
    Raises ConfigError (every problem of both files at once), ConflictError where a step does not
    fit the pristine files, UnreachableError where a needed source or an already pinned patch
    cannot be read. The old lock stays as it is then.
    """
    image, stack = _load(project, name)
    cache = Cache()
    old = _old_lock(project, name)
    specs = (source,) if source is not None else _release_specs(image)
    with Pristine(specs, site=image.site, platform=image.platform, cache=cache) as pristine:
        resolver = Resolver(project, stack, image, cache, pristine, old, vendor)
        whole = _has_all_sources(image) or (source is not None and os.path.isdir(source))
        steps = _try_steps(tuple(resolver.resolve(step) for step in stack.steps), pristine, resolver, image, whole)
        lock = _assemble(project, image, stack, steps, pristine, source, old, amend)
        read_from = (f"pristine files from {s.describe()}" for s in pristine.sources)
        notes = (*read_from, *resolver.notes, *_step_notes(steps))
        for path in {path for step in steps for path in step.before} | set(lock.support):
            state = pristine.read(path)
            if state is not None:
                cache.add(state.data)
        received = pristine.traffic.bytes_received
    text = render(lock)
    lock = parse(text.encode("ascii"), project.lock_file(name))
    changed = write_if_changed(project.lock_file(name), text)
    return Locked(lock=lock, changed=changed, notes=notes, bytes_received=received)


def check_lock(project: Project, name: str) -> Lock:
    """The fresh lock of `name`, held against the YAML and the version rule. Raises ConfigError."""
    _, stack = _load(project, name)
    lock = project.lock(name)
    problems = []
    if lock.version != stack.version or [s.id for s in lock.steps] != [s.id for s in stack.steps]:
        problems.append(f"patches/{name}/stack.lock.json: its version or steps are not those of stack.yaml")
    if lock.versions.get(str(lock.version)) != content_digest(lock.steps):
        problems.append(f"patches/{name}/stack.lock.json: its steps are not the content of version {lock.version}")
    if problems:
        raise ConfigError(*problems, hint=f"patchkit lock --image {name}")
    return lock


def _load(project: Project, name: str) -> tuple[Image, Stack]:
    """Both files of an image, with the problems of both."""
    loaded: list[Any] = []
    problems: list[str] = []
    hints: list[str] = []
    for loader, path in ((load_image, project.image_file(name)), (load_stack, project.stack_file(name))):
        try:
            loaded.append(loader(Path(path)))
        except ConfigError as error:
            problems += error.problems
            hints.append(error.hint)
    if problems:
        raise ConfigError(*problems, hint=hints[0])
    return loaded[0], loaded[1]


def _old_lock(project: Project, name: str) -> Lock | None:
    try:
        with open(project.lock_file(name), "rb") as stream:
            return parse(stream.read(), project.shown(project.lock_file(name)))
    except FileNotFoundError:
        return None
    except ConfigError as error:
        raise ConfigError(
            *error.problems, hint="restore it from git: it holds the versions and hashes that were locked before"
        ) from None


def _release_specs(image: Image) -> tuple[str, ...]:
    return tuple(f"{name}=={c.release}" for name, c in image.components if c.release is not None)


def _try_steps(
    steps: tuple[LockedStep, ...], pristine: Pristine, resolver: Resolver, image: Image, whole: bool
) -> tuple[LockedStep, ...]:
    """Every resolved step tried in order on the pristine files, with its files before and after.

    `whole`: the sources hold all of the image's files, so that one they do not hold is not there.
    """
    overlay = Overlay(pristine)
    done: list[LockedStep] = []
    failures: list[str] = []
    for untried in steps:
        if untried.kind not in FILE_KINDS or untried.unresolved:
            done.append(untried)
            continue
        sections = sections_of(untried, resolver.read_input) if untried.kind == "patch" else ()
        paths = _paths(untried, sections)
        step = dataclasses.replace(untried, touches=paths)
        if any(not e.after and e.shares_files(step) for e in done):
            done.append(step)  # what it starts from is not known
            continue
        if step.kind == "file" and not whole and overlay.read(paths[0]) is None:
            done.append(step)  # whether the image holds such a file is seen on the image
            continue
        judgement = _judge(step, sections, overlay, resolver.read_input)
        maker = next((earlier.id for earlier in done if earlier.kind not in FILE_KINDS), None)
        if maker is not None and judgement.verdict not in GOOD:
            resolver.notes.append(f"step {step.id}: not tried: {judgement.verdict.value} without what {maker} makes")
            done.append(step)
            continue
        if judgement.verdict is Verdict.MISSING and not _has_all_sources(image):
            resolver.notes.append(f"step {step.id}: not tried: no source at hand holds {', '.join(paths)}")
            done.append(step)
            continue
        if judgement.verdict not in (Verdict.APPLIES, Verdict.OFFSET, Verdict.UPSTREAM):
            failures.append(f"step {step.id}: {judgement.verdict.value}" + "".join(f"\n{d}" for d in judgement.detail))
            done.append(step)
            continue
        done.append(_with_files(step, paths, judgement, overlay))
    if failures:
        raise ConflictError(*failures, hint=f"mend the patch, then: patchkit lock --image {image.name}")
    return tuple(done)


def _judge(step: LockedStep, sections: tuple[Section, ...], tree: Overlay, read_input: ReadInput) -> Judgement:
    """As `judge`, but on a tree that is pristine by definition: a step whose old and new text both
    fit is taken as not applied where its line numbers say so exactly."""
    if step.kind == "replace":
        return judge_replace(step.action, tree, same_tree=True)
    if step.kind == "file":
        return judge_file(step, tree, read_input)
    judgement = judge_patch(sections, tree)
    if judgement.verdict is Verdict.CONFLICT:
        forced = judge_patch(sections, tree, same_tree=True)
        if forced.verdict is Verdict.APPLIES:
            return forced
    return judgement


def _paths(step: LockedStep, sections: tuple[Section, ...]) -> tuple[str, ...]:
    if step.kind in ("replace", "file"):
        return (step.action["path"],)
    return tuple(dict.fromkeys(path for section in sections for path in section.paths))


def _has_all_sources(image: Image) -> bool:
    return all(component.release is not None for _, component in image.components)


def _with_files(step: LockedStep, paths: tuple[str, ...], judgement: Judgement, overlay: Overlay) -> LockedStep:
    before = {path: FileRef.of(overlay.read(path)) for path in paths}
    for path, state in judgement.writes.items():
        overlay.write(path, state)
    # a path that the step does not write may be out of reach now: below a folder that it made a file
    writes = judgement.writes
    after = {path: FileRef.of(writes[path]) if path in writes else before[path] for path in paths}
    return dataclasses.replace(step, before=before, after=after, changes=judgement.changes)


def _step_notes(steps: tuple[LockedStep, ...]) -> list[str]:
    notes = []
    for step in steps:
        notes += [f"step {step.id} stays unresolved: {u}; {u.command}" for u in step.unresolved]
        if step.after and step.before == step.after:
            notes.append(f"step {step.id}: the pristine files hold its change already")
    return notes


def _assemble(
    project: Project,
    image: Image,
    stack: Stack,
    steps: tuple[LockedStep, ...],
    pristine: Pristine,
    source: str | None,
    old: Lock | None,
    amend: bool,
) -> Lock:
    identity = image.identity
    found = read_commit(pristine, identity.file) if identity is not None else ""
    content = content_digest(steps)
    support = {identity.file: FileRef.of(pristine.read(identity.file))} if identity is not None else {}
    return Lock(
        digest="",
        image=LockedImage(
            name=image.name,
            reference=image.reference,
            digest=image.digest,
            platform=image.platform,
            site=image.site,
            identity_file=identity.file if identity is not None else "",
            identity_commit=identity.commit if identity is not None else "",
        ),
        version=stack.version,
        governed=stack.governed,
        ungoverned_reason=stack.reason or "",
        exact=_is_exact(image, source, found),
        sources=tuple(LockedSource(spec=s.spec, commit=found) for s in pristine.sources),
        inputs=_inputs(project, image.name, steps),
        versions=_versions(stack, content, old, amend),
        support={path: ref for path, ref in support.items() if ref is not None},
        steps=steps,
    )


def _is_exact(image: Image, source: str | None, found: str) -> bool:
    """Whether the pristine files are the image's own. Raises ConfigError where the image says so and
    the release's own commit says otherwise."""
    matches = image.identity is not None and same_commit(found, image.identity.commit)
    if source is not None:
        return matches
    exact = bool(image.components) and all(c.exact for _, c in image.components if c.release is not None)
    if exact and image.identity is not None and not matches:
        raise ConfigError(
            f"images/{image.name}.yaml: components say exact, but {image.identity.file} of"
            f" {', '.join(_release_specs(image))} records commit {found or '(none)'}, not {image.identity.commit}",
            hint=f"correct release or identity, or say exact: false, then: patchkit lock --image {image.name}",
        )
    return exact


def _inputs(project: Project, name: str, steps: tuple[LockedStep, ...]) -> dict[str, str]:
    paths = {f"images/{name}.yaml", f"patches/{name}/stack.yaml"}
    paths |= {step.input.path for step in steps if step.input is not None and step.input.path is not None}
    wheels = [wheel for step in steps for package in step.packages for wheel in package.wheels]
    paths |= {wheel.input.path for wheel in wheels if wheel.input.path is not None}
    return {path: hashlib.sha256(Path(project.path(path)).read_bytes()).hexdigest() for path in sorted(paths)}


def _versions(stack: Stack, content: str, old: Lock | None, amend: bool) -> dict[str, str]:
    """Every version ever locked and its content. Raises ConfigError for changed content under an old one."""
    versions = dict(old.versions) if old is not None else {}
    version = str(stack.version)
    if versions.get(version, content) != content and not amend:
        highest = max(int(v) for v in versions)
        raise ConfigError(
            f"patches/{stack.image}/stack.yaml: version {version} was locked before with other content",
            hint=f"set `version: {highest + 1}`, then: patchkit lock --image {stack.image};"
            " or, if it was never applied anywhere: patchkit lock --amend",
        )
    versions[version] = content
    return dict(sorted(versions.items(), key=lambda item: int(item[0])))
