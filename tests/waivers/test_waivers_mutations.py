"""The waiver that ships, cut: whichever one step, file, reason, link or pin is taken out of the waiver, of its document
or of the stack, `check` names exactly that."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import pytest

from patchkit.core.errors import ConfigError
from patchkit.model import yamlfile
from patchkit.waivers.documents import block_of

from .conftest import IMAGE, ROOT

if TYPE_CHECKING:
    from .conftest import Bench

WAIVER, STACK, DOCUMENT = "waivers/2508.yaml", f"patches/{IMAGE}/stack.yaml", "docs/waiver/2508.md"
FOLLOW = ("lock-stale", "document-stale")
"""What any change of the stack or of the waiver brings besides."""


def plain(name: str) -> Any:
    return yamlfile.read(ROOT / name, name).data


STEPS: list[Any] = plain(STACK)["steps"]
IDS = [step["id"] for step in STEPS]
SAID = plain(WAIVER)
TEXT = (ROOT / DOCUMENT).read_text("utf-8")
BLOCK: Any = block_of(TEXT)


def step_of(stack: Any, step_id: str) -> Any:
    return next(step for step in stack["steps"] if step["id"] == step_id)


def stale(bench: Bench) -> str:
    """The message about the document, whole or as long as it is."""
    (found,) = [each for each in bench.findings() if each.code == "document-stale"]
    return found.message


# the waiver


@pytest.mark.parametrize("step", IDS)
def test_a_step_cut_from_covers(shipped: Bench, step: str) -> None:
    shipped.edit(WAIVER, lambda waiver: waiver["covers"].remove(f"{IMAGE}/{step}"))
    found = shipped.findings(but=FOLLOW)
    code = "pin-undeclared" if step in ("triton", "tabulate", "lm-eval") else "step-uncovered"
    assert {(each.code, each.step) for each in found if each.path == STACK} == {(code, step)}
    # and every statement that is left about it
    assert {(each.code, each.step) for each in found if each.path == WAIVER} <= {("step-gone", step)}
    assert f"steps.{step}." in stale(shipped)


@pytest.mark.parametrize("step", IDS)
def test_a_step_cut_from_its_symptom(shipped: Bench, step: str) -> None:
    def cut(waiver: Any) -> None:
        for symptom in waiver["why"]:
            symptom["steps"] = [each for each in symptom["steps"] if each != step]
        waiver["why"] = [symptom for symptom in waiver["why"] if symptom["steps"]]

    shipped.edit(WAIVER, cut)
    assert [(each.code, each.step, each.subject) for each in shipped.findings(but=FOLLOW)] == [
        ("reason-missing", step, "why")
    ]


@pytest.mark.parametrize("at", range(len(SAID["why"])))
def test_a_symptom_cut(shipped: Bench, at: int) -> None:
    shipped.edit(WAIVER, lambda waiver: waiver["why"].pop(at))
    found = shipped.findings(but=FOLLOW)
    assert {(each.code, each.step) for each in found} == {("reason-missing", step) for step in SAID["why"][at]["steps"]}


@pytest.mark.parametrize("at", range(len(SAID["no_upstream"])))
def test_an_excuse_cut(shipped: Bench, at: int) -> None:
    shipped.edit(WAIVER, lambda waiver: waiver["no_upstream"].pop(at))
    found = shipped.findings(but=FOLLOW)
    steps = SAID["no_upstream"][at]["steps"]
    assert {(each.code, each.step) for each in found} == {("upstream-missing", step) for step in steps}


@pytest.mark.parametrize("at", range(len(SAID["recipes"])))
def test_a_recipe_cut(shipped: Bench, at: int) -> None:
    shipped.edit(WAIVER, lambda waiver: waiver["recipes"].pop(at))
    left = len(SAID["recipes"]) - 1
    assert shipped.codes(but=FOLLOW) == ([] if left else ["statement-missing"])
    assert SAID["recipes"][at]["link"] in stale(shipped)


@pytest.mark.parametrize("key", [key for key in SAID if key not in ("covers", "why", "no_upstream", "removal")])
def test_a_statement_cut(shipped: Bench, key: str) -> None:
    shipped.edit(WAIVER, lambda waiver: waiver.pop(key))
    assert [(each.code, each.subject) for each in shipped.findings(but=FOLLOW)] == [("statement-missing", key)]


def test_the_removal_plan_cut(shipped: Bench) -> None:
    shipped.edit(WAIVER, lambda waiver: waiver.pop("removal"))
    assert [(each.code, each.path) for each in shipped.findings(but=FOLLOW)] == [("removal-missing", WAIVER)]


def test_everything_covered_cut(shipped: Bench) -> None:
    shipped.edit(WAIVER, lambda waiver: waiver.pop("covers"))
    assert {"stack-without-waiver", "statement-missing"} <= set(shipped.codes())


# the stack


@pytest.mark.parametrize("step", IDS)
def test_a_step_cut_from_the_stack(shipped: Bench, step: str) -> None:
    shipped.edit(STACK, lambda stack: stack["steps"].remove(step_of(stack, step)))
    found = shipped.findings(but=(*FOLLOW, "file-uncovered"))
    assert [(each.code, each.step) for each in found] == [("step-gone", step)]
    patch = step_of({"steps": STEPS}, step).get("patch")
    loose = [each.subject for each in shipped.findings() if each.code == "file-uncovered"]
    assert loose == ([f"patches/common/{patch}"] if isinstance(patch, str) else [])
    assert f"it has steps.{step}.kind" in stale(shipped)


@pytest.mark.parametrize("step", IDS)
@pytest.mark.parametrize(("key", "code"), [("reason", "reason-missing"), ("removal", "removal-missing")])
def test_a_reason_or_plan_cut_from_a_step(shipped: Bench, step: str, key: str, code: str) -> None:
    shipped.edit(STACK, lambda stack: step_of(stack, step).pop(key))
    assert [(each.code, each.step, each.subject) for each in shipped.findings(but=FOLLOW)] == [(code, step, key)]


LINKS = [(step["id"], ref) for step in STEPS for ref in step["upstream"]]


@pytest.mark.parametrize(("step", "ref"), LINKS, ids=[f"{step} {ref}" for step, ref in LINKS])
def test_a_link_cut_from_a_step(shipped: Bench, step: str, ref: str) -> None:
    shipped.edit(STACK, lambda stack: step_of(stack, step)["upstream"].remove(ref))
    waits_for_it = step_of({"steps": STEPS}, step)["removal"].get("ref") == ref
    alone = len(step_of({"steps": STEPS}, step)["upstream"]) == 1
    if waits_for_it or alone:  # then the stack contradicts itself
        with pytest.raises(ConfigError) as caught:
            shipped.check()
        assert any(f"steps[{IDS.index(step)}]" in problem for problem in caught.value.problems)
        return
    assert shipped.codes(but=FOLLOW) == []
    assert f"it has steps.{step}.upstream.{ref} " in stale(shipped)


@pytest.mark.parametrize("step", [step["id"] for step in STEPS if "pip" in step])
def test_a_pin_cut_from_a_step(shipped: Bench, step: str) -> None:
    shipped.edit(STACK, lambda stack: step_of(stack, step).update(pip=None))
    (pin,) = BLOCK["steps"][step]["pins"]
    assert f"it has steps.{step}.pins {pin}, which is not so" in stale(shipped)


def test_a_version_cut_from_a_pin(shipped: Bench) -> None:
    change = {"pip": {"requirements": [{"name": "triton", "version": None}], "index": None}}
    shipped.edit(STACK, lambda stack: step_of(stack, "triton").update(change))
    assert [(each.code, each.subject) for each in shipped.findings(but=FOLLOW)] == [
        ("pin-undeclared", "triton (version not known)")
    ]
    assert "triton==3.7.0" in stale(shipped)


@pytest.mark.parametrize("name", sorted(path.name for path in (ROOT / "patches/common").iterdir()))
def test_a_patch_file_cut(shipped: Bench, name: str) -> None:
    users = [step["id"] for step in STEPS if step.get("patch") == name]
    (shipped.root / "patches/common" / name).unlink()
    assert users
    with pytest.raises(ConfigError) as caught:
        shipped.check()
    assert name in caught.value.problems[0]


# the document

ROWS = [line for line in TEXT.splitlines() if line.startswith(("| `", "- ", "| package", "| command"))]


@pytest.mark.parametrize("at", range(len(ROWS)), ids=[re.sub(r"\W+", " ", row[:60]).strip() for row in ROWS])
def test_a_row_cut_from_the_document(shipped: Bench, at: int) -> None:
    row = ROWS[at]
    (shipped.root / DOCUMENT).write_text(TEXT.replace(f"{row}\n", "", 1), encoding="utf-8")
    (found,) = shipped.findings()
    assert found.code == "document-stale"
    assert found.line == TEXT[: TEXT.index(f"{row}\n")].count("\n") + 1
    assert f"it lacks: {row[:100]}" in found.message


def write_block(bench: Bench, block: Any) -> None:
    head = TEXT[: TEXT.index("```json\n")]
    (bench.root / DOCUMENT).write_text(f"{head}```json\n{json.dumps(block, indent=2)}\n```\n", encoding="utf-8")


FILES = [(step, path) for step, facts in BLOCK["steps"].items() for path in facts["files"]]


@pytest.mark.parametrize(("step", "path"), FILES, ids=[f"{step} {path}" for step, path in FILES])
def test_a_file_cut_from_the_document(shipped: Bench, step: str, path: str) -> None:
    block = json.loads(json.dumps(BLOCK))
    del block["steps"][step]["files"][path]
    write_block(shipped, block)
    found = shipped.findings(but=("document-stale",))
    assert [(each.code, each.step, each.subject) for each in found] == [("file-uncovered", step, path)]
    assert f"it lacks steps.{step}.files.{path}" in stale(shipped)


@pytest.mark.parametrize("step", [step["id"] for step in STEPS if "pip" in step])
def test_a_pin_cut_from_the_document(shipped: Bench, step: str) -> None:
    block = json.loads(json.dumps(BLOCK))
    (pin,) = block["steps"][step]["pins"]
    block["steps"][step]["pins"] = []
    write_block(shipped, block)
    found = shipped.findings(but=("document-stale",))
    assert [(each.code, each.step, each.subject) for each in found] == [("pin-undeclared", step, pin)]


@pytest.mark.parametrize("step", IDS)
def test_a_step_cut_from_the_document(shipped: Bench, step: str) -> None:
    block = json.loads(json.dumps(BLOCK))
    del block["steps"][step]
    write_block(shipped, block)
    found = shipped.findings(but=("document-stale",))
    assert {each.step for each in found} <= {step}
    assert {each.subject for each in found} == {*BLOCK["steps"][step]["files"], *BLOCK["steps"][step]["pins"]}
    assert f"it lacks steps.{step}.kind" in stale(shipped)


def test_nothing_cut(shipped: Bench) -> None:
    assert shipped.findings() == []
    write_block(shipped, BLOCK)
    assert shipped.findings() == []
