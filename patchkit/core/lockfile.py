"""The lock: one stack resolved, as `patches/NAME/stack.lock.json` holds it.

`apply`, `build` and `bundle` read this and nothing else. Every input is pinned by sha256, every
touched file by its state before and after each step. The document carries its own digest, which
is also the name under which ledgers, outputs and the serving process know the stack.
"""

from __future__ import annotations

from patchkit.core.canonical import digest_of, unsealed, want, want_kind, want_mode, want_sha256, want_texts
from patchkit.core.errors import ConfigError
from patchkit.core.paths import UnsafePathError, check_relative
from patchkit.core.values import Value
from patchkit.core.verdicts import Change

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from patchkit.core.tree import FileState

FORMAT = 1


class FileRef(Value):
    """A file's state by digest: hex sha256 of its bytes, permission bits, `file` or `link`."""

    sha256: str
    mode: int
    kind: str

    @classmethod
    def of(cls, state: FileState | None) -> FileRef | None:
        """The reference to `state`; None for None."""
        return None if state is None else cls(sha256=state.sha256, mode=state.mode, kind=state.kind)

    def holds(self, state: FileState | None) -> bool:
        """Whether `state` has this kind, these bytes and this executable bit (the other bits of a
        mode differ between machines)."""
        return (
            state is not None
            and state.kind == self.kind
            and state.mode & 0o100 == self.mode & 0o100
            and state.sha256 == self.sha256
        )


class FileChange(Value):
    """What a step does to `path`; `source` is where a renamed or copied file comes from."""

    path: str
    change: Change
    source: str | None = None


_MANY = ("the hashes ", "the packages ", "the paths ")


class Unknown(Value):
    """A fact that is not known yet, and the command that resolves it."""

    what: str
    command: str

    def __str__(self) -> str:
        """The sentence: it is not known."""
        return f"{self.what} {'are' if self.what.startswith(_MANY) else 'is'} not known"


class LockedInput(Value):
    """The bytes of a patch or a whole file: `path` below the project, or else `url` with the bytes in the cache."""

    path: str | None
    url: str | None
    sha256: str


class LockedWheel(Value):
    """A package's file that the project carries: its name, and its bytes."""

    name: str
    input: LockedInput


class LockedPackage(Value):
    """A pinned requirement: the sha256 of every file that may be installed, and those that are carried."""

    requirement: str
    hashes: tuple[str, ...]
    wheels: tuple[LockedWheel, ...] = ()


class LockedStep(Value):
    """One step. `action` is what it does, as data (the part of the step that decides bytes);
    `touches` are its paths or folders ("/" at the end), None where they are unknown; `before` and
    `after` are the states of its files around it, empty where it could not be tried."""

    id: str
    kind: str
    action: dict[str, Any]
    stage: str = "build"
    type: str = "local"
    upstream: tuple[str, ...] = ()
    reason: str = ""
    unresolved: tuple[Unknown, ...] = ()
    input: LockedInput | None = None
    packages: tuple[LockedPackage, ...] = ()
    touches: tuple[str, ...] | None = ()
    changes: tuple[FileChange, ...] = ()
    before: dict[str, FileRef | None]
    after: dict[str, FileRef | None]

    @property
    def spec(self) -> str:
        """The digest of what the step does: equal specs make equal bytes from equal files."""
        content = self.input.sha256 if self.input is not None else None
        does: dict[str, Any] = {"kind": self.kind, "action": self.action, "stage": self.stage, "content": content}
        if self.packages:
            does["packages"] = [[package.requirement, list(package.hashes)] for package in self.packages]
        return digest_of(does)

    def shares_files(self, other: LockedStep) -> bool:
        """Whether the two steps may touch one file (unknown paths may be any)."""
        if self.touches is None or other.touches is None:
            return True
        return any(_overlap(mine, theirs) for mine in self.touches for theirs in other.touches)


def _overlap(one: str, other: str) -> bool:
    return (
        one == other or (one.endswith("/") and other.startswith(one)) or (other.endswith("/") and one.startswith(other))
    )


class LockedImage(Value):
    """The image as far as a target must know it. `identity_commit` is "" where none is stated."""

    name: str
    reference: str
    digest: str | None
    platform: str
    site: tuple[str, ...]
    identity_file: str
    identity_commit: str


class LockedSource(Value):
    """Where the pristine files were read from, and which commit they say they are of."""

    spec: str
    commit: str


class Lock(Value):
    """A stack, resolved. `exact`: the file states are the image's own and bind. `versions` maps
    every version that was ever locked to the digest of its content. `inputs` are the project's
    files that it was made from, by sha256. `support` are pristine files a managed root needs
    besides the touched ones (the identity file)."""

    digest: str
    image: LockedImage
    version: int
    governed: bool
    ungoverned_reason: str
    exact: bool
    sources: tuple[LockedSource, ...]
    inputs: dict[str, str]
    versions: dict[str, str]
    support: dict[str, FileRef | None]
    steps: tuple[LockedStep, ...]

    def step(self, step_id: str) -> LockedStep | None:
        """The step of that id, or None."""
        return next((step for step in self.steps if step.id == step_id), None)


def pristine_refs(steps: tuple[LockedStep, ...]) -> dict[str, FileRef | None]:
    """Every file that `steps` read or write, as it is before the first of them."""
    found: dict[str, FileRef | None] = {}
    for step in steps:
        for path, ref in step.before.items():
            found.setdefault(path, ref)
    return found


def content_digest(steps: tuple[LockedStep, ...]) -> str:
    """The digest of what a stack's version stands for: its steps in order, and what each does."""
    return digest_of([[step.id, step.spec, [u.what for u in step.unresolved]] for step in steps])


def render(lock: Lock) -> str:
    """The lock as the text of its file (`lock.digest` is ignored, the text's own is computed)."""
    from patchkit.core.lock_text import render as text  # only `lock` writes one

    return text(lock)


def _package_in(data: dict[str, Any]) -> LockedPackage:
    wheels = []
    for wheel in want(list, data["wheels"]):
        pinned, name = _input_in(wheel["input"]), safe(wheel["name"])
        if pinned is None or "/" in name:
            raise ValueError(f"expected the plain name of a wheel and its bytes, found {name!r}")
        wheels.append(LockedWheel(name=name, input=pinned))
    return LockedPackage(
        requirement=want(str, data["requirement"]),
        hashes=tuple(want_sha256(digest) for digest in want(list, data["hashes"])),
        wheels=tuple(wheels),
    )


def parse(text: bytes, name: str) -> Lock:
    """Read a lock; `name` is its file's, for messages. Raises ConfigError."""
    hint = "restore it from git, or make it anew: patchkit lock"
    try:
        document = unsealed(text)
    except ValueError as error:
        raise ConfigError(f"{name}: {error}", hint=hint) from None
    if document.get("format") != FORMAT:
        raise ConfigError(
            f"{name}: expected a lock of format {FORMAT}, found {document.get('format')!r}",
            hint="use the patchkit release that wrote it, or make it anew: patchkit lock",
        )
    try:
        return _lock_in(document)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ConfigError(f"{name}: it is no whole lock: {type(error).__name__}: {error}", hint=hint) from None


def _lock_in(document: dict[str, Any]) -> Lock:
    stack = document["stack"]
    return Lock(
        digest=document["digest"],
        image=_image_in(document["image"]),
        version=want(int, stack["version"]),
        governed=want(bool, stack["governed"]),
        ungoverned_reason=want(str, stack["ungoverned_reason"]),
        exact=want(bool, document["exact"]),
        sources=tuple(
            LockedSource(
                spec=want(str, source["spec"]),
                commit=want(str, source["commit"]),
            )
            for source in want(list, document["sources"])
        ),
        inputs={safe(path): want_sha256(digest) for path, digest in document["inputs"].items()},
        versions={str(int(version)): want(str, digest) for version, digest in stack["versions"].items()},
        support=_refs_in(document["support"]),
        steps=tuple(_step_in(step) for step in want(list, document["steps"])),
    )


def _image_in(image: dict[str, Any]) -> LockedImage:
    identity = image["identity"]
    return LockedImage(
        name=want(str, image["name"]),
        reference=want(str, image["reference"]),
        digest=_text_or_none(image["digest"]),
        platform=want(str, image["platform"]),
        site=tuple(safe(path) for path in want_texts(image["site"])),
        identity_file=identity["file"] if identity["file"] == "" else safe(identity["file"]),
        identity_commit=want(str, identity["commit"]),
    )


def _text_or_none(value: object) -> str | None:
    return None if value is None else want(str, value)


def safe(path: object) -> str:
    """`path`, which must be a path that stays in the site. Raises ValueError."""
    try:
        return check_relative(want(str, path))
    except UnsafePathError as error:
        raise ValueError(str(error)) from None


def _refs_in(refs: dict[str, Any]) -> dict[str, FileRef | None]:
    return {
        safe(path): None
        if ref is None
        else FileRef(sha256=want_sha256(ref["sha256"]), mode=want_mode(ref["mode"]), kind=want_kind(ref["kind"]))
        for path, ref in refs.items()
    }


def _step_in(step: dict[str, Any]) -> LockedStep:
    touches = step["touches"]
    return LockedStep(
        id=want(str, step["id"]),
        kind=want(str, step["kind"]),
        action=_action_in(step),
        stage=want(str, step["stage"]),
        type=want(str, step["type"]),
        upstream=want_texts(step["upstream"]),
        reason=want(str, step["reason"]),
        unresolved=tuple(
            Unknown(what=want(str, fact["what"]), command=want(str, fact["command"]))
            for fact in want(list, step["unresolved"])
        ),
        input=_input_in(step["input"]),
        packages=tuple(_package_in(package) for package in want(list, step.get("packages", []))),
        touches=None if touches is None else tuple(safe(path.rstrip("/")) and path for path in want_texts(touches)),
        changes=tuple(change_in(change) for change in want(list, step["changes"])),
        before=_refs_in(step["before"]),
        after=_refs_in(step["after"]),
    )


def _action_in(step: dict[str, Any]) -> dict[str, Any]:
    """What the step does; where patchkit carries it out itself and every fact is known, checked."""
    action: dict[str, Any] = want(dict, step["action"])
    if step["unresolved"]:
        return action
    if step["kind"] == "patch":
        _text_or_none(action["prefix"])
        want_texts(action["paths"])
        if want(int, action["strip"]) < 0:
            raise ValueError(f"expected a number of leading path parts, found {action['strip']}")
    elif step["kind"] == "replace":
        safe(action["path"])
        want(int, action["count"])
        want(str, action["with"]).encode("utf-8")
        if not want(str, action["find"]).encode("utf-8"):
            raise ValueError("expected a text to find, found none")
    elif step["kind"] == "file":
        safe(action["path"])
        want_mode(action["mode"])
        if step["input"] is None or want_sha256(action["sha256"]) != step["input"]["sha256"]:
            raise ValueError("expected an input with the sha256 that the step states")
    elif step["kind"] in ("run", "pip"):
        from patchkit.core.lock_checks import check_command, check_packages  # few stacks have one

        (check_command if step["kind"] == "run" else check_packages)(action)
    return action


def _input_in(data: dict[str, Any] | None) -> LockedInput | None:
    if data is None:
        return None
    path = None if data["path"] is None else safe(data["path"])
    return LockedInput(path=path, url=_text_or_none(data["url"]), sha256=want_sha256(data["sha256"]))


def change_in(data: dict[str, Any]) -> FileChange:
    """The `FileChange` of JSON data. Raises KeyError, TypeError or ValueError."""
    source = None if data["source"] is None else safe(data["source"])
    return FileChange(path=safe(data["path"]), change=Change(data["change"]), source=source)
