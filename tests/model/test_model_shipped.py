"""The images and stacks that ship, and their JSON schemas."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from patchkit.core.errors import ConfigError
from patchkit.model import schema, yamlfile
from patchkit.model.load import load_image, load_stack, load_waiver
from patchkit.model.stack import CommitPatch, PatchStep, touches

ROOT = Path(__file__).resolve().parents[2]
IMAGES = sorted((ROOT / "images").glob("*.yaml"))
STACKS = sorted((ROOT / "patches").glob("*/stack.yaml"))
SHIPPED = ["nightly-7c5dc571", "nightly-c50aca", "nightly-cb8104839c", "v0.27.1"]
PUBLIC = ["provenance", "triton-mla-cudagraphs", "kda-state-indices", "draft-layers-cudagraph-mode"]


def validator(name: str) -> Draft202012Validator:
    found = json.loads((ROOT / "docs" / "schemas" / f"{name}.schema.json").read_text("utf-8"))
    Draft202012Validator.check_schema(found)
    return Draft202012Validator(found)


def plain(path: Path) -> Any:
    return yamlfile.read(path, path.name).data


def test_all_are_there() -> None:
    assert [path.stem for path in IMAGES] == SHIPPED
    assert [path.parent.name for path in STACKS] == SHIPPED


@pytest.mark.parametrize("path", IMAGES, ids=lambda path: path.stem)
def test_image(path: Path) -> None:
    image = load_image(path)
    vllm = image.component("vllm")
    assert vllm is not None
    assert vllm.commit is not None
    assert image.identity is not None
    assert image.digest is None
    assert image.identity.commit == vllm.commit[:9]
    assert vllm.exact == (image.name == "v0.27.1")
    assert image.reference.endswith(vllm.commit) or vllm.exact
    assert path.read_text("utf-8").startswith("# yaml-language-server: $schema=../docs/schemas/image.schema.json\n")
    assert list(validator("image").iter_errors(plain(path))) == []


@pytest.mark.parametrize("path", STACKS, ids=lambda path: path.parent.name)
def test_stack(path: Path) -> None:
    stack = load_stack(path)
    assert "provenance" in [step.id for step in stack.steps]
    assert stack.governed == (stack.image == "nightly-cb8104839c")
    assert stack.governed or stack.reason
    for step in stack.steps:
        assert step.reason
        assert step.removal
        assert step.removal.note
    first = "# yaml-language-server: $schema=../../docs/schemas/stack.schema.json\n"
    assert path.read_text("utf-8").startswith(first)
    assert list(validator("stack").iter_errors(plain(path))) == []


def test_what_is_unresolved() -> None:
    unresolved = {}
    for path in STACKS:
        stack = load_stack(path)
        unresolved[stack.image] = [step.id for step in stack.steps if stack.unresolved(step)]
    assert unresolved == {
        "nightly-7c5dc571": ["lmcache"],
        "nightly-c50aca": [],
        "nightly-cb8104839c": [
            "aiter-rebuild-mla-asm",
            "mla-asm-small-heads",
            "mla-fp8-kv-decode",
            "mla-fp8-asm-prefill",
            "aiter-mla-full-cudagraphs",
            "dspark-verify-asm-1",
            "dspark-verify-asm-2",
            "triton",
            "tabulate",
        ],
        "v0.27.1": [],
    }


def test_no_unselected_step_touches_the_files_of_the_public_ones() -> None:
    """What `--only` needs: the files of the public steps are in no unresolved step's declared paths before them."""
    stack = load_stack(ROOT / "patches" / "nightly-cb8104839c" / "stack.yaml")
    assert stack.steps[0].id == "provenance"
    public = (
        "vllm/v1/attention/backends/mla/triton_mla.py",
        "vllm/models/kimi_k3/amd/ops/third_party/kda/fused_recurrent.py",
        "vllm/models/kimi_k3/nvidia/mla.py",
        "vllm/v1/worker/gpu/attn_utils.py",
        "vllm/v1/worker/gpu/model_runner.py",
    )
    others = [step for step in stack.steps if step.id not in PUBLIC]
    declared = [path for step in others for path in touches(step) or ()]
    assert [path for path in public for taken in declared if path.startswith(taken)] == []


def test_commits_are_whole_and_aiter_alone_has_them() -> None:
    stack = load_stack(ROOT / "patches" / "nightly-cb8104839c" / "stack.yaml")
    patches = [step.patch for step in stack.steps if isinstance(step, PatchStep)]
    commits = {patch.commit for patch in patches if isinstance(patch, CommitPatch)}
    assert commits == {
        None,
        "ROCm/aiter@110055925df46ea371eea98dda75a36923e418d9",
        "ROCm/aiter@c6ce60c7496b448b979d619a02d6b0394291f211",
        "ROCm/aiter@ca1c24a9dd7e0842acc9a5f4adcbb5e4b412044c",
    }


TOKENS = [
    "null",
    "3",
    "true",
    "-",
    "*a",
    "&a ",
    "[",
    "}",
    "id: a",
    "patch: x",
    "\t",
    "\n",
    "  ",
    "012",
    "é",
    "'",
    "#",
    "0",
]


@given(st.data())
def test_a_damaged_file_is_a_configuration_error_or_still_a_stack(
    tmp_path_factory: pytest.TempPathFactory,
    data: st.DataObject,
) -> None:
    source = data.draw(st.sampled_from(STACKS))
    lines = source.read_text("utf-8").splitlines(keepends=True)
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(lines) - 1))
        cut = data.draw(st.integers(0, len(lines[at])))
        keep = data.draw(st.integers(0, len(lines[at]) - cut))
        lines[at] = lines[at][:cut] + data.draw(st.sampled_from(TOKENS)) + lines[at][cut + keep :]
    path = tmp_path_factory.mktemp("damaged") / source.parent.name / "stack.yaml"
    path.parent.mkdir()
    path.write_text("".join(lines), encoding="utf-8")
    try:
        stack = load_stack(path)
    except ConfigError as error:
        assert all(problem.startswith(f"{path}:") for problem in error.problems)
        assert error.hint
    else:
        assert stack.image == source.parent.name


BAD: dict[str, list[dict[str, Any]]] = {
    "image": [
        {"name": "x", "reference": "a"},
        {"name": "x", "reference": "a", "site": "../a"},
        {"name": "x", "reference": "a", "site": []},
        {"name": "x", "reference": "a", "site": "s", "other": 1},
        {"name": "x", "reference": "a", "site": "s", "components": {"a": {"repo": 3}}},
        {"name": 3, "reference": "a", "site": "s"},
    ],
    "stack": [
        {"image": "x", "version": 0, "steps": []},
        {"image": "x", "version": 1, "steps": [{"id": "a"}]},
        {"image": "x", "version": 1, "steps": [{"id": "a", "patch": None, "pip": None}]},
        {"image": "x", "version": 1, "steps": [{"id": "a", "patch": {"commit": "main", "paths": ["a"]}}]},
        {"image": "x", "version": 1, "steps": [{"id": "a", "pip": {"requirements": ["triton"]}}]},
        {"image": "x", "version": 1, "steps": [{"id": "a", "replace": {"path": "a", "find": "b", "with_": "c"}}]},
    ],
    "waiver": [
        {"pull_request": 0},
        {"covers": ["x"]},
        {"expires": "soon"},
        {"why": [{"symptom": "x", "steps": []}]},
        {"recipes": [{"link": "http://x/y", "model": "m", "merged": None}]},
        {"config": [{"entry": "x", "values": {"a": 1}}]},
    ],
    "baseline": [
        {"suppressions": [{"code": "gap", "path": "x", "expires": "2026-12-01"}]},
        {"suppressions": [{"code": "gap", "path": "x", "reason": "y"}]},
    ],
}


@pytest.mark.parametrize("name", BAD)
def test_schemas_refuse(name: str) -> None:
    assert [data for data in BAD[name] if validator(name).is_valid(data)] == []


WAIVERS = sorted((ROOT / "waivers").glob("*.yaml"))


@pytest.mark.parametrize("path", WAIVERS, ids=lambda path: path.stem)
def test_waiver(path: Path) -> None:
    waiver = load_waiver(path)
    assert waiver.pull_request == int(path.stem)
    assert path.read_text("utf-8").startswith("# yaml-language-server: $schema=../docs/schemas/waiver.schema.json\n")
    assert list(validator("waiver").iter_errors(plain(path))) == []


def test_schemas_are_fresh(capsys: pytest.CaptureFixture[str]) -> None:
    assert schema.main(["--check"]) == 0
    assert capsys.readouterr() == ("", "")


def test_a_stale_schema_is_named_and_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = ["--folder", str(tmp_path)]
    paths = [tmp_path / f"{name}.schema.json" for name in ("image", "stack", "waiver", "baseline")]
    stack = paths[1]
    assert schema.main(folder) == 0
    assert capsys.readouterr().out == "".join(f"{path}\n" for path in paths)
    stack.write_text("{}\n", encoding="utf-8")
    assert schema.main(["--check", *folder]) == 1
    assert capsys.readouterr().err == f"{stack}: stale; type: python -m patchkit.model.schema\n"
    assert schema.main(folder) == 0
    assert capsys.readouterr().out == f"{stack}\n"
    assert schema.main(["--check", *folder]) == 0
