"""Recall and precision of `waiver scan` on the snippets of tests/cases/scan: `python benchmarks/scan_corpus.py [FOLDER...]`.

Exit code 1 where either is below 0.95. The snippets' form is told in tests/cases/scan/README.md.
"""

from __future__ import annotations

import re
import shutil
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from patchkit.waivers.scan import scan

CASES = Path(__file__).parent.parent / "tests" / "cases" / "scan"
LEAST = 0.95
_EXPECT = re.compile(r"#\s*expect:\s*(.*?)\s*$")
_ITEM = re.compile(r"(\d+)(?:-(\d+))?:([a-z|-]+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """One thing to be found."""

    first: int
    last: int
    kinds: frozenset[str]

    def fits(self, line: int, kind: str) -> bool:
        """Whether a finding is the one that is expected."""
        named = kind in self.kinds or (kind == "missing-patch" and "patch" in self.kinds)
        return named and self.first <= line <= self.last


@dataclass(slots=True)
class Score:
    """What was found of what is there, by kind."""

    hits: Counter[str] = field(default_factory=Counter)
    missed: Counter[str] = field(default_factory=Counter)
    false: Counter[str] = field(default_factory=Counter)
    notes: list[str] = field(default_factory=list)
    files: int = 0
    clean: int = 0

    @property
    def recall(self) -> float:
        """The part of what is there that was found."""
        return self.hits.total() / max(1, self.hits.total() + self.missed.total())

    @property
    def precision(self) -> float:
        """The part of what was found that is there."""
        return self.hits.total() / max(1, self.hits.total() + self.false.total())


def expectation(path: Path) -> list[Item] | None:
    """What a snippet expects; None for a file that is scenery."""
    for line in path.read_text(errors="replace").split("\n")[:3]:
        match = _EXPECT.search(line)
        if match is None:
            continue
        if match[1] == "nothing":
            return []
        items = [_ITEM.fullmatch(word) for word in match[1].replace(",", " ").split()]
        if not items or None in items:
            raise SystemExit(f"{path}: not an expectation: {match[1]}")
        return [
            Item(first=int(i[1]), last=int(i[2] or i[1]), kinds=frozenset(i[3].split("|")))
            for i in items
            if i is not None
        ]
    return None


def judge(snippet: Path, score: Score) -> None:
    """Scan one snippet, a file or a folder, alone."""
    with tempfile.TemporaryDirectory(prefix="snippet-") as folder:
        place = Path(folder, "repository")
        if snippet.is_dir():
            shutil.copytree(snippet, place)
        else:
            place.mkdir()
            shutil.copy(snippet, place)
        found = scan([place], cache=False)
        for path in sorted(each for each in place.rglob("*") if each.is_file()):
            items = expectation(path)
            if items is None:
                continue
            score.files += 1
            score.clean += not items
            mine = {(f.line, f.kind, f.touches) for f in found if f.path == str(path)}
            compare(f"{snippet.parent.name}/{snippet.name}", items, mine, score)


def compare(name: str, items: list[Item], mine: set[tuple[int, str, str]], score: Score) -> None:
    """Count the findings of one file against its expectation."""
    for item in items:
        kind = min(item.kinds)
        if any(item.fits(line, found) for line, found, _ in mine):
            score.hits[kind] += 1
        else:
            score.missed[kind] += 1
            score.notes.append(f"missed  {name}:{item.first}-{item.last} {kind}")
    for line, kind, touches in sorted(mine):
        if not any(item.fits(line, kind) for item in items):
            score.false[kind] += 1
            score.notes.append(f"false   {name}:{line} {kind} ({touches})")


def judge_all(folder: Path) -> Score:
    """Scan every snippet of a folder."""
    score = Score()
    for snippet in sorted(folder.iterdir()):
        judge(snippet, score)
    return score


def main(folders: list[str]) -> int:
    """Print the table, and everything that is missed or false."""
    bad = False
    for folder in [Path(f).resolve() for f in folders] or sorted(p for p in CASES.iterdir() if p.is_dir()):
        score = judge_all(folder)
        print(f"{folder.name}: {score.files} snippets, {score.clean} of them with nothing to find")
        for kind in sorted({*score.hits, *score.missed, *score.false}):
            print(f"  {kind:14} found {score.hits[kind]:3}  missed {score.missed[kind]:3}  false {score.false[kind]:3}")
        print(f"  recall {score.recall:.3f}  precision {score.precision:.3f}  (at least {LEAST})")
        print("".join(f"  {note}\n" for note in score.notes), end="")
        bad = bad or score.recall < LEAST or score.precision < LEAST
    return int(bad)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
