"""The bundle that finds everything applied already, against `/usr/bin/python3 -c pass`; medians of one run.

    python benchmarks/bundle.py [IMAGE [RUNS]]

The bundle is the shipped stack's, its root the managed root of a project of its own. Wall time is what the limit is about;
the processor's time beside it tells the same where a busy machine makes wall time vary.
"""

from __future__ import annotations

import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from resource import RUSAGE_CHILDREN, getrusage

ROOT = Path(__file__).parents[1]
PYTHON = "/usr/bin/python3"
LIMIT = 7


def once(words: list[str]) -> tuple[float, float]:
    """Seconds of wall time and of the processor's time of one process."""
    before, begun = getrusage(RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    wall, after = time.perf_counter() - begun, getrusage(RUSAGE_CHILDREN)
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main(image: str, runs: int) -> None:
    """Measure and print."""
    with tempfile.TemporaryDirectory() as folder:
        for name in ("images", "patches"):
            shutil.copytree(ROOT / name, Path(folder) / name)
        tool = [sys.executable, "-m", "patchkit"]
        once([*tool, "apply", "--image", image, "-C", folder])
        once([*tool, "bundle", "--image", image, "-C", folder, "-o", f"{folder}/k3.pyz"])
        root = next(path for path in Path(folder, ".patchkit/roots").iterdir() if path.is_dir())
        ways = {
            "python3 -c pass": [PYTHON, "-c", "pass"],
            "bundle apply, already applied": [PYTHON, f"{folder}/k3.pyz", "apply", "--stand-in", "--root", str(root)],
            "bundle verify": [PYTHON, f"{folder}/k3.pyz", "verify", "--stand-in", "--root", str(root)],
            "bundle --help": [PYTHON, f"{folder}/k3.pyz", "--help"],
        }
        times: dict[str, list[tuple[float, float]]] = {}
        for _ in range(runs):  # interleaved, so that a busy minute falls on all alike
            for label, words in ways.items():
                times.setdefault(label, []).append(once(words))
    base, base_cpu = (statistics.median(values) for values in zip(*times["python3 -c pass"], strict=True))
    print(f"{'':32} {'median':>9} {'ratio':>6} {'cpu':>6} {'limit':>6}")
    for label, values in times.items():
        wall, cpu = (statistics.median(each) for each in zip(*values, strict=True))
        limit = LIMIT if "already" in label else ""
        print(f"{label:32} {wall * 1000:6.1f} ms {wall / base:6.1f} {cpu / base_cpu:6.1f} {limit:>6}")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "nightly-c50aca", int(sys.argv[2]) if len(sys.argv) > 2 else 31)
