"""The fixture `observed`: what a scenario answers on a release's own files, and on the same files with the stack."""

import ast
import fcntl
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import pytest

HERE = Path(__file__).parent
PROJECT = HERE.parent.parent
ENVIRONMENT = "0.32.0"  # one CPU environment carries the files of every release below
RELEASES = {
    "nightly-c50aca": "0.33.0",
    "nightly-7c5dc571": "0.29.0",
    "nightly-cb8104839c": "0.27.1",
    "v0.27.1": "0.27.1",
}
RUN_TIMEOUT_SECONDS = 900

Observe = Callable[[str, str, str], tuple[Any, Any]]
Answers = dict[str, dict[str, dict[str, Any]]]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.vllm)


def cache() -> Path:
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(os.environ.get("PATCHKIT_CACHE") or Path(home) / "patchkit")


def unavailable(reason: str) -> NoReturn:
    if "vllm" in re.split(r"[\s,]+", os.environ.get("PATCHKIT_REQUIRE", "")):
        pytest.fail(f"{reason} (PATCHKIT_REQUIRE demands it)", pytrace=False)
    pytest.skip(reason)


def ready(path: Path, command: str) -> Path:
    if not (path / ".ready").is_file():
        unavailable(f"{path} is missing: run scripts/vllm-cpu {command}")
    return path


def environment() -> Path:
    return ready(cache() / "vllm-cpu" / ENVIRONMENT, f"env {ENVIRONMENT}")


def sources(image: str) -> Path:
    return ready(cache() / "vllm-src" / RELEASES[image], f"sources {RELEASES[image]}")


def link_or_copy(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)


def copy_tree(source: Path, target: Path) -> None:
    # hard links are enough: patchkit and the byte-code compiler both replace a file, they never write into one
    ignore = shutil.ignore_patterns("*.pyc.*")
    shutil.copytree(source / "vllm", target / "vllm", copy_function=link_or_copy, ignore=ignore)


def patched_tree(image: str, target: Path) -> Path:
    """The site of a root in `target`: the image's release with the image's stack, applied by patchkit itself."""
    site = target / "site"
    copy_tree(sources(image), site)
    lock = json.loads((PROJECT / "patches" / image / "stack.lock.json").read_text())
    resolved = [step["id"] for step in lock["steps"] if not step["unresolved"]]
    only = ["--only", ",".join(resolved)] if len(resolved) < len(lock["steps"]) else []
    words = ["apply", "-C", PROJECT, "--image", image, "--root", target, "--site", "site", "--stand-in", *only]
    done = subprocess.run([sys.executable, "-m", "patchkit", *words], capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.fail(f"the stack of {image} does not apply:\n{done.stdout}{done.stderr}", pytrace=False)
    return site


def modules_for(images: set[str]) -> list[str]:
    """The scenario modules that name one of the images."""
    return [path.stem for path in sorted((HERE / "scenarios").glob("*.py")) if images & set(named_images(path))]


def named_images(module: Path) -> tuple[str, ...]:
    """IMAGES of a scenario module, none for a helper: read, not imported, as another release may lack what it needs."""
    for node in ast.parse(module.read_text()).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "IMAGES":
            images: tuple[str, ...] = ast.literal_eval(node.value)
            return images
    return ()


class Run:
    """One process of run_scenarios.py over one tree."""

    def __init__(self, tree: Path, modules: list[str], log: Path) -> None:
        self.log = log
        of_this_session = ("VLLM_", "PYTHON", "PYTEST_")
        variables = {
            **{key: value for key, value in os.environ.items() if not key.startswith(of_this_session)},
            "PYTHONPATH": str(tree),
            "VLLM_TARGET_DEVICE": "cpu",
            "VLLM_NO_USAGE_STATS": "1",
            "HF_HUB_OFFLINE": "1",
            "OMP_NUM_THREADS": "1",
        }
        with log.open("wb") as stderr:
            self.process = subprocess.Popen(
                [str(environment() / "bin" / "python"), str(HERE / "run_scenarios.py"), *modules],
                cwd=log.parent,
                env=variables,
                stdout=subprocess.PIPE,
                stderr=stderr,
                text=True,
            )

    def answers(self) -> Answers:
        try:
            stdout, _ = self.process.communicate(timeout=RUN_TIMEOUT_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise
        if self.process.returncode:
            log = self.log.read_text()[-4000:]
            pytest.fail(f"run_scenarios.py ended with {self.process.returncode}:\n{log}", pytrace=False)
        answers: Answers = json.loads(stdout)
        return answers


def answer(answers: Answers, step: str, name: str, side: str) -> Any:
    module = answers[step]
    found = module.get("<import>") or module[name]
    if "error" in found:
        pytest.fail(f"{step}.observe_{name} {side}:\n{found['error']}", pytrace=False)
    return found["value"]


def observe(image: str, wanted: Path) -> dict[str, Answers]:
    """The answers for `image` after its stack, and before it unless `wanted` has those of the release already."""
    siblings = {other for other in RELEASES if RELEASES[other] == RELEASES[image]}
    work = wanted / f"vllm-{image}"
    work.mkdir()
    tree = patched_tree(image, work / "tree")
    runs = {f"after-{image}": Run(tree, modules_for({image}), work / "after.log")}
    before = f"before-{RELEASES[image]}"
    if not (wanted / f"{before}.json").exists():
        runs[before] = Run(sources(image), modules_for(siblings), work / "before.log")
    return {name: run.answers() for name, run in runs.items()}


@pytest.fixture(scope="session")
def observed(tmp_path_factory: pytest.TempPathFactory) -> Observe:
    """`observed(image, step, name)` is what observe_<name>() of scenarios/<step>.py returned (before, after).

    The workers of pytest-xdist share the answers: the first that needs an image runs it, the others wait.
    """
    shared = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        shared = shared.parent
    loaded: dict[str, Answers] = {}

    def answers_for(image: str) -> None:
        failure = shared / f"failed-{image}.txt"
        if failure.exists():
            pytest.fail(failure.read_text(), pytrace=False)
        if not (shared / f"after-{image}.json").exists():
            try:
                found = observe(image, shared)
            except pytest.fail.Exception as failed:
                failure.write_text(str(failed))
                raise
            for name, answers in found.items():
                (shared / f"{name}.json").write_text(json.dumps(answers))
        for name in (f"after-{image}", f"before-{RELEASES[image]}"):
            loaded[name] = json.loads((shared / f"{name}.json").read_text())

    def look_up(image: str, step: str, name: str) -> tuple[Any, Any]:
        environment()
        sources(image)
        if f"after-{image}" not in loaded:
            with (shared / "vllm.lock").open("w") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)
                answers_for(image)
        step = step.replace("-", "_")
        before = answer(loaded[f"before-{RELEASES[image]}"], step, name, "before")
        return before, answer(loaded[f"after-{image}"], step, name, "after")

    return look_up
