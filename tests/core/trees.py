"""Trees for the applier's tests: in memory, on disk, and the oracles git and GNU diff."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
from pathlib import Path

from patchkit.core.diffs import Section, parse
from patchkit.core.judge import judge_patch
from patchkit.core.sections import apply_sections, reverse
from patchkit.core.tree import LINK, REGULAR, FileState, UnreadableError
from patchkit.core.verdicts import Verdict

Files = dict[str, FileState]


def file(data: bytes, *, x: bool = False) -> FileState:
    return FileState(data=data, mode=0o755 if x else 0o644)


def link(target: bytes) -> FileState:
    return FileState(kind=LINK, mode=0o777, data=target)


def lines(count: int = 30, word: str = "line", end: str = "\n") -> bytes:
    return "".join(f"{word} {i}{end}" for i in range(1, count + 1)).encode()


class MemoryTree:
    """Files in memory that behave like a directory: a path's parents are directories, links are not followed."""

    def __init__(self, files: Files | None = None) -> None:
        self.files: Files = dict(files or {})
        self.folders = {folder for path in self.files for folder in _parents(path)}

    def read(self, path: str) -> FileState | None:
        if path in self.folders:
            raise UnreadableError("it is a directory, no regular file")
        for above in _parents(path):
            if above in self.files:
                raise UnreadableError(f"{above}, on the way to it, is no directory")
        return self.files.get(path)


def _parents(path: str) -> list[str]:
    parts = path.split("/")
    return ["/".join(parts[:i]) for i in range(1, len(parts))]


def result(files: Files, changes: dict[str, FileState | None]) -> Files:
    """The tree after `changes`, which must be one that can exist."""
    merged = {**files, **changes}
    after = {path: state for path, state in merged.items() if state is not None}
    folders = {folder for path in after for folder in _parents(path)}
    assert not folders & set(after), f"a file and a directory of one name: {folders & set(after)}"
    return after


class MisfitError(Exception):
    """Sections that did not fit, told by the applier."""


def run(files: Files, sections: tuple[Section, ...]) -> Files:
    overlay, reports = apply_sections(sections, MemoryTree(files))
    bad = [f"{r.section.path}: {r.why}" for r in reports if not r.ok]
    if bad:
        raise MisfitError("\n".join(bad))
    return result(files, overlay.changes)


def same(one: Files, other: Files) -> bool:
    return plain(one) == plain(other)


def plain(files: Files) -> dict[str, tuple[str, bool, bytes]]:
    """What a diff can say of a tree: kinds, execute bits, bytes."""
    return {path: (s.kind, s.kind == REGULAR and bool(s.mode & 0o100), s.data) for path, s in sorted(files.items())}


def check_there_and_back(before: Files, diff: bytes, after: Files, *, strip: int = 1, verdicts: set[Verdict]) -> None:
    """The whole promise: forward gives `after`, reverse gives `before`, a second run never applies."""
    sections = parse(diff, strip=strip)
    assert plain(run(before, sections)) == plain(after)
    assert plain(run(after, reverse(sections))) == plain(before)
    first = judge_patch(sections, MemoryTree(before))
    assert first.verdict in (Verdict.APPLIES, Verdict.OFFSET, Verdict.CONFLICT), first
    if first.writes:
        assert plain(result(before, first.writes)) == plain(after)
    again = judge_patch(sections, MemoryTree(after))
    assert again.verdict in verdicts, again


# -- on disk


def write_tree(root: Path, files: Files) -> None:
    root.mkdir(parents=True, exist_ok=True)
    for path, state in files.items():
        where = os.fsencode(root) + b"/" + os.fsencode(path)
        os.makedirs(os.path.dirname(where), exist_ok=True)
        if state.kind == LINK:
            os.symlink(state.data, where)
        else:
            with open(where, "wb") as stream:
                stream.write(state.data)
            os.chmod(where, state.mode)


def read_tree(root: Path, *, skip: tuple[str, ...] = (".git",)) -> Files:
    found: Files = {}
    for folder, folders, names in os.walk(os.fsencode(root)):
        folders[:] = [f for f in folders if os.fsdecode(f) not in skip]
        for name in [*names, *(f for f in folders if os.path.islink(os.path.join(folder, f)))]:
            where = os.path.join(folder, name)
            path = os.fsdecode(os.path.relpath(where, os.fsencode(root)))
            status = os.lstat(where)
            if stat.S_ISLNK(status.st_mode):
                found[path] = link(os.readlink(where))
            else:
                data = Path(os.fsdecode(where)).read_bytes()
                found[path] = FileState(data=data, mode=stat.S_IMODE(status.st_mode))
    return found


_ENV = {
    "PATH": os.environ["PATH"],
    "HOME": "/nonexistent",
    "LC_ALL": "C.UTF-8",
    "TZ": "UTC",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_AUTHOR_NAME": "A",
    "GIT_AUTHOR_EMAIL": "a@x",
    "GIT_COMMITTER_NAME": "A",
    "GIT_COMMITTER_EMAIL": "a@x",
    "GIT_AUTHOR_DATE": "2024-01-01T00:00:00Z",
    "GIT_COMMITTER_DATE": "2024-01-01T00:00:00Z",
}


class Repo:
    """A bare git repository that trees are written to in one go (git fast-import)."""

    def __init__(self, root: Path) -> None:
        self.root = root
        root.mkdir(parents=True, exist_ok=True)
        self.git("init", "-q", "--bare", "-b", "main")

    def git(self, *args: str, feed: bytes = b"") -> bytes:
        env = {**_ENV, "GIT_DIR": str(self.root)}
        done = subprocess.run(["git", *args], cwd=self.root, env=env, input=feed, capture_output=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def write(self, trees: list[Files], *, chain: bool = False) -> list[str]:
        """The names of commits that hold `trees`; `chain` makes each the child of the one before."""
        stream = bytearray()
        for number, files in enumerate(trees, 1):
            stream += b"commit refs/heads/t%d\nmark :%d\n" % (0 if chain else number, number)
            stream += b"committer A <a@x> 1704067200 +0000\ndata 8\na change\n"
            if chain and number > 1:
                stream += b"from :%d\n" % (number - 1)
            stream += b"deleteall\n"
            for path, state in files.items():
                mode = b"120000" if state.kind == LINK else b"100755" if state.mode & 0o100 else b"100644"
                stream += b"M %s inline %s\n" % (mode, _quoted(path))
                stream += b"data %d\n%s\n" % (len(state.data), state.data)
        marks = self.root / "marks"
        self.git("fast-import", "--quiet", "--force", f"--export-marks={marks}", feed=bytes(stream))
        names = dict(line.split() for line in marks.read_text().splitlines())
        return [names[f":{number}"] for number in range(1, len(trees) + 1)]

    def diff(self, before: Files, after: Files, *options: str) -> bytes:
        return self.git("diff", *(options or ("--binary", "-M")), *self.write([before, after]))


def _quoted(path: str) -> bytes:
    escaped = "".join(f"\\{byte:03o}" for byte in os.fsencode(path))
    return f'"{escaped}"'.encode()


def git_apply(root: Path, files: Files, diff: bytes, *options: str) -> Files | None:
    """What `git apply`, cut off from any repository, makes of `files`; None where it refuses."""
    if root.exists():
        shutil.rmtree(root)
    write_tree(root, files)
    env = {**_ENV, "GIT_DIR": "/nonexistent", "GIT_CEILING_DIRECTORIES": str(root.parent)}
    command = ["git", "apply", "--whitespace=nowarn", *options, "-"]
    done = subprocess.run(command, cwd=root, env=env, input=diff, capture_output=True, check=False)
    return read_tree(root) if done.returncode == 0 else None


def gnu_diff(root: Path, before: Files, after: Files, *options: str, stamps: dict[str, float] | None = None) -> bytes:
    """The output of `diff OPTIONS a b` in `root`."""
    if root.exists():
        shutil.rmtree(root)
    write_tree(root / "a", before)
    write_tree(root / "b", after)
    for path, stamp in (stamps or {}).items():
        os.utime(root / path, (stamp, stamp))
    done = subprocess.run(["diff", *options, "a", "b"], cwd=root, env=_ENV, capture_output=True, check=False)
    assert done.returncode in (0, 1), done.stderr
    return done.stdout
