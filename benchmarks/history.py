"""A scan of 1,000 landings over a history of 20,000 commits: reading, indexing, the fate and the containment of each.

    python benchmarks/history.py [COMMITS [LANDINGS]]

`git fast-import` makes the history: squash merges with bodies, one revert in forty, half of them landed again, 180
release branches with cherry-picks, each with its tag. It is cloned as `status --fetch` does. Prints a table of
seconds (medians of 3 runs) and of git processes; the limit for the whole is 3 s with the clone cached.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from patchkit.sources.clone import Clone, fetch_clone
from patchkit.upstream.containment import contains
from patchkit.upstream.facts import Pull, Ref
from patchkit.upstream.history import read_history
from patchkit.upstream.reverts import tell

REPO = "ROCm/aiter"
RUNS = 3
BODY = (
    "A description of some length, as squash merges have them.\n\n" * 6
    + "Co-authored-by: Somebody <s@example.invalid>\n"
)


class Stream:
    """A `git fast-import` stream of commits that change one small file each."""

    def __init__(self) -> None:
        self.parts: list[str] = []
        self.mark = 0

    def commit(self, branch: str, subject: str, parent: int | None, at: int) -> int:
        """Add a commit and return its mark."""
        self.mark += 1
        message = f"{subject}\n\n{BODY}"
        who = f"T <t@example.invalid> {1_700_000_000 + at * 600} +0000"
        origin = f"from :{parent}\n" if parent else ""
        self.parts.append(
            f"commit refs/heads/{branch}\nmark :{self.mark}\nauthor {who}\ncommitter {who}\n"
            f"data {len(message.encode())}\n{message}\n{origin}M 100644 inline f{at % 50}\ndata 6\n{at % 100000:06d}\n"
        )
        return self.mark

    def tag(self, name: str, mark: int) -> None:
        """Add a light tag."""
        self.parts.append(f"reset refs/tags/{name}\nfrom :{mark}\n\n")


def subject_at(number: int) -> str:
    """What commit `number` does: a landing, a revert of the one ten before, or that one again."""
    if number % 40 == 20:
        return f'Revert "Change {number - 10} (#{number - 10})" (#{number})'
    if number % 80 == 30:
        return f'Reland "Change {number - 20} (#{number - 20})" (#{number})'
    return f"Change {number} (#{number})"


def make(directory: Path, commits: int) -> None:
    """Make the upstream repository."""
    stream, last = Stream(), None
    for number in range(1, commits + 1):
        last = stream.commit("main", subject_at(number), last, number)
        if number % max(1, commits // 180) == 0:
            branch = f"release/{number}"
            side = last
            for picked in range(number - 3, number):
                side = stream.commit(branch, f"[release] {subject_at(picked)} (#{commits + stream.mark})", side, number)
            stream.tag(f"v0.{number}", side)
    subprocess.run(["git", "init", "-q", "--bare", "-b", "main", str(directory)], check=True)
    subprocess.run(["git", "-C", str(directory), "config", "uploadpack.allowFilter", "true"], check=True)
    importing = ["git", "-C", str(directory), "fast-import", "--quiet"]
    subprocess.run(importing, input="".join(stream.parts).encode(), check=True)


def pull(number: int, merge_commit: str | None) -> Pull:
    """What the forge says of pull request `number`; half of them only say `closed`."""
    time = "2023-11-14T22:13:20Z"
    return Pull(
        ref=Ref(repo=REPO, number=number),
        title=f"Change {number}",
        state="merged" if merge_commit else "closed",
        draft=False,
        base="main",
        head="0" * 40,
        merge_commit=merge_commit,
        created_at=time,
        updated_at=time,
        closed_at=time,
        merged_at=time if merge_commit else None,
        as_of=time,
    )


def scan(directory: str, landings: int) -> tuple[dict[str, float], dict[str, int]]:
    """Return the seconds of each part, and what was found."""
    spent: dict[str, float] = {}
    begun = time.perf_counter()
    clone = Clone(directory)
    revision = clone.resolve("main~200")
    history = read_history(clone, repo=REPO, revisions=["main~200"])
    assert history is not None
    assert revision is not None
    spent["read and index the history"] = time.perf_counter() - begun
    step = max(1, len(history) // (landings + 50))
    numbers = [number for number in range(10, len(history), step) if history.landed(number)][:landings]
    found: dict[str, int] = {}
    middle = time.perf_counter()
    stories = []
    for at, number in enumerate(numbers):
        merge = history.commit(history.landed(number)[0]).sha if at % 2 else None
        stories.append(tell(Ref(repo=REPO, number=number), pull(number, merge), history))
    spent[f"fates of {len(numbers)} pull requests, first releases included"] = time.perf_counter() - middle
    middle = time.perf_counter()
    for story in stories:
        held = contains(story.turns, revision, history=history)
        for key in (story.fate.state.value, f"in the image: {held.in_image}"):
            found[key] = found.get(key, 0) + 1
    spent["containment of each in one revision"] = time.perf_counter() - middle
    clone.close()
    spent["whole"] = time.perf_counter() - begun
    return spent, found


def processes(directory: str, landings: int, folder: Path) -> int:
    """How many git processes one scan starts."""
    real = subprocess.run(["which", "git"], capture_output=True, text=True, check=True).stdout.strip()
    log = folder / "log"
    wrapper = folder / "bin" / "git"
    wrapper.parent.mkdir()
    wrapper.write_text(f'#!/bin/sh\necho >> {log}\nexec {real} "$@"\n')
    wrapper.chmod(0o755)
    before = os.environ["PATH"]
    os.environ["PATH"] = f"{wrapper.parent}:{before}"
    try:
        scan(directory, landings)
    finally:
        os.environ["PATH"] = before
    return len(log.read_text().splitlines())


def main(commits: int, landings: int) -> None:
    """Measure and print."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        make(folder / "upstream.git", commits)
        begun = time.perf_counter()
        clone = fetch_clone("github.com", REPO, f"file://{folder}/upstream.git", str(folder / "cache"))
        fetched = time.perf_counter() - begun
        size = sum(path.stat().st_size for path in Path(clone.directory).rglob("*") if path.is_file())
        runs = [scan(clone.directory, landings) for _ in range(RUNS)]
        print(f"{commits} commits on main, cached clone of {size / 1e6:.1f} MB fetched in {fetched:.2f} s")
        for label in runs[0][0]:
            print(f"  {label:60} {statistics.median(spent[label] for spent, _ in runs):7.3f} s")
        print(f"  {'git processes of a scan':60} {processes(clone.directory, landings, folder):7}")
        print(f"  found: {', '.join(f'{key} {count}' for key, count in sorted(runs[0][1].items()))}")


if __name__ == "__main__":
    main(*(int(word) for word in (sys.argv[1:] + ["20000", "1000"][len(sys.argv) - 1 :])))
