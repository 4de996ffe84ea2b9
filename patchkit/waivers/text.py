"""Rules of text: no sentence states a number, image, version, commit or link that the stack states differently.

A text says something of a declared variable where the variable's name stands beside a value: "synthetic acceptance
length 2.45", `--kv-cache-dtype auto`, "three draft tokens". What is beside no known name is not judged.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from patchkit.model.stack import CommitPatch, PatchStep, Pin, PipStep
from patchkit.waivers.links import projects
from patchkit.waivers.rules import Finding

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from patchkit.model.image import Image
    from patchkit.waivers.subject import StackFacts, Subject, WaiverFacts

_WORDS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")
_NUMBER = rf"-?[0-9]+(?:\.[0-9]+)?|\b(?:{'|'.join(_WORDS)})\b"
_FILLER = r"(?:of|is|was|at|to|be|set|value|the|a|an|pinned|about|only|exactly|with|from)"
_BETWEEN = rf"(?:\s*[=:]|\s+{_FILLER}\b)*[\s=:`'\"(]*"
_HASH = re.compile(r"(?<![\w-])(?=[0-9a-f]*[0-9])(?=[0-9a-f]*[a-f])[0-9a-f]{7,40}(?![\w-])")
_NIGHTLY = re.compile(r"(?<![\w-])nightly-[0-9a-f]{4,40}(?![\w])")
_REFERENCE = re.compile(r"(?<![\w./-])([a-z0-9][\w.-]*(?:/[\w.-]+)+):([\w][\w.-]*[\w])")
_REQUIREMENT = re.compile(r"(?<![\w.-])([A-Za-z][\w.-]*?)(?:\[[\w,-]*\])?==([0-9][\w.+!-]*[\w])")
_LINKED = re.compile(
    r"https://github\.com/([\w.-]+/[\w.-]+)/(?:pull|issues)/[0-9]+|(?<![\w/.-])([\w.-]+/[\w.-]+)#[1-9][0-9]*"
)
_AWAITED = re.compile(r"(?i)\b(?:ships|has|reaches|until|before|after|than|since)\s+$")
_STEPS = re.compile(rf"(?i)\b(?:all|its|the|these|covers)\s+({_NUMBER})\s+steps\b")
_VERSION = re.compile(r"(?i)\bstack\s+version\s+([0-9]+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Passage:
    """A free text, and where it stands."""

    text: str
    path: str
    line: int
    where: str
    step: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Stated:
    """What is stated elsewhere, and therefore not open to a text: `values` are declared variables."""

    image: Image
    images: tuple[Image, ...]
    version: int
    steps: int
    values: tuple[tuple[str, str], ...]
    pins: Mapping[str, str | None]
    commits: frozenset[str]
    projects: frozenset[str]


def check(subject: Subject) -> Iterator[Finding]:
    """What the free texts of every waiver and of its covered steps contradict."""
    for waiver in subject.waivers:
        stack = subject.stack(waiver.waiver.image)
        if stack is None:
            continue
        stated = _stated(subject, waiver, stack)
        for passage in (*_statements(waiver), *_reasons(waiver, stack)):
            text = " ".join(passage.text.split())
            seen = set()
            for code, found, complaint in _contradictions(text, stated):
                if (code, found) not in seen:
                    seen.add((code, found))
                    yield Finding(
                        code=code,
                        path=passage.path,
                        line=passage.line,
                        step=passage.step,
                        subject=found,
                        message=f"{passage.where}: {complaint}",
                    )


def _stated(subject: Subject, waiver: WaiverFacts, stack: StackFacts) -> Stated:
    pins: dict[str, str | None] = {}
    commits = {component.commit for _, component in stack.image.components if component.commit}
    commits |= set(re.findall(r"[0-9a-f]{40}", stack.image.reference))
    for step in stack.stack.steps:
        if isinstance(step, PipStep) and step.pip is not None:
            for item in step.pip.requirements:
                name, _, version = (item.name, "", item.version) if isinstance(item, Pin) else item.partition("==")
                pins[_plain(name)] = version
        if isinstance(step, PatchStep) and isinstance(step.patch, CommitPatch) and step.patch.commit:
            commits.add(step.patch.commit.partition("@")[2])
    for fate in subject.record.fates.values():
        commits |= {sha for sha in (fate.head, fate.landed_as, fate.reverted_as) if sha}
    return Stated(
        image=stack.image,
        images=subject.images,
        version=stack.stack.version,
        steps=len(waiver.waiver.covers),
        values=tuple(pair for entry in waiver.waiver.config for pair in entry.values),
        pins=pins,
        commits=frozenset(commits),
        projects=frozenset(projects(waiver, stack.image)),
    )


def _plain(package: str) -> str:
    return re.sub(r"[-_.]+", "-", package.partition("[")[0]).lower()


def _statements(waiver: WaiverFacts) -> Iterator[Passage]:
    said = waiver.waiver
    texts: list[tuple[tuple[str | int, ...], str | None]] = [
        (("entrypoint",), said.entrypoint),
        *((("why", at, "symptom"), each.symptom) for at, each in enumerate(said.why)),
        *((("no_upstream", at, "because"), each.because) for at, each in enumerate(said.no_upstream)),
        (("removal", "plan"), said.removal.plan if said.removal else None),
    ]
    for where, text in texts:
        if text is not None:
            place = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in where).removeprefix(".")
            yield Passage(text=text, path=waiver.path, line=waiver.line(*where), where=place)


def _reasons(waiver: WaiverFacts, stack: StackFacts) -> Iterator[Passage]:
    for step in stack.stack.steps:
        if step.id not in waiver.waiver.steps:
            continue
        note = step.removal.note if step.removal else None
        for where, text in ((("reason",), step.reason), (("removal", "note"), note)):
            if text is not None:
                line = stack.line(step.id, *where)
                place = f"step {step.id}: {'.'.join(where)}"
                yield Passage(text=text, path=stack.path, line=line, where=place, step=step.id)


def _contradictions(text: str, stated: Stated) -> Iterator[tuple[str, str, str]]:
    """Each as code, what was found, and a sentence."""
    yield from _images(text, stated)
    for name, value in stated.values:
        yield from _value(text, name, value)
    for name, version in stated.pins.items():
        if version is not None:
            yield from _pin(text, name, version)
    yield from _unknown(text, stated)
    for pattern, right, what in ((_STEPS, stated.steps, "steps"), (_VERSION, stated.version, "stack version")):
        for match in pattern.finditer(text):
            if _number(match[1]) != right:
                yield "text-contradicts", match[0], f'"{match[0]}", and it is {right} ({what})'


def _unknown(text: str, stated: Stated) -> Iterator[tuple[str, str, str]]:
    """Pins, commits and links that are stated nowhere else."""
    for match in _REQUIREMENT.finditer(text):
        if _plain(match[1]) not in stated.pins:
            yield "pin-undeclared", match[0], f"{match[0]}: no step of the stack installs {match[1]}"
    for match in _HASH.finditer(text):
        if not any(sha.startswith(match[0]) or match[0].startswith(sha) for sha in stated.commits):
            yield "text-contradicts", match[0], f"commit {match[0]}: neither the stack nor the record has it"
    for match in _LINKED.finditer(text):
        repo = match[1] or match[2]
        if repo.lower() not in stated.projects:
            yield "link-other-project", match[0], f"{match[0]} is of another project than the image's components"


def _images(text: str, stated: Stated) -> Iterator[tuple[str, str, str]]:
    own = stated.image
    tag = own.reference.rpartition(":")[2]
    repository = own.reference.rpartition(":")[0]
    for match in _NIGHTLY.finditer(text):
        if not tag.startswith(match[0]) and not own.name.startswith(match[0]):
            yield "text-contradicts", match[0], f"image {match[0]}, and the waiver is for {own.name}"
    for match in _REFERENCE.finditer(text):
        if match[1] == repository and not tag.startswith(match[2]) and not _NIGHTLY.search(match[0]):
            yield "text-contradicts", match[0], f"image {match[0]}, and the waiver is for {own.reference}"
    for other in stated.images:
        named = re.search(rf"(?i)\bimage\s+[`'\"]?{re.escape(other.name)}(?![\w.-]*\w)", text)
        if named and other.name != own.name and not _NIGHTLY.search(other.name):
            yield "text-contradicts", other.name, f"image {other.name}, and the waiver is for {own.name}"


def _value(text: str, name: str, value: str) -> Iterator[tuple[str, str, str]]:
    words = [re.escape(word) for word in re.split(r"[-_\s.]+", name) if word]
    if not words:
        return
    spelled = rf"(?<![\w])(?P<option>--)?{r'[-_ ]+'.join(words)}s?\b"
    numbers = [float(number) for number in re.findall(r"-?[0-9]+(?:\.[0-9]+)?", value)]
    if re.fullmatch(r"[-0-9. to,/]+", value) and numbers:
        after = rf"(?i){spelled}{_BETWEEN}(?P<value>{_NUMBER})(?![\w.]*[A-Za-z])"
        before = rf"(?i)(?<![\w.#])(?P<value>{_NUMBER})[\s-]+{spelled}"
        for match in (*re.finditer(after, text), *re.finditer(before, text)):
            found = _number(match["value"])
            within = " to " in value and numbers[0] <= found <= numbers[-1]
            if found not in numbers and not within:
                yield "text-contradicts", match[0], f'"{match[0]}", and {name} is declared as {value}'
        return
    plain = rf"(?i){spelled}(?P<between>\s*[=:]\s*|(?:\s+{_FILLER}\b)*\s+[`'\"]|\s+)[`'\"]?(?P<value>[\w.]*\w)"
    for match in re.finditer(plain, text):
        if match["between"].isspace() and not match["option"]:
            continue  # the next word of a sentence, not a value
        if match["value"].lower() != value.lower():
            yield "text-contradicts", match[0], f'"{match[0]}", and {name} is declared as {value}'


def _pin(text: str, name: str, version: str) -> Iterator[tuple[str, str, str]]:
    words = [re.escape(word) for word in name.split("-")]
    pattern = (
        rf"(?i)(?<![\w-]){'[-_.]'.join(words)}(?:\[[\w,-]*\])?(?:\s*[=@:]+\s*|\s+(?:version\s+|at\s+)?)v?"
        r"(?P<value>[0-9]+(?:\.[0-9]+)+[\w+]*)(?!\s+or\s+(?:later|newer))"
    )
    for match in re.finditer(pattern, text):
        found = match["value"]
        if _AWAITED.search(text[: match.start()]):
            continue  # what a plan waits for is not what is pinned
        if version != found and not version.startswith((f"{found}.", f"{found}+")):
            yield "text-contradicts", match[0], f'"{match[0]}", and the stack pins {name} {version}'


def _number(text: str) -> float:
    word = text.lower()
    return float(_WORDS.index(word)) if word in _WORDS else float(text)
