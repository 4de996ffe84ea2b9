"""What the parts of the scan pass to each other. Frozen, without behaviour."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from patchkit.waivers.kinds import Kind


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanFinding:
    """Patching that was found: where, which kind, what is touched, and the waiver that covers it (None: nobody's)."""

    path: str
    line: int
    kind: Kind
    touches: str
    waiver: str | None
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """What one file alone says. `patch` is a patch file that has to be looked at, called with `strip` from
    `folder`; `sure` is False where nothing in the line itself says that the serving stack is meant. With `argv` the
    file is a Python program that is called with those words, and the trace stands for whatever that does."""

    line: int
    kind: Kind
    touches: str
    text: str
    patch: str = ""
    folder: str = ""
    strip: int = 1
    sure: bool = True
    argv: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """All that a scan tells: what it found, how many files it read, which it could not read whole, and why."""

    findings: tuple[ScanFinding, ...]
    files: int
    unread: tuple[tuple[str, str], ...] = ()
