"""From which commit of a pull request a step's patch was taken, as far as the stack says so."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from patchkit.model.stack import CommitPatch, PatchStep

if TYPE_CHECKING:
    from collections.abc import Callable

    from patchkit.model.stack import Step

#: DEP-3: `Origin: upstream, https://github.com/OWNER/REPO/commit/SHA` (or a pull request's /commits/SHA).
_ORIGIN = re.compile(r"^Origin:.*/commits?/([0-9a-f]{7,40})\b", re.MULTILINE)
#: git format-patch: the mail's first line, one for each commit.
_MAIL = re.compile(r"^From ([0-9a-f]{40}) Mon Sep 17 00:00:00 2001$", re.MULTILINE)


def taken_from(step: Step, head_of: Callable[[str], str]) -> str | None:
    """The commit (7 to 40 hex digits) from which the patch of `step` was taken, or None where nothing says so.

    `head_of` gives the header of a patch file by its name. A commit is named by `patch: {commit: ...}`, by DEP-3's
    `Origin`, or, in a cherry-pick, by the mail's first line; a backport's is our own commit.
    """
    if not isinstance(step, PatchStep) or step.patch is None:
        return None
    if isinstance(step.patch, CommitPatch):
        return None if step.patch.commit is None else step.patch.commit.rpartition("@")[2]
    head = head_of(step.patch)
    origin = _ORIGIN.search(head)
    if origin is not None:
        return origin[1]
    mails = _MAIL.findall(head) if step.type == "cherry-pick" else []
    return mails[-1] if mails else None
