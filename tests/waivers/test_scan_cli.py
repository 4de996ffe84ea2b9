"""The command: what is covered and by what, exit codes, JSON, and a script that calls a patch file that is nowhere."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from patchkit.cli.main import main

from .conftest import IMAGE, ROOT, SCHEMA

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

    from .conftest import Bench

SITE = "/usr/local/lib/python3.12/dist-packages"


def scan(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, dict[str, Any]]:
    capsys.readouterr()
    code = main(["waiver", "scan", *words, "--json"])
    document = json.loads(capsys.readouterr().out)
    SCHEMA.validate(document)
    return code, document


def write(folder: Path, text: str, name: str = "run.sh") -> str:
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(text)
    return str(folder)


def test_case_16_a_patch_file_that_exists_nowhere(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    text = '#!/bin/bash\nHERE=$(dirname "$0")\ncd /app/vllm && git apply "$HERE/patches/0014-mla-padding.patch"\nvllm serve x\n'
    folder = write(tmp_path / "repository", text)
    code, document = scan(capsys, folder)
    (finding,) = document["findings"]
    assert code == 5
    assert (finding["path"], finding["line"], finding["kind"]) == (f"{folder}/run.sh", 3, "missing-patch")
    assert finding["touches"].endswith("patches/0014-mla-padding.patch")
    assert finding["waiver"] is None
    assert document["outcome"] == "refused"
    assert [each["code"] for each in document["errors"]] == ["finding"]


def test_what_ships_is_covered(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """patchkit's own program, stacks, scripts and documents: nothing but the patch files of its stacks."""
    monkeypatch.chdir(ROOT)
    code, document = scan(capsys, "patchkit", "images", "patches", "waivers", "docs")
    assert [each for each in document["findings"] if each["waiver"] is None] == []
    assert {each["path"].split("/")[0] for each in document["findings"]} == {"patches"}
    assert {each["waiver"] for each in document["findings"]} == {"2508", "nightly-c50aca (governed: false)"}
    assert code == 0


def test_each_way_to_be_covered(shipped: Bench, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = [
        f"sed -i s/a/b/ {SITE}/vllm/v1/attention/backends/mla/rocm_aiter_mla.py",
        f"sed -i s/a/b/ {SITE}/vllm/v1/engine/core.py",
        f"sed -i s/a/b/ {SITE}/aiter/fused_moe.py",  # an unresolved step may touch anything below aiter/
        "pip install triton==3.7.0",
        "pip install triton==3.8.0",
        "pip install triton",
        f"docker run -v ./x.py:{SITE}/vllm/envs.py vllm/vllm-openai-rocm",
    ]
    folder = write(tmp_path / "scripts", "\n".join(lines))
    code, document = scan(capsys, folder, "-C", str(shipped.root))
    covered = {each["line"]: each["waiver"] for each in document["findings"]}
    assert covered == {1: "2508", 2: None, 3: None, 4: "2508", 5: None, 6: None, 7: None}
    assert code == 5


def test_a_step_that_no_waiver_covers(shipped: Bench, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    waiver = shipped.read("waivers/2508.yaml")
    waiver["covers"].remove(f"{IMAGE}/kda-state-indices")
    shipped.write("waivers/2508.yaml", waiver)
    _, document = scan(capsys, str(shipped.root / "patches"), "-C", str(shipped.root))
    loose = {each["path"].rsplit("/", 1)[-1] for each in document["findings"] if each["waiver"] is None}
    assert loose == {"kda-state-indices.patch"}


def test_innocent_and_exempt(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["waiver", "scan", write(tmp_path / "a", "pip install datasets\nvllm serve x\n")]) == 0
    assert capsys.readouterr().out == "1 files: nothing found\n"
    folder = write(tmp_path / "b", "pip install transformers\npip install torch\n")
    assert main(["waiver", "scan", folder]) == 5
    out = capsys.readouterr()
    assert f"{folder}/run.sh:1: install: transformers (covered by no waiver)\n" in out.out
    assert "note: there is no project here: nothing is covered (-C DIR names one)\n" in out.out
    assert "2 of 2 findings are covered by no waiver" in out.err
    assert main(["waiver", "scan", folder, "--exempt", "transformers,torch", "--no-cache"]) == 0


def test_what_cannot_be_scanned(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["waiver", "scan", "nowhere"]) == 2
    assert "nowhere: no such file or folder" in capsys.readouterr().err
    code, document = scan(capsys, "nowhere")
    assert (code, document["errors"][0]["code"]) == (2, "config")
    assert main(["waiver", "scan", ".", "-C", str(tmp_path)]) == 2


def test_what_cannot_be_read_whole_is_not_called_clean(tmp_path, capsys) -> None:
    for number, text in enumerate(("echo vllm\n#\0\n", "echo vllm\n#" + "a" * 1_100_000)):
        path = write(tmp_path / str(number), text)
        assert main(["waiver", "scan", path, "--no-cache"]) == 5
        assert "not read whole" in capsys.readouterr().err
