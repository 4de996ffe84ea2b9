"""Turns the steps of a stack into locked steps: inputs fetched and pinned, files not tried yet."""

from __future__ import annotations

import dataclasses
import hashlib
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from patchkit.app.lock_remote import file_input, pinned
from patchkit.core.errors import ConfigError, UnreachableError
from patchkit.core.lockfile import Lock, LockedInput, LockedPackage, LockedStep, Unknown
from patchkit.model.load import patch_file
from patchkit.model.stack import CommitPatch, FileStep, PatchStep, PipStep, ReplaceStep, RunStep, Stack, Step, touches
from patchkit.sources.commit import commit_patch, commit_url

if TYPE_CHECKING:
    from patchkit.app.pristine import Pristine
    from patchkit.app.project import Project
    from patchkit.model.image import Image
    from patchkit.model.stack import Packages
    from patchkit.sources.cache import Cache


class Resolver:
    """One run of `lock` over the steps of a stack; `notes` is what a person should see."""

    def __init__(
        self,
        project: Project,
        stack: Stack,
        image: Image,
        cache: Cache,
        pristine: Pristine,
        old: Lock | None,
        vendor: bool,
    ) -> None:
        self.image = image
        self.project, self.stack, self.cache = project, stack, cache
        self.pristine, self.old, self.vendor = pristine, old, vendor
        self.notes: list[str] = []
        self.inputs: dict[str, str] = {}
        self._unreachable: str | None = None

    def resolve(self, step: Step) -> LockedStep:
        unresolved = [Unknown(what=u.what, command=u.command) for u in self.stack.unresolved(step)]
        pinned: LockedInput | None = None
        packages: tuple[LockedPackage, ...] = ()
        stage = "build"
        paths = touches(step)
        if isinstance(step, PatchStep):
            if not unresolved:
                pinned = self._patch_input(step, unresolved)
        elif isinstance(step, FileStep):
            if not unresolved:
                pinned = self._file_input(step)
        elif isinstance(step, PipStep):
            if not unresolved:
                packages = self._packages(step, unresolved)
        elif isinstance(step, RunStep) and step.run is not None:
            stage = step.run.stage
        return LockedStep(
            id=step.id,
            kind=step.kind,
            action=_action(step),
            stage=stage,
            type=step.type,
            upstream=step.upstream,
            reason=step.reason or "",
            unresolved=tuple(unresolved),
            input=pinned,
            packages=packages,
            touches=paths if isinstance(step, PatchStep | ReplaceStep | FileStep) else (),
            before={},
            after={},
        )

    def read_input(self, step: LockedStep) -> bytes:
        """The bytes of a step's patch, from the project or the cache."""
        return self.project.read_input(step)

    def _patch_input(self, step: PatchStep, unresolved: list[Unknown]) -> LockedInput | None:
        if isinstance(step.patch, str):
            path = patch_file(Path(self.project.stack_file(self.stack.image)), step.patch)
            relative = os.path.relpath(path, self.project.root)
            return LockedInput(path=relative, url=None, sha256=hashlib.sha256(path.read_bytes()).hexdigest())
        assert isinstance(step.patch, CommitPatch)
        assert step.patch.commit is not None
        repo, _, sha = step.patch.commit.partition("@")
        url = commit_url(repo, sha)
        pin = self._old_pin(url)
        data = None if pin is None else self._bytes_at_hand(pin)
        if data is None:
            data = self._fetch(step, repo, sha, unresolved, pinned=pin is not None)
        if data is None:
            return None
        digest = self.cache.add(data)
        if pin is not None and pin.sha256 != digest:
            raise ConfigError(
                f"step {step.id}: {url}: locked was sha256 {pin.sha256[:12]}…, the forge now answers {digest[:12]}…",
                hint="a commit never changes: find out who answers there before you go on",
            )
        kept = pin.path if pin is not None else None
        return LockedInput(path=self._vendored(f"{sha}.patch", data) if self.vendor else kept, url=url, sha256=digest)

    def _packages(self, step: PipStep, unresolved: list[Unknown]) -> tuple[LockedPackage, ...]:
        from patchkit.app.lock_packages import PackagePins

        assert step.pip is not None
        pins = PackagePins(self.image, self.cache, self.pristine.traffic.open)
        old = self.old.step(step.id) if self.old is not None else None
        packages, unknown = pins.pin(step.id, step.pip, old, self._vendored if self.vendor else None)
        unresolved += [unknown] if unknown is not None else []
        return packages

    def _file_input(self, step: FileStep) -> LockedInput:
        assert step.file is not None
        old = self._old_pin(step.file.url or "")
        kept = old.path if old is not None and old.sha256 == step.file.sha256 else None
        pin, data = file_input(
            step.id,
            step.file,
            self.cache,
            image=self.stack.image,
            at_hand=lambda pin: self._bytes_at_hand(dataclasses.replace(pin, path=kept)),
            open_http=self.pristine.traffic.open,
        )
        self.cache.add(data)
        name = f"{pin.sha256[:16]}-{os.path.basename(step.file.path)}"
        return dataclasses.replace(pin, path=self._vendored(name, data) if self.vendor else kept)

    def _old_pin(self, url: str) -> LockedInput | None:
        """What the old lock has for `url`."""
        steps = self.old.steps if self.old is not None else ()
        return next((step.input for step in steps if step.input is not None and step.input.url == url), None)

    def _bytes_at_hand(self, pin: LockedInput) -> bytes | None:
        """The pinned bytes, from the project or the cache; None where neither has them."""
        if pin.path is not None:
            try:
                data = Path(self.project.path(pin.path)).read_bytes()
            except OSError:
                data = b""
            if hashlib.sha256(data).hexdigest() == pin.sha256:
                return data
        return self.cache.blob(pin.sha256)

    def _fetch(self, step: PatchStep, repo: str, sha: str, unresolved: list[Unknown], *, pinned: bool) -> bytes | None:
        """The commit from its forge. Where that cannot be reached: an error for what was pinned before,
        else the step stays unresolved."""
        from patchkit.io.http import HttpError

        try:
            if self._unreachable is not None:  # one failure speaks for the forge: do not wait for it again
                raise UnreachableError(self._unreachable)
            return commit_patch(repo, sha, self.pristine.traffic.open())
        except UnreachableError as error:
            if pinned:
                raise
            if self._unreachable is None:
                self.notes.append(f"step {step.id}: not fetched: {error}")
            if isinstance(error, HttpError) and error.status is None:
                self._unreachable = str(error)
            what = f"the content of {repo}@{sha}"
            command = f"patchkit lock --image {self.stack.image}, where the forge can be reached"
            unresolved.append(Unknown(what=what, command=command))
            return None

    def _vendored(self, name: str, data: bytes) -> str:
        relative = f"patches/{self.stack.image}/vendor/{name}"
        path = self.project.path(relative)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        write_if_changed(path, data)
        return relative


def _action(step: Step) -> dict[str, Any]:
    """What the step does, as data: everything that decides bytes, and nothing else."""
    match step:
        case PatchStep():
            paths: tuple[str, ...] = ()
            commit = None
            if isinstance(step.patch, CommitPatch):
                commit, paths = step.patch.commit, step.patch.paths or ()
            return {"commit": commit, "paths": list(paths), "strip": step.strip, "prefix": step.prefix}
        case ReplaceStep():
            return _plain(step.replace)
        case PipStep():
            return _packages_action(step.pip)
        case FileStep():
            return _plain(step.file)
        case RunStep():
            return _plain(step.run)


def _packages_action(pip: Packages | None) -> dict[str, Any]:
    if pip is None:
        return {}
    action = _plain(pip) | {"requirements": list(pinned(pip))}
    if not pip.may_move:  # as it was before there was such a key: the same content stays the same version
        del action["may_move"]
    return action


def _plain(value: Any) -> dict[str, Any]:
    """A model object as JSON data; a trailing underscore of a field's name goes."""
    if value is None:
        return {}
    data: dict[str, Any] = {}
    for key, item in dataclasses.asdict(value).items():
        data[key.rstrip("_")] = list(item) if isinstance(item, tuple) else item
    return data


def write_if_changed(path: str, content: str | bytes) -> bool:
    """Put `content` at `path`, whole or not at all; whether that changed anything."""
    data = content.encode("ascii") if isinstance(content, str) else content
    try:
        with open(path, "rb") as stream:
            if stream.read() == data:
                return False
    except FileNotFoundError:
        pass
    temp = f"{path}.tmp"
    with open(temp, "wb") as stream:
        stream.write(data)
        stream.flush()
        os.fsync(stream.fileno())
    os.replace(temp, path)
    return True
