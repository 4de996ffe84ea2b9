"""What a stack is: the ordered steps carried for one image, as `patches/NAME/stack.yaml` lists them.

A fact that is not known is None; `Stack.unresolved` names it and what resolves it. Standard-library
types only; `patchkit.model.load` makes them from a file.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, NoReturn, TypeAlias

from patchkit.model import rules
from patchkit.model.rules import Argv, AtLeast, Choice, NonEmpty, Pairs, Sha256, SitePath, SomeText

if TYPE_CHECKING:
    from collections.abc import Iterator

StepType: TypeAlias = Literal["cherry-pick", "backport", "local"]
When: TypeAlias = Literal["contained", "released", "manual"]
Hashes: TypeAlias = Literal["required", "first-use"]
Stage: TypeAlias = Literal["build", "runtime"]
PullRequest: TypeAlias = Annotated[str, rules.PULL_REQUEST]


@dataclass(frozen=True, slots=True, kw_only=True)
class Removal:
    """What retires a step: `ref` is contained in the image, is in a release, or a person decides."""

    __pydantic_config__ = rules.EDGE

    when: When
    ref: PullRequest | None = None
    note: SomeText | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitPatch:
    """The part of one upstream commit that lies under `paths` (as the upstream repository names them)."""

    __pydantic_config__ = rules.EDGE

    commit: Annotated[str, rules.COMMIT_REF] | None
    paths: Annotated[tuple[Annotated[str, rules.FILE_OR_FOLDER], ...], NonEmpty()] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Replacement:
    """An exact text, `count` times in a file, and what takes its place."""

    __pydantic_config__ = rules.EDGE

    path: SitePath
    find: Annotated[str, rules.SOME_TEXT] | None
    with_: str | None
    count: Annotated[int, AtLeast(1)] = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Pin:
    """A package by its name where the version is not known yet; else `NAME==VERSION` says both."""

    __pydantic_config__ = rules.EDGE

    name: Annotated[str, rules.PROJECT]
    version: Annotated[str, rules.RELEASE] | None


Requirement: TypeAlias = Annotated[
    str | Pin,
    Choice(
        rules.text_or_mapping,
        ((rules.TAG_TEXT, Annotated[str, rules.PINNED]), (rules.TAG_MAPPING, Pin)),
    ),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Packages:
    """Packages to install. `index`: an address, `default` (what pip is set to), or None: not known.
    `may_move`: other packages that pip may install, or bring to another version, to go with them."""

    __pydantic_config__ = rules.EDGE

    requirements: Annotated[tuple[Requirement, ...], NonEmpty()]
    index: Annotated[str, rules.INDEX] | None = "default"
    hashes: Hashes = "required"
    may_move: tuple[Annotated[str, rules.PROJECT], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteFile:
    """A whole file, fetched by an immutable address and pinned by its content."""

    __pydantic_config__ = rules.EDGE

    path: SitePath
    url: Annotated[str, rules.URL] | None
    sha256: Sha256 | None
    size: Annotated[int, AtLeast(0)] | None = None
    mode: Annotated[str, rules.FILE_MODE] = "0644"


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """A question put to a target: a file is there (with that content), or a command ends with 0."""

    __pydantic_config__ = rules.EDGE

    path: SitePath | None = None
    sha256: Sha256 | None = None
    argv: Argv | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """A command, without a shell. `unless` is asked before it, `creates` and `check` after it."""

    __pydantic_config__ = rules.EDGE

    argv: Argv | None
    unless: Check | None = None
    creates: SitePath | None = None
    check: Check | None = None
    revert: Argv | None = None
    stage: Stage = "build"
    needs: tuple[Annotated[str, rules.PROGRAM], ...] = ()
    env: Annotated[tuple[tuple[str, str], ...], Pairs(Annotated[str, rules.VARIABLE], str)] = ()
    timeout: Annotated[int, AtLeast(1)] = 600


@dataclass(frozen=True, slots=True, kw_only=True)
class StepFields:
    """What every step has, whatever its kind."""

    __pydantic_config__ = rules.EDGE

    id: Annotated[str, rules.STEP_ID]
    upstream: tuple[PullRequest, ...] = ()
    type: StepType = "local"
    reason: SomeText | None = None
    removal: Removal | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PatchStep(StepFields):
    """A diff: a file beside the stack or in patches/common/, or a part of an upstream commit."""

    kind: ClassVar[Literal["patch"]] = "patch"

    patch: (
        Annotated[
            str | CommitPatch,
            Choice(
                rules.text_or_mapping,
                ((rules.TAG_TEXT, Annotated[str, rules.PATCH_NAME]), (rules.TAG_MAPPING, CommitPatch)),
            ),
        ]
        | None
    )
    strip: Annotated[int, AtLeast(0)] = 1
    prefix: SitePath | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplaceStep(StepFields):
    """An exact text replaced in one file."""

    kind: ClassVar[Literal["replace"]] = "replace"
    replace: Replacement | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PipStep(StepFields):
    """Packages installed over the image."""

    kind: ClassVar[Literal["pip"]] = "pip"
    pip: Packages | None


@dataclass(frozen=True, slots=True, kw_only=True)
class FileStep(StepFields):
    """One file put in place whole."""

    kind: ClassVar[Literal["file"]] = "file"
    file: RemoteFile | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunStep(StepFields):
    """A command run in the target."""

    kind: ClassVar[Literal["run"]] = "run"
    run: Command | None


Step: TypeAlias = PatchStep | ReplaceStep | PipStep | FileStep | RunStep
STEP_KINDS: dict[str, type[Step]] = {kind.kind: kind for kind in (PatchStep, ReplaceStep, PipStep, FileStep, RunStep)}
_NO_KIND = rules.label(StepFields)


def _pick_kind(value: object) -> str:
    kinds = (kind for key, kind in STEP_KINDS.items() if isinstance(value, dict) and key in value)
    return next((rules.label(kind) for kind in kinds), _NO_KIND)


_OPTIONS: tuple[tuple[str, Any], ...] = (
    *((rules.label(kind), kind) for kind in STEP_KINDS.values()),
    (_NO_KIND, StepFields),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Unknown:
    """A fact that a step lacks, and what a person types to supply it."""

    what: str
    command: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Stack:
    """The ordered steps carried for one image."""

    __pydantic_config__ = rules.EDGE

    image: Annotated[str, rules.NAME]
    version: Annotated[int, AtLeast(1)]
    governed: bool = True
    reason: SomeText | None = None
    steps: tuple[Annotated[Step, Choice(_pick_kind, _OPTIONS, unlisted=StepFields.__name__)], ...]

    def unresolved(self, step: Step) -> tuple[Unknown, ...]:
        """Return what is not known about `step`, each with the command that resolves it; () if all is."""
        tail = f"of step {step.id} in patches/{self.image}/stack.yaml, then `patchkit lock --image {self.image}`"
        return tuple(Unknown(what=what, command=f"put {fill} {tail}") for what, fill in _gaps(step))


def touches(step: Step) -> tuple[str, ...] | None:
    """Return the site paths that `step` changes, as far as the stack file alone says so.

    A folder ends in `/`. None: the stack file does not say (the patch file does, or nothing is known).
    """
    match step:
        case PatchStep(patch=CommitPatch(paths=tuple(paths))):
            parts = ("/".join(path.split("/")[max(step.strip - 1, 0) :]) for path in paths)
            return tuple(f"{step.prefix}/{path}" if step.prefix else path for path in parts)
        case ReplaceStep(replace=Replacement(path=path)) | FileStep(file=RemoteFile(path=path)):
            return (path,)
        case RunStep(run=Command(creates=str(path))):
            return (path,)
        case _:
            return None


def _gaps(step: Step) -> Iterator[tuple[str, str]]:
    """Yield each unknown fact, and which value goes into which key."""
    subject = step.upstream[0] if step.upstream else f"step {step.id}"
    match step:
        case PatchStep():
            yield from _patch_gaps(subject, step.patch)
        case ReplaceStep():
            yield from _replace_gaps(subject, step.replace)
        case PipStep():
            yield from _pip_gaps(subject, step.pip)
        case FileStep():
            yield from _file_gaps(subject, step.file)
        case RunStep():
            if step.run is None or step.run.argv is None:
                yield f"the command of step {step.id}", "the program and its arguments into `run.argv`"
        case _:
            _never(step)


def _never(step: NoReturn) -> NoReturn:
    raise AssertionError(step)


def _patch_gaps(subject: str, patch: str | CommitPatch | None) -> Iterator[tuple[str, str]]:
    if patch is None:
        yield f"the patch of {subject}", "the name of a patch file, or {commit: ..., paths: [...]}, into `patch`"
    elif isinstance(patch, CommitPatch):
        if patch.commit is None:
            repo, known, _ = subject.partition("#")
            fill = f"`{repo}@` and its 40-digit merge commit" if known else "`owner/repo@` and its 40-digit commit"
            yield f"the commit of {subject}", f"{fill} into `patch.commit`"
        if patch.paths is None:
            yield f"the paths that {subject} changes", "the files and folders to take into `patch.paths`"


def _replace_gaps(subject: str, replacement: Replacement | None) -> Iterator[tuple[str, str]]:
    if replacement is None:
        yield f"the replacement of {subject}", "{path: ..., find: ..., with: ...} into `replace`"
        return
    if replacement.find is None:
        yield f"the text to replace in {replacement.path}", "the exact text into `replace.find`"
    if replacement.with_ is None:
        yield f"the text to put into {replacement.path}", "the new text into `replace.with`"


def _pip_gaps(subject: str, pip: Packages | None) -> Iterator[tuple[str, str]]:
    if pip is None:
        yield f"the packages of {subject}", "{requirements: [...], index: ...} into `pip`"
        return
    for at, requirement in enumerate(pip.requirements):
        if isinstance(requirement, Pin) and requirement.version is None:
            yield f"the version of {requirement.name}", f"it into `pip.requirements[{at}].version`"
    if pip.index is None:
        names = ", ".join(item if isinstance(item, str) else item.name for item in pip.requirements)
        yield f"the package index of {names}", "its https:// address into `pip.index`"


def _file_gaps(subject: str, file: RemoteFile | None) -> Iterator[tuple[str, str]]:
    if file is None:
        yield f"the file of {subject}", "{path: ..., url: ..., sha256: ...} into `file`"
        return
    if file.url is None:
        yield f"the address of {file.path}", "an immutable https:// address into `file.url`"
    if file.sha256 is None:
        yield f"the sha256 of {file.path}", "its 64 hex digits into `file.sha256`"
