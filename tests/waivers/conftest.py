"""Projects to check: a copy of what ships, and a small one whose stack can be locked anew without a network."""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jsonschema
import pytest

from patchkit.app import waivers
from patchkit.app.project import Project
from patchkit.cli.main import main
from patchkit.model import yamlfile
from patchkit.waivers.check import Result, check

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from patchkit.waivers.rules import Finding

ROOT = Path(__file__).parents[2]
TODAY = date(2026, 12, 1)
SCHEMA = jsonschema.Draft202012Validator(json.loads((ROOT / "docs/schemas/output.schema.json").read_text()))
IMAGE = "nightly-cb8104839c"


@dataclass
class Bench:
    """A project folder, the rules, and the command line."""

    root: Path

    def read(self, name: str) -> Any:
        return yamlfile.read(self.root / name, name).data

    def edit(self, name: str, change: Callable[[Any], object]) -> None:
        """Change a YAML file's data in place; it is JSON afterwards, which is YAML too."""
        data = self.read(name)
        change(data)
        self.write(name, data)

    def write(self, name: str, data: Any) -> None:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(data if isinstance(data, str) else json.dumps(data, indent=1), encoding="utf-8")

    def check(self, today: date = TODAY, **options: Any) -> Result:
        return check(waivers.read(Project(root=str(self.root)), **options), today)

    def findings(self, *, but: tuple[str, ...] = (), today: date = TODAY) -> list[Finding]:
        return [each for each in self.check(today).findings if each.code not in but]

    def codes(self, *, but: tuple[str, ...] = (), today: date = TODAY) -> list[str]:
        return [each.code for each in self.findings(but=but, today=today)]

    def run(self, *words: str) -> int:
        return main([*words, "-C", str(self.root)])

    def render(self) -> None:
        project = Project(root=str(self.root))
        subject = waivers.read(project)
        waivers.write(project, subject, subject.waivers)

    def json(self, capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, dict[str, Any]]:
        capsys.readouterr()
        code = self.run(*words, "--json")
        document = json.loads(capsys.readouterr().out)
        SCHEMA.validate(document)
        return code, document


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATCHKIT_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def shipped(tmp_path: Path) -> Bench:
    """What ships, of the one image that has a waiver."""
    return copy_shipped(tmp_path / "shipped")


def copy_shipped(root: Path) -> Bench:
    for name in (f"images/{IMAGE}.yaml", "patches/upstream.json", "waivers/2508.yaml", "docs/waiver/2508.md"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, root / name)
    for name in (IMAGE, "common"):
        shutil.copytree(ROOT / "patches" / name, root / "patches" / name)
    return Bench(root=root)


WORKER = "".join(f"line {number}\n" for number in range(1, 41))
PATCH = """\
--- a/engine/mla.py
+++ b/engine/mla.py
@@ -1,3 +1,4 @@
 line 1
+cast the query to fp8
 line 2
 line 3
@@ -30,3 +31,4 @@
 line 30
+if batch <= 256:
 line 31
 line 32
"""
WORKER_PATCH = """\
--- a/engine/gpu_worker.py
+++ b/engine/gpu_worker.py
@@ -1,2 +1,3 @@
 line 1
+pad the heads
 line 2
"""
PULL = "example/engine#7"


def demo_stack() -> dict[str, Any]:
    return {
        "image": "demo",
        "version": 1,
        "steps": [
            {
                "id": "mla-fp8",
                "patch": "mla.patch",
                "upstream": [PULL],
                "type": "backport",
                "reason": "Decode with an fp8 cache is wrong without it.",
                "removal": {"when": "contained", "ref": PULL},
            },
            {
                "id": "worker",
                "patch": "worker.patch",
                "reason": "The worker pads the heads.",
                "removal": {"when": "manual", "note": "Goes when the engine pads by itself."},
            },
            {
                "id": "triton",
                "pip": {"requirements": ["triton==3.7.0"], "index": None},
                "reason": "The kernels need it.",
                "removal": {"when": "manual", "note": "Goes with an image that ships it."},
            },
        ],
    }


def demo_waiver() -> dict[str, Any]:
    return {
        "repository": "example/benchmark",
        "pull_request": 12,
        "model": "example/Demo-1",
        "owner": "somebody",
        "filed": "2026-11-01",
        "expires": "2027-06-30",
        "entrypoint": "patchkit apply --image demo, before the server starts",
        "config": [{"entry": "demo-fp8", "values": {"synthetic-acceptance-length": "2.51", "kv-cache-dtype": "fp8"}}],
        "covers": ["demo/mla-fp8", "demo/worker", "demo/triton"],
        "why": [{"symptom": "It answers nonsense.", "steps": ["mla-fp8", "worker", "triton"]}],
        "no_upstream": [{"steps": ["worker", "triton"], "because": "Ours alone."}],
        "removal": {"plan": "Retire it with the next image."},
        "recipes": [
            {"link": "https://recipes.example/example/Demo-1", "model": "example/Demo-1", "merged": "2026-10-01"}
        ],
    }


def demo_record(**states: str) -> dict[str, Any]:
    pulls = {"example/engine#7": {"state": "merged", "as_of": "2026-11", "landed_as": "a" * 40}}
    pulls |= {ref: {"state": state, "as_of": "2026-11"} for ref, state in states.items()}
    return {"version": 1, "pulls": pulls}


@pytest.fixture
def demo(tmp_path: Path) -> Iterator[Bench]:
    """A small project: its stack is locked from a folder, its document rendered."""
    bench = Bench(root=tmp_path / "demo")
    components = {"engine": {"repo": "example/engine", "commit": "c" * 40}}
    image = {"name": "demo", "reference": "example/demo:v1", "site": "site", "components": components}
    bench.write("images/demo.yaml", image)
    bench.write("pristine/site/engine/mla.py", WORKER)
    bench.write("pristine/site/engine/gpu_worker.py", WORKER)
    bench.write("patches/demo/mla.patch", PATCH)
    bench.write("patches/demo/worker.patch", WORKER_PATCH)
    bench.write("patches/demo/stack.yaml", demo_stack())
    bench.write("patches/upstream.json", demo_record())
    bench.write("waivers/12.yaml", demo_waiver())
    lock(bench)
    bench.render()
    assert bench.codes() == []
    yield bench


def lock(bench: Bench) -> None:
    assert bench.run("lock", "--image", "demo", "--amend", "--from", str(bench.root / "pristine")) == 0
