"""Whole-process times of patchkit against `python -c pass`, medians of one run, and where the first apply spends them.

    python benchmarks/startup.py [IMAGE]

The baseline is the environment's own interpreter binary. The package cache is warm; the managed root is removed before
each first apply. Prints a table; ratios are what counts, the machine may be busy.
"""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]
RUNS = 21
COMMANDS = ("apply", "revert", "verify", "diff", "status", "lock", "image")

PHASES = """
import sys, time
start = time.perf_counter()
from patchkit.cli.main import main
spent = {}
def timed(module, name, label):
    import importlib
    holder = importlib.import_module(module)
    for part in name.split(".")[:-1]:
        holder = getattr(holder, part)
    leaf = name.split(".")[-1]
    inner = getattr(holder, leaf)
    def outer(*args, **kwargs):
        begun = time.perf_counter()
        try:
            return inner(*args, **kwargs)
        finally:
            spent[label] = spent.get(label, 0.0) + time.perf_counter() - begun
    setattr(holder, leaf, outer)
for module, name, label in (
    ("patchkit.app.roots", "ensure", "make the managed root"),
    ("patchkit.app.project", "Project.lock", "read and check the lock"),
    ("patchkit.core.change", "make_plan", "judge the steps"),
    ("patchkit.core.change", "_compile", "compile patched Python"),
    ("patchkit.core.transaction", "Transaction.commit", "journal, write, fsync, rename"),
):
    timed(module, name, label)
loaded = time.perf_counter() - start
begun = time.perf_counter()
import io
sys.stdout = io.StringIO()
code = main(sys.argv[1:])
total = time.perf_counter() - begun
sys.stdout = sys.__stdout__
assert code == 0, code
rest = total - sum(spent.values())
for label, seconds in [("import", loaded), *spent.items(), ("the rest", rest)]:
    print(f"{label}\\t{seconds}")
"""


def interpreter() -> str:
    """The real binary of this environment's interpreter, no shim."""
    return sys.executable


def once(words: list[str]) -> float:
    """Seconds of wall time of one process."""
    begun = time.perf_counter()
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return time.perf_counter() - begun


def main(image: str) -> None:
    """Measure and print."""
    python = interpreter()
    with tempfile.TemporaryDirectory() as folder:
        for name in ("images", "patches"):
            shutil.copytree(ROOT / name, Path(folder) / name)
        tool = [python, "-m", "patchkit"]
        apply = [*tool, "apply", "--image", image, "-C", folder]
        managed = Path(folder) / ".patchkit"
        once(apply)
        times: dict[str, list[float]] = {}
        for _ in range(RUNS):  # interleaved, so that a busy minute falls on all alike
            times.setdefault("baseline", []).append(once([python, "-c", "pass"]))
            times.setdefault("no-op apply", []).append(once(apply))
            shutil.rmtree(managed)
            times.setdefault("first apply, warm cache", []).append(once(apply))
            for command in COMMANDS:
                times.setdefault(f"{command} --help", []).append(once([*tool, command, "--help"]))
        base = statistics.median(times["baseline"])
        print(f"{'':32} {'median':>9} {'ratio':>6} {'limit':>6}")
        for name, values in times.items():
            limit = {"baseline": "", "first apply, warm cache": "30"}.get(name, "7")
            median = statistics.median(values)
            print(f"{name:32} {median * 1000:6.1f} ms {median / base:6.1f} {limit:>6}")
        print("\nwhere the first apply spends its time (one process, median of 5):")
        phases: dict[str, list[float]] = {}
        for _ in range(5):
            shutil.rmtree(managed)
            done = subprocess.run(
                [python, "-c", PHASES, *apply[3:]], check=True, capture_output=True, text=True, env=os.environ
            )
            for line in done.stdout.splitlines():
                label, seconds = line.split("\t")
                phases.setdefault(label, []).append(float(seconds))
        for label, values in phases.items():
            print(f"  {label:32} {statistics.median(values) * 1000:6.1f} ms")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "nightly-c50aca")
