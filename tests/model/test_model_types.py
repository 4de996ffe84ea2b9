"""Good files, what becomes of them, and what a stack says about its unknown facts."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from patchkit.core.errors import ConfigError
from patchkit.model import rules, schema, yamlfile
from patchkit.model.image import Component, Identity, Image
from patchkit.model.load import load_image, load_stack, patch_file
from patchkit.model.stack import (
    Check,
    Command,
    CommitPatch,
    FileStep,
    Packages,
    PatchStep,
    Pin,
    PipStep,
    RemoteFile,
    Removal,
    Replacement,
    ReplaceStep,
    RunStep,
    Stack,
    Step,
    Unknown,
    touches,
)

SHA = "ab" * 32
COMMIT = "ROCm/aiter@" + "0a" * 20


def stack_of(folder: Path, text: str) -> Stack:
    (folder / "x").mkdir()
    (folder / "x" / "a.patch").touch()
    path = folder / "x" / "stack.yaml"
    path.write_text(text, encoding="utf-8")
    return load_stack(path)


def test_the_smallest_image(tmp_path: Path) -> None:
    (tmp_path / "x.yaml").write_text("name: x\nreference: a/b:c\nsite: lib/python3*/site-packages\n", encoding="utf-8")
    image = load_image(tmp_path / "x.yaml")
    assert image == Image(name="x", reference="a/b:c", site=("lib/python3*/site-packages",))
    assert (image.digest, image.platform, image.components, image.identity) == (None, "linux/amd64", (), None)
    assert image.component("vllm") is None


def test_a_whole_image(tmp_path: Path) -> None:
    (tmp_path / "x.yaml").write_text(
        f"name: x\nreference: localhost:5000/b:c\ndigest: sha256:{SHA}\nplatform: linux/arm64/v8\nsite: [a, 'b/*']\n"
        "components:\n  vllm: {repo: vllm-project/vllm, commit: 6e448d0ea, release: 0.27.1, exact: true}\n"
        "  aiter: {repo: ROCm/aiter, commit: null}\nidentity: {file: vllm/_version.py, commit: 6e448d0ea}\n",
        encoding="utf-8",
    )
    vllm = Component(repo="vllm-project/vllm", commit="6e448d0ea", release="0.27.1", exact=True)
    image = load_image(tmp_path / "x.yaml")
    assert image == Image(
        name="x",
        reference="localhost:5000/b:c",
        digest=f"sha256:{SHA}",
        platform="linux/arm64/v8",
        site=("a", "b/*"),
        components=(("vllm", vllm), ("aiter", Component(repo="ROCm/aiter"))),
        identity=Identity(file="vllm/_version.py", commit="6e448d0ea"),
    )
    assert image.component("vllm") == vllm
    assert hash(image) == hash(dataclasses.replace(image))


def test_a_stack_of_every_kind(tmp_path: Path) -> None:
    stack = stack_of(
        tmp_path,
        f"""image: x
version: 3
governed: false
reason: nobody measures with it
steps:
  - {{id: a, patch: a.patch, strip: 2, prefix: p, type: cherry-pick, upstream: [a/b#1], reason: r,
     removal: {{when: released, ref: a/b#1, note: n}}}}
  - {{id: b, patch: {{commit: {COMMIT}, paths: [aiter/, csrc/x.cu]}}}}
  - {{id: c, replace: {{path: v/x.py, find: "a\\n", with: ""}}}}
  - {{id: d, pip: {{requirements: ["lm_eval[api]==0.4.12", {{name: t, version: null}}], index: "https://a/b", hashes: first-use}}}}
  - {{id: e, file: {{path: m/x.co, url: "https://a/b", sha256: {SHA}, size: 3, mode: "0755"}}}}
  - {{id: f, run: {{argv: [make, -j], unless: {{path: a}}, creates: m/x.so, check: {{argv: ["true"]}}, revert: [rm, a],
     stage: runtime, needs: [gpu, hipcc], env: {{B: "1", A: ""}}, timeout: 9}}}}
""",
    )
    removal = Removal(when="released", ref="a/b#1", note="n")
    command = Command(
        argv=("make", "-j"),
        unless=Check(path="a"),
        creates="m/x.so",
        check=Check(argv=("true",)),
        revert=("rm", "a"),
        stage="runtime",
        needs=("gpu", "hipcc"),
        env=(("B", "1"), ("A", "")),
        timeout=9,
    )
    pins = ("lm_eval[api]==0.4.12", Pin(name="t", version=None))
    steps: tuple[Step, ...] = (
        PatchStep(
            id="a",
            patch="a.patch",
            strip=2,
            prefix="p",
            type="cherry-pick",
            upstream=("a/b#1",),
            reason="r",
            removal=removal,
        ),
        PatchStep(id="b", patch=CommitPatch(commit=COMMIT, paths=("aiter/", "csrc/x.cu"))),
        ReplaceStep(id="c", replace=Replacement(path="v/x.py", find="a\n", with_="")),
        PipStep(id="d", pip=Packages(requirements=pins, index="https://a/b", hashes="first-use")),
        FileStep(id="e", file=RemoteFile(path="m/x.co", url="https://a/b", sha256=SHA, size=3, mode="0755")),
        RunStep(id="f", run=command),
    )
    assert stack == Stack(image="x", version=3, governed=False, reason="nobody measures with it", steps=steps)
    data: Any = yamlfile.read(tmp_path / "x" / "stack.yaml", "f").data
    assert list(Draft202012Validator(json.loads(schema.render(Stack))).iter_errors(data)) == []
    assert [step.kind for step in stack.steps] == ["patch", "patch", "replace", "pip", "file", "run"]
    assert hash(stack)
    assert [touches(step) for step in stack.steps] == [
        None,
        ("aiter/", "csrc/x.cu"),
        ("v/x.py",),
        None,
        ("m/x.co",),
        ("m/x.so",),
    ]


def test_a_step_without_type_is_a_backport_if_it_has_an_upstream(tmp_path: Path) -> None:
    stack = stack_of(
        tmp_path,
        "image: x\nversion: 1\nsteps:\n- {id: a, patch: a.patch, upstream: [a/b#1]}\n- {id: b, patch: null}\n",
    )
    assert [step.type for step in stack.steps] == ["backport", "local"]


@pytest.mark.parametrize(
    ("strip", "prefix", "expected"),
    [(0, None, "hsa/mla/"), (1, None, "hsa/mla/"), (1, "meta", "meta/hsa/mla/"), (2, "meta", "meta/mla/")],
)
def test_what_a_commit_patch_touches(strip: int, prefix: str | None, expected: str) -> None:
    step = PatchStep(id="a", patch=CommitPatch(commit=None, paths=("hsa/mla/",)), strip=strip, prefix=prefix)
    assert touches(step) == (expected,)


UP = ("vllm-project/vllm#51011",)
UNKNOWN: dict[str, tuple[Step, list[tuple[str, str]]]] = {
    "nothing": (PatchStep(id="a", patch="a.patch"), []),
    "patch": (
        PatchStep(id="a", patch=None, upstream=UP),
        [
            (
                "the patch of vllm-project/vllm#51011",
                "the name of a patch file, or {commit: ..., paths: [...]}, into `patch`",
            ),
        ],
    ),
    "commit": (
        PatchStep(id="a", patch=CommitPatch(commit=None, paths=("v/",)), upstream=UP),
        [
            (
                "the commit of vllm-project/vllm#51011",
                "`vllm-project/vllm@` and its 40-digit merge commit into `patch.commit`",
            ),
        ],
    ),
    "local commit and paths": (
        PatchStep(id="a", patch=CommitPatch(commit=None, paths=None)),
        [
            ("the commit of step a", "`owner/repo@` and its 40-digit commit into `patch.commit`"),
            ("the paths that step a changes", "the files and folders to take into `patch.paths`"),
        ],
    ),
    "replace": (
        ReplaceStep(id="a", replace=None),
        [("the replacement of step a", "{path: ..., find: ..., with: ...} into `replace`")],
    ),
    "texts": (
        ReplaceStep(id="a", replace=Replacement(path="v/x.py", find=None, with_=None)),
        [
            ("the text to replace in v/x.py", "the exact text into `replace.find`"),
            ("the text to put into v/x.py", "the new text into `replace.with`"),
        ],
    ),
    "pip": (PipStep(id="a", pip=None), [("the packages of step a", "{requirements: [...], index: ...} into `pip`")]),
    "index and version": (
        PipStep(id="a", pip=Packages(requirements=("b==1", Pin(name="t", version=None)), index=None)),
        [
            ("the version of t", "it into `pip.requirements[1].version`"),
            ("the package index of b==1, t", "its https:// address into `pip.index`"),
        ],
    ),
    "version known": (PipStep(id="a", pip=Packages(requirements=(Pin(name="t", version="1"),))), []),
    "file": (
        FileStep(id="a", file=None),
        [("the file of step a", "{path: ..., url: ..., sha256: ...} into `file`")],
    ),
    "url and sha256": (
        FileStep(id="a", file=RemoteFile(path="m/x.co", url=None, sha256=None)),
        [
            ("the address of m/x.co", "an immutable https:// address into `file.url`"),
            ("the sha256 of m/x.co", "its 64 hex digits into `file.sha256`"),
        ],
    ),
    "run": (
        RunStep(id="a", run=None),
        [("the command of step a", "the program and its arguments into `run.argv`")],
    ),
    "argv": (
        RunStep(id="a", run=Command(argv=None)),
        [("the command of step a", "the program and its arguments into `run.argv`")],
    ),
}


@pytest.mark.parametrize("name", UNKNOWN)
def test_what_is_unknown_and_how_to_resolve_it(name: str) -> None:
    step, expected = UNKNOWN[name]
    stack = Stack(image="x", version=1, steps=(step,))
    tail = "of step a in patches/x/stack.yaml, then `patchkit lock --image x`"
    assert stack.unresolved(step) == tuple(Unknown(what=what, command=f"put {fill} {tail}") for what, fill in expected)


def test_a_patch_is_beside_the_stack_or_in_common(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    stack = tmp_path / "x" / "stack.yaml"
    for name in ("x/a", "common/b", "x/c", "common/c"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    assert patch_file(stack, "a") == tmp_path / "x" / "a"
    assert patch_file(stack, "b") == tmp_path / "common" / "b"
    with pytest.raises(ConfigError, match=r"^x/stack\.yaml: c is there twice: x/c and common/c: keep one$"):
        patch_file(stack, "c")
    with pytest.raises(ConfigError, match=r"^x/stack\.yaml: no such file: neither x/d nor common/d$"):
        patch_file(stack, "d")


FORMS: dict[str, tuple[rules.Form, list[str], list[str]]] = {
    "step id": (rules.STEP_ID, ["a", "0-a"], ["", "-a", "a_b", "A", "a\n"]),
    "path": (
        rules.SITE_PATH,
        ["a", "a/b", ".a/..b", "a b/c", "a/.patchkit", ".patchkitx", "ü/…"],
        ["", "/a", "a/", "a//b", ".", "./a", "a/.", "..", "a/../b", "a/..", "a\\b", ".patchkit", ".patchkit/a", "a\n"],
    ),
    "file or folder": (rules.FILE_OR_FOLDER, ["a/", "a/b/", "a"], ["/", "a//", "../", ".patchkit/"]),
    "patch name": (rules.PATCH_NAME, ["a.patch", "0001-x y.diff"], ["", ".a", "a/b", "..", "a\\b", "a\n"]),
    "pull request": (rules.PULL_REQUEST, ["ROCm/aiter#1"], ["aiter#1", "a/b#0", "a/b#", "a/b/c#1", "#1", "a/b!1"]),
    "commit": (rules.COMMIT, ["6e448d0", "a" * 40], ["6e448d", "a" * 41, "A" * 40, "main", "g6e448d0"]),
    "commit reference": (rules.COMMIT_REF, ["a/b@" + "0" * 40], ["a/b@main", "a/b@" + "0" * 39, "0" * 40]),
    "digest": (rules.DIGEST, ["sha256:" + SHA], [SHA, "sha256:" + SHA[1:], "sha512:" + SHA]),
    "reference": (
        rules.REFERENCE,
        ["a", "a/b", "a/b:c", "docker.io/a/b:v0.27.1", "localhost:5000/a:b", "localhost:5000/a"],
        ["", f"a@sha256:{SHA}", f"a:b@sha256:{SHA}", "a b", "https://a/b", "a/B", "-a", "a:"],
    ),
    "requirement": (
        rules.PINNED,
        ["a==1", "lm_eval[api]==0.4.12", "lmcache==0.5.5rc3+rocm7.2", "a[b,c]==1!2.0"],
        ["a", "a>=1", "a===1", "a==1.*", "a==", "a == 1", "a==1; python_version<'3'", "git+https://a"],
    ),
    "index": (rules.INDEX, ["default", "https://a", "https://a/b/"], ["", "http://a", "https://u:p@a/", "pypi"]),
    "url": (rules.URL, ["https://a/b"], ["http://a/b", "file:///a", "https://u@a/b", "https://a", "https://a/b c"]),
    "mode": (rules.FILE_MODE, ["644", "0755"], ["0888", "4755", "rwx", ""]),
}


@pytest.mark.parametrize("name", FORMS)
def test_forms(name: str) -> None:
    form, good, bad = FORMS[name]
    assert [value for value in good if not form.holds(value)] == []
    assert [value for value in bad if form.holds(value)] == []


@given(st.text("ab./\\\0-", max_size=12))
def test_a_path_stays_inside_the_site(path: str) -> None:
    parts = path.split("/")
    inside = all(part not in {"", ".", ".."} for part in parts) and not set(path) & set("\\\0")
    assert rules.SITE_PATH.holds(path) == inside


@pytest.mark.parametrize("kind", [Image, Component, Identity, Stack, PatchStep, RunStep, Command, Removal, Unknown])
def test_types_are_frozen_and_slotted(kind: Any) -> None:
    assert "__slots__" in vars(kind)
    assert kind.__dataclass_params__.frozen
    assert all(each.kw_only for each in dataclasses.fields(kind))


def test_the_types_alone_import_neither_yaml_nor_pydantic() -> None:
    code = (
        "import sys, patchkit.model.image, patchkit.model.stack; print(sorted({'yaml', 'pydantic'} & set(sys.modules)))"
    )
    root = Path(__file__).resolve().parents[2]
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, cwd=root, check=True, capture_output=True, text=True)
    assert done.stdout == "[]\n"
