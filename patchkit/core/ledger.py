"""The ledger: `SITE/.patchkit/`, what patchkit did to a target and everything it takes to undo it.

    ledger.json   the stack's name, version and lock, its steps, each touched file before and after
    pristine/     the bytes of touched files before the first step, by sha256
    links/        touched files that have further hard links: one more link to the old inode
    packages/     packages that pip replaced, each packed as a wheel
    log           one line a change of the target
    journal.json  only while a transaction runs, or after one was killed; *.tmp likewise

The site directory itself is the lock (flock): taking it changes no byte and no mtime.

`ledger.json` is sealed by its own digest. Its keys `format`, `image`, `stack`, `stand_in` and
`steps[].id` are what a serving process reports about itself; they stay as they are.
"""

from __future__ import annotations

from patchkit.core.canonical import unsealed, want, want_kind, want_mode, want_sha256, want_texts
from patchkit.core.errors import DriftError
from patchkit.core.lockfile import change_in
from patchkit.core.paths import LEDGER_DIR, UnsafePathError, check_relative
from patchkit.core.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from patchkit.core.lockfile import FileChange
    from patchkit.core.tree import FileState

FORMAT = 1
LEDGER = f"{LEDGER_DIR}/ledger.json"
PACKAGES = f"{LEDGER_DIR}/packages"


class Kept(Value):
    """A file as the ledger remembers it: digest of its bytes, kind, mode, owner, extended attributes
    (name to hex of the value). `uid` and `gid` are None where patchkit did not choose the owner."""

    sha256: str
    kind: str
    mode: int
    uid: int | None = None
    gid: int | None = None
    xattrs: tuple[tuple[str, str], ...] = ()

    def is_state(self, state: FileState | None) -> bool:
        """Whether `state` is exactly this: bytes, kind and mode."""
        return state is not None and state.kind == self.kind and state.mode == self.mode and state.sha256 == self.sha256


class LedgerFile(Value):
    """One touched file: before the first step and after the last (None: not there), and the steps."""

    before: Kept | None
    after: Kept | None
    steps: tuple[str, ...]


class LedgerStep(Value):
    """One applied step; `spec` is the digest of what it does, `upstream` means it changed nothing;
    `effect` is the record of a step that did more than change files (`patchkit.core.effects`)."""

    id: str
    spec: str
    upstream: bool
    changes: tuple[FileChange, ...]
    effect: dict[str, Any] | None = None


class KeptDir(Value):
    """A directory that was removed because a step emptied it."""

    path: str
    mode: int
    uid: int
    gid: int


class Ledger(Value):
    """What was applied to a target. `lock` is the lock's digest; `pinned` says that the files were
    the ones the lock was made from; `dirs_created` and `dirs_removed` are undone by a revert;
    `complete` is False while a run that has more than one part is between two of them."""

    image: str
    version: int
    lock: str
    stand_in: bool
    pinned: bool
    steps: tuple[LedgerStep, ...]
    files: dict[str, LedgerFile]
    dirs_created: tuple[str, ...] = ()
    dirs_removed: tuple[KeptDir, ...] = ()
    complete: bool = True

    @property
    def effects(self) -> dict[str, LedgerStep]:
        """The steps that did more than change files, by id."""
        return {step.id: step for step in self.steps if step.effect is not None}

    @property
    def blobs(self) -> set[str]:
        """The sha256 of every pristine content that the ledger needs."""
        return {file.before.sha256 for file in self.files.values() if file.before is not None}

    @property
    def packages(self) -> set[str]:
        """The file names of every replaced package that the ledger needs."""
        entries = [
            (name, entry)
            for step in self.effects.values()
            for name, entry in ((step.effect or {}).get("packages") or {}).items()
        ]
        versions = {(name, entry.get(key)) for name, entry in entries for key in ("before", "previous")}
        return {kept_package(name, version) for name, version in versions if version is not None}


def kept_package(name: str, version: str) -> str:
    """The file name under which a replaced package is kept: a wheel's."""
    return f"{name.replace('-', '_')}-{version.replace('-', '_')}-py3-none-any.whl"


def render(ledger: Ledger) -> str:
    """The ledger as the text of `ledger.json`."""
    from patchkit.core.ledger_text import render as text  # only a change of a target writes one

    return text(ledger)


def kept_in(data: dict[str, Any] | None) -> Kept | None:
    """The `Kept` of JSON data. Raises KeyError, TypeError or ValueError."""
    if data is None:
        return None
    return Kept(
        sha256=want_sha256(data["sha256"]),
        kind=want_kind(data["kind"]),
        mode=want_mode(data["mode"]),
        uid=None if data["uid"] is None else want(int, data["uid"]),
        gid=None if data["gid"] is None else want(int, data["gid"]),
        xattrs=tuple(sorted((key, bytes.fromhex(value).hex()) for key, value in data["xattrs"].items())),
    )


def parse(text: bytes, name: str) -> Ledger:
    """Read a ledger; `name` is its file's. Raises DriftError where it was tampered with or is unknown."""
    hint = "put the file back as it was; or take the tree from the image anew and apply to that"
    try:
        document = unsealed(text)
        if document.get("format") != FORMAT:
            raise ValueError(f"expected a ledger of format {FORMAT}, found {document.get('format')!r}")
        return _ledger_in(document)
    except (KeyError, TypeError, AttributeError) as error:
        raise DriftError(f"{name}: it is no whole ledger: {type(error).__name__}: {error}", hint=hint) from None
    except ValueError as error:
        raise DriftError(f"{name}: {error}", hint=hint) from None


def _ledger_in(document: dict[str, Any]) -> Ledger:
    return Ledger(
        image=want(str, document["image"]),
        version=want(int, document["stack"]["version"]),
        lock=want(str, document["stack"]["lock"]),
        stand_in=want(bool, document["stand_in"]),
        pinned=want(bool, document["pinned"]),
        steps=tuple(_step_in(step) for step in want(list, document["steps"])),
        files={safe(path): _file_in(file) for path, file in document["files"].items()},
        dirs_created=tuple(safe(path) for path in want_texts(document["dirs_created"])),
        dirs_removed=tuple(_dir_in(directory) for directory in want(list, document["dirs_removed"])),
        complete=want(bool, document.get("complete", True)),
    )


def _step_in(step: dict[str, Any]) -> LedgerStep:
    return LedgerStep(
        id=want(str, step["id"]),
        spec=want(str, step["spec"]),
        upstream=want(bool, step["upstream"]),
        changes=tuple(change_in(change) for change in want(list, step["changes"])),
        effect=want(dict, step["effect"]) if "effect" in step else None,
    )


def _file_in(file: dict[str, Any]) -> LedgerFile:
    return LedgerFile(before=kept_in(file["before"]), after=kept_in(file["after"]), steps=want_texts(file["steps"]))


def _dir_in(directory: dict[str, Any]) -> KeptDir:
    return KeptDir(
        path=safe(want(str, directory["path"])),
        mode=want(int, directory["mode"]) & 0o7777,
        uid=want(int, directory["uid"]),
        gid=want(int, directory["gid"]),
    )


def safe(path: str) -> str:
    """`path` if it stays in the site. Raises ValueError."""
    try:
        return check_relative(path)
    except UnsafePathError as error:
        raise ValueError(str(error)) from None
