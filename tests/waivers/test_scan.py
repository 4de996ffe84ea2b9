"""`waiver scan`: the corpus, patch files that are or are not there, exemptions, coverage, the cache."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import pytest

from patchkit.core.errors import ConfigError
from patchkit.waivers import scan_output
from patchkit.waivers.kinds import KINDS
from patchkit.waivers.scan import covered_by, scan, scan_report

ROOT = Path(__file__).parent.parent.parent
CASES = ROOT / "tests" / "cases" / "scan"
SITE = "/usr/local/lib/python3.12/dist-packages"


def load(name: str):
    spec = importlib.util.spec_from_file_location(name, ROOT / "benchmarks" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    import sys

    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


corpus = load("scan_corpus")


def put(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def found(folder: Path, **options) -> list[tuple[int, str, str]]:
    return [(f.line, f.kind, f.touches) for f in scan([folder], cache=False, **options)]


@pytest.mark.parametrize("snippet", sorted((CASES / "own").iterdir()), ids=lambda p: p.name)
def test_own_snippet(snippet) -> None:
    score = corpus.Score()
    corpus.judge(snippet, score)
    assert not score.notes


@pytest.mark.parametrize("folder", sorted(p for p in CASES.iterdir() if p.is_dir()), ids=lambda p: p.name)
def test_corpus_is_recognised(folder) -> None:
    score = corpus.judge_all(folder)
    assert score.recall >= corpus.LEAST
    assert score.precision >= corpus.LEAST


def test_the_corpus_has_both_sides_of_every_kind() -> None:
    names = [path.name for path in (CASES / "own").iterdir()]
    stems = {name.split("-")[0] for name in names}
    for kind in KINDS:
        stem = kind.id.split("-")[0]
        assert stem in stems
        assert any(name.startswith(f"{stem}-9") for name in names), f"no innocent snippet of {kind.id}"


def test_the_table_is_documented() -> None:
    text = (CASES / "README.md").read_text()
    for kind in KINDS:
        assert f"| `{kind.id}` |" in text


@pytest.mark.parametrize("kind", [k for k in KINDS if k.id != "missing-patch"], ids=lambda k: k.id)
def test_the_example_of_each_kind_is_found(kind, tmp_path) -> None:
    python = kind.id == "monkeypatch"
    text = f"import vllm.worker\n{kind.example}\n" if python else f"SITE={SITE}\ncd $SITE\n{kind.example}\n"
    put(tmp_path, "x.py" if python else "x.sh", text)
    put(tmp_path, "0001-fix-mla.patch", "--- a/vllm/a.py\n+++ b/vllm/a.py\n")
    assert kind.id in {f[1] for f in found(tmp_path)}


def test_a_patch_file_that_exists_nowhere(tmp_path) -> None:
    """Case 16 of the facts."""
    put(tmp_path, "run.sh", f'cd {SITE}\nHERE=$(dirname "$0")\npatch -p1 < "$HERE/patches/0014.patch"\n')
    assert found(tmp_path) == [(3, "missing-patch", "patches/0014.patch")]
    put(tmp_path, "patches/0014.patch", "--- a/vllm/a.py\n+++ b/vllm/a.py\n--- a/vllm/b.py\n+++ b/vllm/b.py\n")
    assert (3, "patch", "vllm/a.py") in found(tmp_path)
    assert (3, "patch", "vllm/b.py") in found(tmp_path)


def test_a_patch_of_something_else_is_quiet(tmp_path) -> None:
    put(tmp_path, "run.sh", "cd client\ngit apply ../fix.patch\nvllm serve x\n")
    put(tmp_path, "fix.patch", "--- a/client/a.py\n+++ b/client/a.py\n")
    assert found(tmp_path) == []


def test_more_can_be_exempt(tmp_path) -> None:
    put(tmp_path, "run.sh", f"pip install transformers\nsed -i s/a/b/ {SITE}/vllm/envs.py\n")
    assert [kind for _, kind, _ in found(tmp_path)] == ["install", "edit"]
    assert [kind for _, kind, _ in found(tmp_path, exempt=("transformers",))] == ["edit"]
    assert [kind for _, kind, _ in found(tmp_path, exempt=("vllm/*.py",))] == ["install"]


def test_covered_by_a_waiver(tmp_path) -> None:
    put(tmp_path, "run.sh", f"pip install triton==3.7.0\nsed -i s/a/b/ {SITE}/vllm/envs.py\ncp x.py {SITE}/vllm/x.py\n")
    report = scan_report([tmp_path], covered={"triton": "2508", "vllm/envs.py": "2508"}, cache=False)
    assert [f.waiver for f in report.findings] == ["2508", "2508", None]
    assert scan_output.uncovered(report)
    table = covered_by({"triton": "2508", "vllm/envs.py": "2508", "vllm/x.py": "2600"})
    whole = scan_report([tmp_path], covered=table, cache=False)
    assert not scan_output.uncovered(whole)
    shown = json.loads(json.dumps(scan_output.data(whole)))["findings"][2]
    assert {key: shown[key] for key in ("line", "kind", "touches", "waiver")} == {
        "line": 3,
        "kind": "overwrite",
        "touches": "vllm/x.py",
        "waiver": "2600",
    }
    assert scan_output.lines(whole)[-1] == "1 files: 3 findings, 0 covered by no waiver"


def test_warm_is_as_cold(tmp_path) -> None:
    put(tmp_path, "a/run.sh", f"sed -i s/a/b/ {SITE}/vllm/envs.py\n")
    put(tmp_path, "a/quiet.sh", "echo hello\n")
    cache = str(tmp_path / "cache")
    cold = scan_report([tmp_path / "a"], cache_root=cache)
    files = list((tmp_path / "cache").rglob("*.json"))
    assert len(files) == 1
    assert scan_report([tmp_path / "a"], cache_root=cache) == cold
    put(tmp_path, "a/run.sh", f"\nsed -i s/a/b/ {SITE}/vllm/envs.py\n")
    assert [f.line for f in scan_report([tmp_path / "a"], cache_root=cache).findings] == [2]
    for broken in ("{", "[1]", '{"version": 9}', ""):
        files[0].write_text(broken)
        assert [f.line for f in scan_report([tmp_path / "a"], cache_root=cache).findings] == [2]


def test_a_named_file_is_read_whatever_its_name(tmp_path) -> None:
    path = put(tmp_path, "setup.txt", f"sed -i s/a/b/ {SITE}/vllm/envs.py\n")
    assert found(tmp_path) == []
    assert [f.kind for f in scan([path], cache=False)] == ["edit"]


def test_a_path_that_is_not_there(tmp_path) -> None:
    with pytest.raises(ConfigError, match="no such file or folder"):
        scan([tmp_path / "nowhere"], cache=False)


def test_the_legacy_script(tmp_path) -> None:
    """Every way in which the hand-written script of the test cases patches."""
    kinds = {f.kind for f in scan([ROOT / "tests" / "cases" / "legacy" / "apply_patches.sh"], cache=False)}
    assert kinds >= {"patch", "missing-patch", "install", "rebuild", "edit", "download"}


def test_the_labels_of_the_debian_packages_can_be_read() -> None:
    packages, verdicts = load("scan_debian").labels()
    assert len(packages) > 300
    assert all(verdict.startswith(("right:", "false:")) for verdict in verdicts.values())


def test_an_environment_of_its_own_is_not_the_image(tmp_path) -> None:
    text = 'python3 -m venv "$HOME/cpu"\n"$HOME/cpu/bin/python" -m pip install torch\npython3 -m pip install torch\n'
    put(tmp_path, "run.sh", text)
    assert found(tmp_path) == [(3, "install", "torch")]
