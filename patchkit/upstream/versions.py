"""`/app/versions.txt` of the ROCm vLLM images: which branch or tag of which repository was built in.

The images' build writes lines `KEY: value` (`AITER_BRANCH: v0.1.5`, `AITER_REPO: https://…/aiter.git`); older ones
wrote `KEY=value`. Lines of other forms are passed over, unknown keys are kept.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

PATH = "app/versions.txt"
_LINE = re.compile(r"\s*(?:export\s+|ENV\s+|ARG\s+)?([A-Za-z][A-Za-z0-9_.-]*)\s*[:=]\s*(.*?)\s*")
_REPO = re.compile(r"(?:https?://|ssh://|git@)?(?:[^@/\s]+@)?([^/:\s]+)[/:]([^/\s]+/[^/\s]+?)(?:\.git)?/?")
_REVISIONS = ("_COMMIT", "_TAG", "_BRANCH", "_VERSION")


@dataclass(frozen=True, slots=True, kw_only=True)
class Versions:
    """The file's entries in their order; of a key that is there twice, the last counts."""

    entries: tuple[tuple[str, str], ...]

    def revision(self, component: str) -> str | None:
        """Return the commit, tag, branch or version (in this order) that was built in, or None."""
        known = {key.upper(): value for key, value in self.entries}
        name = component.upper().replace("-", "_")
        return next((known[name + end] for end in _REVISIONS if known.get(name + end)), None)

    def repo(self, component: str) -> str | None:
        """Return the `owner/repo` that it was built from, or None."""
        known = {key.upper(): value for key, value in self.entries}
        match = _REPO.fullmatch(known.get(component.upper().replace("-", "_") + "_REPO", ""))
        return match[2] if match is not None else None


def parse_versions(data: bytes) -> Versions:
    """Return what the bytes of a `versions.txt` say; never fails: what is no entry is passed over."""
    found = []
    for line in data.decode("utf-8", "replace").removeprefix("\ufeff").splitlines():
        match = _LINE.fullmatch(line)
        if match is not None:
            found.append((match[1], match[2].strip("\"'")))
    return Versions(entries=tuple(found))
