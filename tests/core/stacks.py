"""Stacks without YAML: a lock made in memory from patch texts and the pristine files they are for."""

from __future__ import annotations

import hashlib
import os
import stat
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from patchkit.core import operate
from patchkit.core.judge import judge_patch, judge_replace, sections_of
from patchkit.core.lockfile import FileRef, Lock, LockedImage, LockedInput, LockedStep, content_digest, parse, render
from patchkit.core.site import Site
from patchkit.core.tree import LINK, FileState, Overlay

if TYPE_CHECKING:
    from collections.abc import Iterator

    from patchkit.core.report import Report

#: A file of a test tree: text, bytes, or a whole state.
Content = str | bytes | FileState
COMMIT = "4ba787ec9d"
IMAGE = "test-image"
RUN: dict[str, Any] = {
    "unless": None,
    "creates": None,
    "check": None,
    "revert": None,
    "needs": [],
    "env": [],
    "timeout": 60,
}


class Memory:
    """A tree in memory."""

    def __init__(self, tree: dict[str, FileState]) -> None:
        self.files = tree

    def read(self, path: str) -> FileState | None:
        return self.files.get(path)


def state(content: Content) -> FileState:
    if isinstance(content, FileState):
        return content
    return FileState(data=content.encode() if isinstance(content, str) else content)


def link(target: str) -> FileState:
    return FileState(kind=LINK, mode=0o777, data=target.encode())


def lines(*texts: str) -> str:
    return "".join(f"{text}\n" for text in texts)


def numbered(count: int = 20, **changed: str) -> str:
    """A file of `count` numbered lines; `_7="x"` makes its seventh line x."""
    return lines(*(changed.get(f"_{i}", f"line {i}") for i in range(1, count + 1)))


@dataclass(frozen=True, kw_only=True)
class Stack:
    """A lock and the bytes of its inputs."""

    lock: Lock
    inputs: dict[str, bytes]

    def request(self, **options: Any) -> operate.Request:
        return operate.Request(lock=self.lock, read_input=self.read_input, **options)

    def read_input(self, step: LockedStep) -> bytes:
        return self.inputs[step.id]


def build(
    pristine: dict[str, Content],
    steps: dict[str, str | bytes | dict[str, Any]],
    *,
    version: int = 1,
    exact: bool = True,
    identity: str = "",
    image: str = IMAGE,
    stages: dict[str, str] | None = None,
    untried: tuple[str, ...] = (),
) -> Stack:
    """The stack of `steps` (id to the text of a patch, or to a replacement's keys), locked on `pristine`.

    Steps in `untried` get no states, as where the lock was made without their files.
    """
    overlay = Overlay(Memory({path: state(content) for path, content in pristine.items()}))
    inputs: dict[str, bytes] = {}
    locked: list[LockedStep] = []
    for step_id, text in steps.items():
        step = _step(step_id, text, inputs, (stages or {}).get(step_id, "build"))
        locked.append(step if step_id in untried else _tried(step, overlay, inputs))
    lock = Lock(
        digest="",
        image=LockedImage(
            name=image,
            reference="example/image:1",
            digest=None,
            platform="linux/amd64",
            site=("site",),
            identity_file=identity,
            identity_commit=COMMIT if identity else "",
        ),
        version=version,
        governed=True,
        ungoverned_reason="",
        exact=exact,
        sources=(),
        inputs={},
        versions={str(version): content_digest(tuple(locked))},
        support={},
        steps=tuple(locked),
    )
    return Stack(lock=parse(render(lock).encode(), "lock"), inputs=inputs)


def _step(step_id: str, text: str | bytes | dict[str, Any], inputs: dict[str, bytes], stage: str) -> LockedStep:
    if isinstance(text, dict) and "argv" in text:
        action = {**RUN, "stage": stage, **text}
        return LockedStep(id=step_id, kind="run", action=action, stage=stage, before={}, after={})
    if isinstance(text, dict):
        action = {"count": 1, **text}
        return LockedStep(
            id=step_id, kind="replace", action=action, stage=stage, touches=(action["path"],), before={}, after={}
        )
    data = text.encode() if isinstance(text, str) else text
    inputs[step_id] = data
    pin = LockedInput(path=f"{step_id}.patch", url=None, sha256=hashlib.sha256(data).hexdigest())
    action = {"commit": None, "paths": [], "strip": 1, "prefix": None}
    return LockedStep(id=step_id, kind="patch", action=action, stage=stage, input=pin, before={}, after={})


def _tried(step: LockedStep, overlay: Overlay, inputs: dict[str, bytes]) -> LockedStep:
    if step.kind == "run":
        return step
    if step.kind == "replace":
        judgement, paths = judge_replace(step.action, overlay), (step.action["path"],)
    else:
        sections = sections_of(step, lambda s: inputs[s.id])
        judgement = judge_patch(sections, overlay, same_tree=True)
        paths = tuple(dict.fromkeys(path for section in sections for path in section.paths))
    assert judgement.verdict.value in ("applies", "offset", "upstream"), (step.id, judgement.detail)
    before = {path: FileRef.of(overlay.read(path)) for path in paths}
    for path, made in judgement.writes.items():
        overlay.write(path, made)
    after = {path: FileRef.of(judgement.writes[path]) if path in judgement.writes else before[path] for path in paths}
    return replace(step, touches=paths, before=before, after=after, changes=judgement.changes)


def diff(before: dict[str, Content], after: dict[str, Content]) -> str:
    """The patch from one set of files to another, in git's form (no renames)."""
    from patchkit.core.render_diff import render_diff

    changed = {
        path: (state(before[path]) if path in before else None, state(after[path]) if path in after else None)
        for path in sorted({*before, *after})
        if path not in before or path not in after or state(before[path]) != state(after[path])
    }
    return render_diff(changed).decode("utf-8", "surrogateescape")


def write_tree(root: Path, tree: dict[str, Content]) -> Path:
    """Make `tree` below `root`."""
    root.mkdir(parents=True, exist_ok=True)
    for path, content in tree.items():
        file, what = root / path, state(content)
        file.parent.mkdir(parents=True, exist_ok=True)
        if what.kind == LINK:
            os.symlink(what.data, os.fsencode(file))
        else:
            file.write_bytes(what.data)
            file.chmod(what.mode)
    return root


@contextmanager
def fast_dir() -> Iterator[Path]:
    """A directory in memory, where the machine has one with extended attributes: for thousands of trees."""
    with tempfile.TemporaryDirectory(dir=_memory()) as path:
        yield Path(path)


def _memory() -> str | None:
    try:
        with tempfile.NamedTemporaryFile(dir="/dev/shm") as file:
            os.setxattr(file.name, "user.test", b"1")
    except OSError:
        return None
    return "/dev/shm"


def snapshot(root: Path) -> dict[str, tuple[Any, ...]]:
    """Everything that a revert restores: kind, mode, owner, attributes, content, hard links."""
    found: dict[str, tuple[Any, ...]] = {}
    inodes: dict[int, str] = {}
    for path in sorted([root, *root.rglob("*")]):
        status = path.lstat()
        name = path.relative_to(root).as_posix()
        base = (stat.S_IFMT(status.st_mode), stat.S_IMODE(status.st_mode), status.st_uid, status.st_gid)
        if stat.S_ISLNK(status.st_mode):
            found[name] = (*base, os.readlink(path))
        elif stat.S_ISREG(status.st_mode):
            xattrs = tuple((k, os.getxattr(path, k)) for k in sorted(os.listxattr(path)))
            same_as = inodes.setdefault(status.st_ino, name)
            found[name] = (*base, path.read_bytes(), xattrs, same_as)
        else:
            found[name] = base
    return found


def listing(root: Path) -> dict[str, tuple[int, int, int, int]]:
    """As `find -printf '%p %s %T@ %m'`, and the inode."""
    return {
        path.as_posix(): (s.st_size if not path.is_dir() else 0, s.st_mtime_ns, s.st_mode, s.st_ino)
        for path in [root, *root.rglob("*")]
        for s in [path.lstat()]
    }


@contextmanager
def opened(path: Path, **options: Any) -> Iterator[operate.Target]:
    with Site(str(path)) as site:
        yield operate.Target(site=site, label=str(path), **options)


def apply(stack: Stack, path: Path, *, managed: bool = False, stand_in: bool = False, **options: Any) -> Report:
    with opened(path, managed=managed, stand_in_meant=stand_in) as target:
        return operate.apply(stack.request(**options), target)


def verify(stack: Stack, path: Path) -> Report:
    with opened(path) as target:
        return operate.verify(stack.lock, target)


def revert(path: Path, *, image: str = IMAGE, force: bool = False) -> Report:
    with opened(path) as target:
        return operate.revert(image, target, force=force)


def verdicts(report: Report) -> dict[str, str | None]:
    return {step.id: step.verdict.value if step.verdict else None for step in report.steps}


def leftovers(root: Path) -> list[str]:
    """Temporary files that a finished run must not leave."""
    return [p.as_posix() for p in root.rglob("*") if ".patchkit-" in p.name or p.name.endswith(".tmp")] + [
        p.as_posix() for p in root.glob(".patchkit/journal.json")
    ]
