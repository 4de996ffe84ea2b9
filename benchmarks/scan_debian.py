"""What `waiver scan` says of the files of Debian packages, and how fast: `python benchmarks/scan_debian.py FOLDER`.

FOLDER holds one folder a package, unpacked (`--fetch` fills it: `apt-get download` of the packages that the list names,
then `dpkg-deb`). Every finding must be labelled in tests/cases/scan/debian.txt; at most 1 file in 200 may be flagged
falsely. The speed is that of whole processes on the first 2,000 shell files, with an empty and with a filled cache.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from patchkit.waivers.scan import files_below, scan_report

LABELS = Path(__file__).parent.parent / "tests" / "cases" / "scan" / "debian.txt"
FILES = 2000
_RUN = "import sys; from patchkit.waivers.scan import scan_report as s; s(sys.stdin.read().split('\\0'))"


def labels() -> tuple[list[str], dict[tuple[str, str], str]]:
    """The packages of the list, and the verdict on each finding: by file and kind."""
    packages: list[str] = []
    verdicts: dict[tuple[str, str], str] = {}
    for line in LABELS.read_text().splitlines():
        if line.startswith("package "):
            packages += line.split()[1:]
        elif line and not line.startswith("#"):
            path, kind, verdict = line.split(" ", 2)
            verdicts[path, kind] = verdict
    return packages, verdicts


def fetch(folder: Path, packages: list[str]) -> None:
    """Download the packages with apt and unpack them."""
    with tempfile.TemporaryDirectory() as downloads:
        for at in range(0, len(packages), 20):
            subprocess.run(["apt-get", "-q", "download", *packages[at : at + 20]], cwd=downloads, check=False)
        for file in sorted(Path(downloads).glob("*.deb")):
            place = folder / file.name.split("_")[0]
            subprocess.run(["dpkg-deb", "-x", file, place], check=False)
            subprocess.run(["dpkg-deb", "-e", file, place / "DEBIAN"], check=False)


def seconds(files: list[Path], cache: Path) -> float:
    """One whole process."""
    environment = os.environ | {"PATCHKIT_CACHE": str(cache)}
    start = time.perf_counter()
    subprocess.run([sys.executable, "-c", _RUN], input="\0".join(map(str, files)).encode(), env=environment, check=True)
    return time.perf_counter() - start


def speed(files: list[Path]) -> None:
    """The best of three runs, cold and warm."""
    cold, warm = [], []
    for _ in range(3):
        cache = Path(tempfile.mkdtemp(prefix="scan-cache-"))
        cold.append(seconds(files, cache))
        warm.append(seconds(files, cache))
        shutil.rmtree(cache)
    print(f"{len(files)} shell files: cold {min(cold):.2f} s (limit 5), warm {min(warm):.2f} s (limit 1)")


def flags(folder: Path, files: list[Path], verdicts: dict[tuple[str, str], str], what: str) -> int:
    """Print every finding with its verdict; return how many files are flagged falsely, or have no verdict."""
    report = scan_report(files, cache=False)
    bad: set[str] = set()
    for finding in report.findings:
        path = str(Path(finding.path).relative_to(folder))
        verdict = verdicts.get((path, finding.kind), "NOT LABELLED")
        print(f"  {path}:{finding.line} {finding.kind} {finding.touches}: {verdict}")
        if not verdict.startswith("right"):
            bad.add(path)
    print(f"{what}: {report.files} files, {len(report.findings)} findings, {len(bad)} files falsely flagged")
    print("".join(f"  not read whole: {path}: {why}\n" for path, why in report.unread), end="")
    return len(bad)


def main() -> int:
    """Print findings, false flags and speed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--fetch", action="store_true")
    args = parser.parse_args()
    packages, verdicts = labels()
    folder = args.folder.resolve()
    if args.fetch:
        fetch(folder, packages)
    every = files_below([folder])
    shell = [path for path, kind in every if kind == "shell"]
    others = [path for path, kind in every if kind != "shell"]
    bad = flags(folder, shell, verdicts, "shell")
    flags(folder, others, verdicts, "other files")
    speed(shell[:FILES])
    return int(bad * 200 > len(shell))


if __name__ == "__main__":
    sys.exit(main())
