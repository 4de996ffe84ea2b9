"""Rules of links and removal plans: what is linked is the right thing, and what is waited for can still come."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from packaging.version import InvalidVersion, Version

from patchkit.upstream.actions import Known, Plan, Question, advise
from patchkit.upstream.facts import Containment, Fate, Ref, State
from patchkit.waivers.rules import Finding

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import date

    from patchkit.core.lockfile import LockedStep
    from patchkit.model.image import Component, Image
    from patchkit.model.stack import Step
    from patchkit.model.waiver import Recipe
    from patchkit.upstream.record import Record
    from patchkit.waivers.subject import StackFacts, Subject, WaiverFacts

_PULL = re.compile(r"https://(?P<host>[^/]+)/(?P<repo>[^/]+/[^/]+)/pull/(?P<number>[1-9][0-9]*)(?:[/?#].*)?")


def check(subject: Subject, today: date) -> Iterator[Finding]:
    """What is wrong with the links and the removal plans of every waiver."""
    for waiver in subject.waivers:
        yield from _recipes(waiver, subject.record, today)
        stack = subject.stack(waiver.waiver.image)
        if stack is None:
            continue
        for step in stack.stack.steps:
            if step.id in waiver.waiver.steps:
                yield from _upstream(waiver, stack, step, subject.record)
                yield from _removal(stack, step, subject.record)
        yield from _conditions(waiver, stack, subject.record)


def projects(waiver: WaiverFacts, image: Image) -> set[str]:
    """The repositories, in lower case, that a waiver may link: the image's components, and its own."""
    repos = {component.repo.lower() for _, component in image.components}
    return repos | ({waiver.waiver.repository.lower()} if waiver.waiver.repository else set())


def _upstream(waiver: WaiverFacts, stack: StackFacts, step: Step, record: Record) -> Iterator[Finding]:
    allowed = projects(waiver, stack.image)
    for at, text in enumerate(step.upstream):
        ref = Ref.parse(text)
        line = stack.document.line(("steps", stack.stack.steps.index(step), "upstream", at))
        if str(ref).partition("#")[0].lower() not in allowed:  # with its host, where that is not the default
            components = ", ".join(component.repo for _, component in stack.image.components) or "none"
            message = f"step {step.id}: {text} is of another project than the image's components: {components}"
            yield Finding(
                code="link-other-project", path=stack.path, line=line, step=step.id, subject=text, message=message
            )
        elif ref not in record.fates:
            message = f"step {step.id}: patches/upstream.json says nothing of {text}"
            yield Finding(
                code="upstream-unrecorded", path=stack.path, line=line, step=step.id, subject=text, message=message
            )


def _recipes(waiver: WaiverFacts, record: Record, today: date) -> Iterator[Finding]:
    for at, recipe in enumerate(waiver.waiver.recipes):
        line = waiver.line("recipes", at)
        other = _other_model(recipe, waiver.waiver.model)
        if other is not None:
            message = f"recipes[{at}]: {other}"
            yield Finding(code="link-other-project", path=waiver.path, line=line, subject=recipe.link, message=message)
        why = _unmerged(recipe, record, today)
        if why is not None:
            message = f"recipes[{at}]: {recipe.link} {why}"
            yield Finding(code="recipe-not-merged", path=waiver.path, line=line, subject=recipe.link, message=message)


def _other_model(recipe: Recipe, model: str | None) -> str | None:
    """Why a recipe is not of the waiver's model; a pull request's address does not tell its model."""
    if model is None:
        return None
    if _slug(recipe.model) != _slug(model):
        return f"{recipe.link} is for {recipe.model}, the waiver is for {model}"
    words = [re.escape(word) for word in re.findall(r"[a-z0-9]+", _slug(model))]
    named = re.compile(rf"(?<![a-z0-9]){'[^a-z0-9/]*'.join(words)}(?![a-z0-9])")
    if _PULL.fullmatch(recipe.link) is None and not named.search(recipe.link.lower()):
        return f"{recipe.link} does not name the model {model}: it is another model's page"
    return None


def _slug(model: str) -> str:
    return model.rpartition("/")[2].strip().lower()


def _unmerged(recipe: Recipe, record: Record, today: date) -> str | None:
    match = _PULL.fullmatch(recipe.link)
    ref = Ref(repo=match["repo"], number=int(match["number"]), host=match["host"]) if match else None
    fate = record.fates.get(ref) if ref else None
    if fate is not None and fate.state is not State.MERGED and fate.state is not State.UNKNOWN:
        return f"is {fate.state.value} as of {fate.as_of}, says patches/upstream.json"
    if recipe.merged is None and (fate is None or fate.state is not State.MERGED):
        return "is not known to be merged: `merged` states no day"
    if recipe.merged is not None and recipe.merged > today.isoformat():
        return f"is not merged yet: `merged` states {recipe.merged}, a day to come"
    return None


def _removal(stack: StackFacts, step: Step, record: Record) -> Iterator[Finding]:
    removal = step.removal
    if removal is None or removal.when == "manual" or removal.ref is None:
        return
    line = stack.line(step.id, "removal")
    why = _impossible(removal.when, removal.ref, record)
    if why is not None:
        yield Finding(
            code="removal-impossible",
            path=stack.path,
            line=line,
            step=step.id,
            subject=removal.ref,
            message=f"step {step.id}: {why}",
        )
    met = _met(removal.when, removal.ref, stack, stack.locked(step.id), record)
    if met is not None:
        yield Finding(
            code="removal-met",
            path=stack.path,
            line=line,
            step=step.id,
            subject=removal.ref,
            message=f"step {step.id}: {met}: retire it",
        )


def _conditions(waiver: WaiverFacts, stack: StackFacts, record: Record) -> Iterator[Finding]:
    removal = waiver.waiver.removal
    for at, condition in enumerate(removal.conditions if removal else ()):
        ref = condition.image_contains
        answers = {
            "removal-impossible": _impossible("contained", ref, record),
            "removal-met": _met("contained", ref, stack, None, record),
        }
        for code, why in answers.items():
            if why is not None:
                yield Finding(
                    code=code,
                    path=waiver.path,
                    line=waiver.line("removal", "conditions", at),
                    subject=ref,
                    message=f"removal.conditions[{at}]: {why} (steps {', '.join(condition.steps)})",
                )


def _impossible(when: str, ref: str, record: Record) -> str | None:
    """Why waiting for a pull request is in vain, in the words of `patchkit status`."""
    fate = record.fates.get(Ref.parse(ref))
    if fate is None:
        return None
    known = Known(fate=fate, containment=Containment(in_image=None, how="unknown", evidence=()))
    impossible = advise(Question(known=(known,), plan=Plan(when=when, ref=fate.ref))).impossible
    return None if impossible is None else f"{impossible}, and that is {fate.state.value} as of {fate.as_of}"


def _met(when: str, ref: str, stack: StackFacts, locked: LockedStep | None, record: Record) -> str | None:
    """Why a removal condition is met; None where it is not, or that cannot be told from what is committed."""
    if stack.lock.exact and locked is not None and locked.before and locked.before == locked.after:
        return "the image's own files have the change already"
    fate = record.fates.get(Ref.parse(ref))
    if fate is None or fate.state is not State.MERGED:
        return None
    if when == "released":
        return f"{ref} is in release {fate.first_release}" if fate.first_release else None
    for name, component in stack.image.components:
        if component.repo.lower() == str(fate.ref).partition("#")[0].lower() and _holds(component, fate):
            return f"the image contains {ref}: its {name} is at {component.release or component.commit}"
    return None


def _holds(component: Component, fate: Fate) -> bool:
    """Whether a component surely has a landed change: it is at that very commit, or is that release or a later one."""
    if component.commit is not None and fate.landed_as is not None and fate.landed_as.startswith(component.commit):
        return True
    if not component.exact or component.release is None or fate.first_release is None:
        return False
    try:
        return Version(component.release) >= Version(fate.first_release)
    except InvalidVersion:
        return False
