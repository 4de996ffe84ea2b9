"""Patch-ids a file at a time: git's (git-patch-id(1), `--stable`), made by the git program.

`git patch-id` writes one id for each object name that it meets in its input. So every file of every diff is put
under a name of its own, and one process answers for them all. The id covers the file's path, its context and its
changed lines, without white space and line numbers; of a binary file the two blobs.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from patchkit.sources.repository import Repository

#: Plumbing, with every option that the user's configuration could set otherwise.
_FORM = ("-r", "-p", "--full-index", "--no-renames", "--no-ext-diff", "--no-textconv", "--no-color", "-U3")
_SHA = re.compile(rb"[0-9a-f]{40}")
_HUNK = re.compile(rb"@@ -\d+(?:,(\d+))? \+\d+(?:,(\d+))? @@")
_GIT = b"diff --git "
Chunks = list[tuple[str, bytes]]


def of_commits(
    repository: Repository, commits: Iterable[str], paths: Iterable[str] = (), *, reverse: bool = False
) -> dict[str, dict[str, str]]:
    """Return commit to path to patch-id, for each of `commits` that changes one of `paths` (none: any).

    A commit's change is the one against its first parent; `reverse` asks for the ids of taking it back. Two git
    processes. Raises `GitFailedError`, also where an object is missing.
    """
    named = "".join(f"{sha}\n" for sha in commits).encode()
    turned = ("-R", "--src-prefix=b/", "--dst-prefix=a/") if reverse else ("--src-prefix=a/", "--dst-prefix=b/")
    command = ("--literal-pathspecs", "diff-tree", "--stdin", "--root", "--diff-merges=first-parent", *_FORM, *turned)
    output = repository.run("-c", "core.quotePath=false", *command, "--", *paths, stdin=named)
    chunks, owners, owner = [], [], ""
    for line in _units(output):
        if _SHA.fullmatch(line.rstrip(b"\n")):
            owner = line.decode().strip()
        else:
            chunks.append((_git_path(line), line))
            owners.append(owner)
    found: dict[str, dict[str, str]] = {}
    for sha, (path, _), made in zip(owners, chunks, _ids(repository, chunks), strict=True):
        found.setdefault(sha, {})[path] = made
    return found


def between(repository: Repository, old: str, new: str) -> dict[str, str]:
    """Return path to patch-id of the change from commit `old` to `new`. Raises `GitFailedError`."""
    output = repository.run(
        "-c", "core.quotePath=false", "diff-tree", *_FORM, "--src-prefix=a/", "--dst-prefix=b/", old, new, "--"
    )
    return of_diff(repository, output)


def of_diff(repository: Repository, diff: bytes) -> dict[str, str]:
    """Return path to patch-id of a unified or git diff whose names carry the prefixes `a/` and `b/`."""
    chunks = [(_git_path(unit), unit) for unit in _units(diff) if unit.startswith(_GIT)] or list(_plain(diff))
    return {path: made for (path, _), made in zip(chunks, _ids(repository, chunks), strict=True)}


def _ids(repository: Repository, chunks: Chunks) -> list[str]:
    """Return each chunk's id, in their order; an empty string for one in which git finds no change."""
    if not chunks:
        return []
    named = b"".join(b"commit %040x\n%s\n" % (number, chunk) for number, (_, chunk) in enumerate(chunks, 1))
    made = [""] * len(chunks)
    for line in repository.run("patch-id", "--stable", stdin=named).split(b"\n"):
        if line:
            identity, name = line.split()
            made[int(name, 16) - 1] = identity.decode()
    return made


def _units(diff: bytes) -> Iterator[bytes]:
    """Cut at commit names and at `diff --git`: in a diff's body every line has a mark in front."""
    current: list[bytes] = []
    for line in diff.splitlines(keepends=True):
        named = _SHA.fullmatch(line.rstrip(b"\n")) is not None
        if named or line.startswith(_GIT):
            if current:
                yield b"".join(current)
            current = []
        if named:
            yield line
        elif current or line.startswith(_GIT):
            current.append(line)
    if current:
        yield b"".join(current)


def _git_path(chunk: bytes) -> str:
    """The path in `diff --git a/PATH b/PATH`: both are the same without renames."""
    names = chunk.split(b"\n", 1)[0].removeprefix(_GIT).rstrip(b"\r")
    half = names[: (len(names) - 1) // 2].strip(b'"')
    return half[2:].decode("utf-8", "surrogateescape")


def _plain(diff: bytes) -> Iterator[tuple[str, bytes]]:
    """The files of a diff without git's headers, with the headers that git would have written."""
    lines = diff.splitlines(keepends=True)
    at, path, current = 0, "", list[bytes]()
    while at < len(lines):
        hunk = _HUNK.match(lines[at])
        if lines[at].startswith(b"--- ") and at + 1 < len(lines) and lines[at + 1].startswith(b"+++ "):
            if current:
                yield path, b"".join(current)
            path, current = _header(lines[at], lines[at + 1])
            at += 2
        elif hunk and current:
            end = _hunk_end(lines, at, hunk)
            current.extend(lines[at:end])
            at = end
        else:
            at += 1
    if current:
        yield path, b"".join(current)


def _header(old: bytes, new: bytes) -> tuple[str, list[bytes]]:
    names = [line[4:].rstrip(b"\r\n").split(b"\t")[0] for line in (old, new)]
    path = next((name.partition(b"/")[2] for name in reversed(names) if name != b"/dev/null"), b"")
    made = [_GIT + b"a/%s b/%s\n" % (path, path)]
    if names[0] == b"/dev/null":
        made.append(b"new file mode 100644\n")
    elif names[1] == b"/dev/null":
        made.append(b"deleted file mode 100644\n")
    old_name = b"/dev/null" if names[0] == b"/dev/null" else b"a/" + path
    new_name = b"/dev/null" if names[1] == b"/dev/null" else b"b/" + path
    return path.decode("utf-8", "surrogateescape"), [*made, b"--- %s\n" % old_name, b"+++ %s\n" % new_name]


def _hunk_end(lines: list[bytes], at: int, hunk: re.Match[bytes]) -> int:
    """The line after a hunk, by the counts in its header."""
    old, new = (int(group) if group is not None else 1 for group in hunk.groups())
    at += 1
    while at < len(lines) and (old > 0 or new > 0 or lines[at].startswith(b"\\")):
        mark = lines[at][:1]
        old -= mark in (b" ", b"-", b"\n", b"\r")
        new -= mark in (b" ", b"+", b"\n", b"\r")
        at += 1
    return at
