"""What a waiver is: the human statements for one pull request that introduces patches, as `waivers/PR.yaml` has them.

Nothing that can be derived is in it. What is not stated is None or empty: `waiver check` names it, so that a
scaffold with gaps can be loaded. Standard-library types only; `patchkit.model.load` makes them from a file.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from patchkit.model import rules
from patchkit.model.rules import AtLeast, Date, NonEmpty, Pairs, SomeText

GAP = "FILL IN"
"""What marks a statement that a person must still make."""

Steps = Annotated[tuple[Annotated[str, rules.STEP_ID], ...], NonEmpty()]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigEntry:
    """One entry of the benchmark's config that runs the patched image.

    `file` holds the entry and `script` is what it runs, both in the waiver's repository (None: not known);
    `values` are the declared variables, which no free text may contradict.
    """

    __pydantic_config__ = rules.EDGE

    entry: SomeText
    file: SomeText | None = None
    script: SomeText | None = None
    values: Annotated[tuple[tuple[str, str], ...], Pairs(SomeText, SomeText)] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Symptom:
    """Why the unmodified image cannot run the benchmark, and the steps (of the covered image) that cure it."""

    __pydantic_config__ = rules.EDGE

    symptom: SomeText
    steps: Steps


@dataclass(frozen=True, slots=True, kw_only=True)
class NoUpstream:
    """Why there is no upstream pull request or issue to link for these steps."""

    __pydantic_config__ = rules.EDGE

    steps: Steps
    because: SomeText


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """Steps that go once the image contains a pull request; the stack's own `removal` of each still holds."""

    __pydantic_config__ = rules.EDGE

    steps: Steps
    image_contains: Annotated[str, rules.PULL_REQUEST]


@dataclass(frozen=True, slots=True, kw_only=True)
class RemovalPlan:
    """How the waiver is retired: a sentence for people, and conditions beyond those of the stack."""

    __pydantic_config__ = rules.EDGE

    plan: SomeText
    conditions: tuple[Condition, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """A public recipe that the benchmark follows: its pull request, or its published page.

    `model` is the model that it is for; `merged` the day on which it was seen merged (a page: published), None
    where it was not.
    """

    __pydantic_config__ = rules.EDGE

    link: Annotated[str, rules.URL]
    model: SomeText
    merged: Date | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiver:
    """The statements of one waiver. `model` is what the benchmark serves; `covers` are IMAGE/STEP of one image."""

    __pydantic_config__ = rules.EDGE

    repository: Annotated[str, rules.REPOSITORY] | None = None
    pull_request: Annotated[int, AtLeast(1)] | None = None
    model: SomeText | None = None
    owner: SomeText | None = None
    filed: Date | None = None
    expires: Date | None = None
    entrypoint: SomeText | None = None
    config: tuple[ConfigEntry, ...] = ()
    covers: tuple[Annotated[str, rules.COVER], ...] = ()
    why: tuple[Symptom, ...] = ()
    no_upstream: tuple[NoUpstream, ...] = ()
    removal: RemovalPlan | None = None
    recipes: tuple[Recipe, ...] = ()

    @property
    def image(self) -> str | None:
        """The one image whose steps are covered; None where nothing is."""
        return self.covers[0].partition("/")[0] if self.covers else None

    @property
    def steps(self) -> tuple[str, ...]:
        """The ids of the covered steps."""
        return tuple(cover.partition("/")[2] for cover in self.covers)


@dataclass(frozen=True, slots=True, kw_only=True)
class Suppression:
    """A finding that is accepted for a while: all three of what, why and until when are needed.

    Without `step` or `subject` every finding of that code in `path` is meant.
    """

    __pydantic_config__ = rules.EDGE

    code: Annotated[str, rules.FINDING_CODE]
    path: SomeText
    step: str | None = None
    subject: str | None = None
    reason: SomeText
    expires: Date


@dataclass(frozen=True, slots=True, kw_only=True)
class Baseline:
    """`waivers/baseline.yaml`: the findings that `waiver check` does not fail on, for gradual adoption."""

    __pydantic_config__ = rules.EDGE

    suppressions: tuple[Suppression, ...]
