"""What is looked at: the stacks, waivers and documents of a project, as data that `patchkit.app.waivers` reads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from patchkit.core.lockfile import Lock, LockedStep
    from patchkit.model.diffstat import FileCount
    from patchkit.model.image import Image
    from patchkit.model.stack import Stack, Step
    from patchkit.model.waiver import Baseline, Waiver
    from patchkit.model.yamlfile import Document, Where
    from patchkit.upstream.record import Record


@dataclass(frozen=True, slots=True, kw_only=True)
class StackFacts:
    """One image's stack. `lock` is as it is, `stale` says what has changed since; `counts` has each step's patch.

    `loose` are the patch files beside the stack that no step names.
    """

    image: Image
    stack: Stack
    document: Document
    lock: Lock
    stale: tuple[str, ...]
    counts: Mapping[str, tuple[FileCount, ...] | None]
    loose: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The image's name."""
        return self.stack.image

    @property
    def path(self) -> str:
        """The stack file, below the project."""
        return f"patches/{self.name}/stack.yaml"

    def step(self, step_id: str) -> Step | None:
        """The step of that id, or None."""
        return next((step for step in self.stack.steps if step.id == step_id), None)

    def locked(self, step_id: str) -> LockedStep | None:
        """The step of that id as it was locked, or None."""
        return self.lock.step(step_id)

    def line(self, step_id: str, *where: str) -> int:
        """The line of a step in the stack file, or of a value in it."""
        at = next((at for at, step in enumerate(self.stack.steps) if step.id == step_id), None)
        return 1 if at is None else self.document.line(("steps", at, *where))


@dataclass(frozen=True, slots=True, kw_only=True)
class WaiverFacts:
    """One waiver file: `stem` is its name without `.yaml`, `rendered` the document as it must be.

    `rendered` is None where it cannot be rendered (it covers nothing, or an image without a stack).
    """

    waiver: Waiver
    document: Document
    stem: str
    rendered: str | None = None

    @property
    def path(self) -> str:
        """The waiver file, below the project."""
        return f"waivers/{self.stem}.yaml"

    @property
    def output(self) -> str:
        """The document that is rendered from it, below the project."""
        return f"docs/waiver/{self.stem}.md"

    def line(self, *where: str | int) -> int:
        """The line of the value at `where`."""
        return self.document.line(where)

    def cover_line(self, step_id: str) -> int:
        """The line of the entry that covers a step."""
        at = next((at for at, found in enumerate(self.waiver.steps) if found == step_id), None)
        return self.line("covers") if at is None else self.line("covers", at)


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """A whole project. `documents` are the files of docs/waiver by path; `baseline` has its document for lines."""

    stacks: tuple[StackFacts, ...]
    images: tuple[Image, ...]
    waivers: tuple[WaiverFacts, ...]
    documents: Mapping[str, str]
    record: Record
    shared_loose: tuple[str, ...] = ()
    baseline: Baseline | None = None
    baseline_path: str = "waivers/baseline.yaml"
    baseline_document: Document | None = None

    def stack(self, image: str | None) -> StackFacts | None:
        """The stack of that image, or None."""
        return next((stack for stack in self.stacks if stack.name == image), None)

    def baseline_line(self, *where: str | int) -> int:
        """The line of a value in the baseline."""
        place: Where = where
        return 1 if self.baseline_document is None else self.baseline_document.line(place)
