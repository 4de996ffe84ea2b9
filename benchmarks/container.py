"""apply through a running container, against `docker exec` of the bundle and against the legacy way; medians of one run.

    python benchmarks/container.py [RUNS]

The container is of scripts/test-images' vllmlike, the stack the twelve-patch one made here. Legacy: copy the patches in,
then one `git apply` a patch by `docker exec`; the test image has no git, so `true` stands for it: a lower bound.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

SITE = "usr/local/lib/python3.12/dist-packages"
IMAGE = "patchkit-test/vllmlike:1"
PATCHES = 12
LIMIT = 1.5  # against `docker exec` of the bundle; and never longer than the legacy way


def once(words: list[str], data: bytes | None = None) -> float:
    """Seconds of wall time of one process."""
    time.sleep(0.2)  # what the one before left to the disk and the engine is not this one's
    begun = time.perf_counter()
    subprocess.run(words, check=True, input=data, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return time.perf_counter() - begun


def make(folder: Path) -> None:
    """A project with twelve patches of one line each, and the pristine files."""
    site = folder / "pristine" / SITE / "vllm"
    site.mkdir(parents=True)
    (site / "_version.py").write_text("commit_id = 'gc50aca144'\n")
    patches = folder / "patches/bench"
    patches.mkdir(parents=True)
    (folder / "images").mkdir()
    steps = []
    for number in range(PATCHES):
        lines = [f"x{n} = {n}\n" for n in range(400)]
        (site / f"m{number}.py").write_text("".join(lines))
        hunk = " x198 = 198\n x199 = 199\n-x200 = 200\n+x200 = 'patched'\n x201 = 201\n x202 = 202\n"
        head = f"--- a/vllm/m{number}.py\n+++ b/vllm/m{number}.py\n@@ -199,5 +199,5 @@\n"
        (patches / f"p{number}.patch").write_text(head + hunk)
        steps.append({"id": f"p{number}", "patch": f"p{number}.patch", "reason": "-", "removal": {"when": "manual"}})
    (patches / "stack.yaml").write_text(json.dumps({"image": "bench", "version": 1, "steps": steps}))
    image = {"name": "bench", "reference": IMAGE, "site": SITE}
    (folder / "images/bench.yaml").write_text(json.dumps(image))


def measure(folder: Path, container: str, runs: int) -> dict[str, list[float]]:
    """The ways, interleaved, so that a busy minute falls on all alike."""
    tool = [sys.executable, "-m", "patchkit"]
    more = ["--image", "bench", "-C", str(folder)]
    once([*tool, "lock", *more, "--from", str(folder / "pristine")])
    once([*tool, "bundle", *more, "-o", str(folder / "k3.pyz")])
    once(["docker", "cp", f"{folder}/pristine/{SITE}/vllm/.", f"{container}:/{SITE}/vllm/"])
    once(["docker", "cp", f"{folder}/k3.pyz", f"{container}:/k3.pyz"])
    inside = ["docker", "exec", container, "python3", "/k3.pyz"]
    times: dict[str, list[float]] = {}
    for _ in range(runs):
        times.setdefault("docker exec of the bundle", []).append(once([*inside, "apply"]))
        times.setdefault("docker exec of the bundle, again", []).append(once([*inside, "apply"]))
        once([*inside, "revert"])
        times.setdefault("apply --container", []).append(once([*tool, "apply", *more, "--container", container]))
        times.setdefault("apply --container, again", []).append(once([*tool, "apply", *more, "--container", container]))
        once([*inside, "revert"])
        legacy = once(["docker", "cp", f"{folder}/patches/bench", f"{container}:/patches"])
        legacy += sum(once(["docker", "exec", container, "true"]) for _ in range(PATCHES))
        times.setdefault("legacy: copy in, 12 times exec", []).append(legacy)
    once(["docker", "kill", container])
    for _ in range(max(runs // 5, 1)):
        times.setdefault("apply --container, stopped", []).append(
            once([*tool, "apply", *more, "--container", container])
        )
        once([*tool, "revert", *more, "--container", container])
    return times


def main(runs: int) -> None:
    """Measure and print."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        make(folder)
        create = ["docker", "run", "-d", "--network", "none", IMAGE, "sleep", "3600"]
        container = subprocess.run(create, check=True, capture_output=True, text=True).stdout.strip()
        try:
            times = measure(folder, container, runs)
        finally:
            once(["docker", "rm", "-f", container])
    base = statistics.median(times["docker exec of the bundle"])
    legacy = statistics.median(times["legacy: copy in, 12 times exec"])
    print(f"{'':32} {'median':>9} {'ratio':>6} {'limit':>6}")
    for label, values in times.items():
        median = statistics.median(values)
        limit = f"{min(LIMIT, legacy / base):6.2f}" if label == "apply --container" else ""
        print(f"{label:32} {median * 1000:6.0f} ms {median / base:6.2f} {limit:>6}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 9)
