"""Which image a root is, told from inside: the commit that a file of the engine records.

`vllm/_version.py` holds `__commit_id__ = commit_id = 'g4ba787ec9'` (setuptools-scm); published
wheels carry it too, a build without git writes None. Nothing is imported to find out.
"""

from __future__ import annotations

import re

from patchkit.core.tree import Tree, UnreadableError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from patchkit.core.lockfile import LockedImage

_COMMIT = re.compile(rb"commit_id\s*(?::[^=\n]*)?=[^'\"\n]*['\"]g?([0-9a-f]{7,40})['\"]")
_BARE = re.compile(rb"\s*g?([0-9a-f]{7,40})\s*")


def read_commit(tree: Tree, path: str) -> str:
    """The commit that the file at `path` records, 7 to 40 hex digits; "" where it records none."""
    try:
        state = tree.read(path)
    except UnreadableError:
        return ""
    return commit_in(state.data) if state is not None else ""


def commit_in(data: bytes) -> str:
    """The commit recorded in an identity file's content; "" where there is none."""
    match = _COMMIT.search(data) or _BARE.fullmatch(data)
    return match.group(1).decode("ascii") if match else ""


def same_commit(one: str, other: str) -> bool:
    """Whether two commits, each possibly abbreviated, are the same."""
    return bool(one) and bool(other) and (one.startswith(other) or other.startswith(one))


def contradiction(image: LockedImage, tree: Tree) -> str | None:
    """Why `tree` is not known to be `image`, with both values; None where it is, or where the image
    states no identity."""
    if not image.identity_file:
        return None
    found = read_commit(tree, image.identity_file)
    if same_commit(found, image.identity_commit):
        return None
    what = f"commit {found}" if found else "no commit"
    return f"{image.identity_file} records {what}, image {image.name} is commit {image.identity_commit}"
