"""What went wrong with waivers written by hand (facts, "What went wrong"): each case rebuilt, each caught by its code."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .conftest import IMAGE, PULL, demo_record, demo_waiver, lock

if TYPE_CHECKING:
    from .conftest import Bench

BY_HAND = """\
# Engine patch waiver, PR 12

| Upstream PR | What it changes | Notes |
|---|---|---|
| example/engine#7 | decode with an fp8 cache | merged |

triton: a dependency pin, not a patch.
"""


def test_case_6_a_reverted_pull_request_is_waited_for(shipped: Bench) -> None:
    """#4494 counted as merged although it was reverted seven hours later."""

    def wait_for_4494(stack: dict) -> None:
        step = next(step for step in stack["steps"] if step["id"] == "aiter-split-k-semaphore")
        step["removal"] = {"when": "contained", "ref": "ROCm/aiter#4494"}

    shipped.edit(f"patches/{IMAGE}/stack.yaml", wait_for_4494)
    (found,) = shipped.findings(but=("lock-stale", "document-stale"))
    assert (found.code, found.step, found.subject) == (
        "removal-impossible",
        "aiter-split-k-semaphore",
        "ROCm/aiter#4494",
    )


def test_case_7_the_plan_waits_for_an_abandoned_pull_request(shipped: Bench) -> None:
    """The removal plan waits for #50619, which was closed without merging: it can never complete."""

    def wait_for_50619(stack: dict) -> None:
        step = next(step for step in stack["steps"] if step["id"] == "draft-layers-cudagraph-mode")
        step["removal"] = {"when": "contained", "ref": "vllm-project/vllm#50619"}

    shipped.edit(f"patches/{IMAGE}/stack.yaml", wait_for_50619)
    (found,) = shipped.findings(but=("lock-stale", "document-stale"))
    assert (found.code, found.step) == ("removal-impossible", "draft-layers-cudagraph-mode")
    assert found.message == (
        "step draft-layers-cudagraph-mode: the removal plan is impossible: it waits for vllm-project/vllm#50619 to be "
        "contained, and that is abandoned as of 2026-09"
    )


def test_case_7_in_the_waiver_itself(shipped: Bench) -> None:
    condition = {"steps": ["draft-layers-cudagraph-mode"], "image_contains": "vllm-project/vllm#50619"}
    shipped.edit("waivers/2508.yaml", lambda waiver: waiver["removal"].update(conditions=[condition]))
    assert shipped.codes(but=("document-stale",)) == ["removal-impossible"]


def test_case_8_pull_requests_are_listed_and_not_files(demo: Bench) -> None:
    """Hunks (fp8 query cast, batch <= 256) and whole files (gpu_worker.py) appear in no row."""
    demo.write("docs/waiver/12.md", BY_HAND)
    found = demo.findings()
    assert {(each.step, each.subject) for each in found if each.code == "file-uncovered"} == {
        ("mla-fp8", "engine/mla.py"),
        ("worker", "engine/gpu_worker.py"),
    }
    assert "document-stale" in [each.code for each in found]


def test_case_8_one_hunk_is_in_no_row(demo: Bench) -> None:
    path = demo.root / "docs/waiver/12.md"
    text = path.read_text()
    path.write_text(text.replace('"hunks": 2', '"hunks": 1').replace("2 hunks, +2 -0", "1 hunk, +1 -0"))
    found = demo.findings(but=("document-stale",))
    assert [(each.code, each.message) for each in found] == [
        ("file-uncovered", "step mla-fp8: engine/mla.py is changed in 2 hunks, and the document tells of 1")
    ]


def test_case_8_a_patch_that_grew_after_the_waiver_was_rendered(demo: Bench) -> None:
    """The worker was added to a step that is covered: the step is covered, the file is not."""
    text = (demo.root / "patches/demo/mla.patch").read_text()
    demo.write("patches/demo/mla.patch", text + PATCH_OF_CACHE)
    demo.write("pristine/site/engine/cache.py", "line 1\nline 2\n")
    lock(demo)
    found = demo.findings(but=("document-stale",))
    assert [(each.code, each.step, each.subject) for each in found] == [
        ("file-uncovered", "mla-fp8", "engine/cache.py")
    ]


PATCH_OF_CACHE = """\
--- a/engine/cache.py
+++ b/engine/cache.py
@@ -1,2 +1,3 @@
 line 1
+keep it
 line 2
"""


def test_case_9_a_package_is_called_a_dependency_pin(demo: Bench) -> None:
    """Packages were installed over the image and called "a dependency pin, not a patch"."""
    waiver = demo_waiver()
    waiver["covers"].remove("demo/triton")
    waiver["why"] = [{"symptom": "It answers nonsense.", "steps": ["mla-fp8", "worker"]}]
    waiver["no_upstream"] = [{"steps": ["worker"], "because": "triton==3.7.0 is a dependency pin, not a patch."}]
    demo.write("waivers/12.yaml", waiver)
    demo.render()
    (found,) = demo.findings()
    assert (found.code, found.step, found.subject) == ("pin-undeclared", "triton", "triton==3.7.0")
    assert found.message == "step triton of demo installs triton==3.7.0 over the image and is covered by no waiver"


def test_case_9_a_pin_that_no_step_has(demo: Bench) -> None:
    text = "transformers==5.1.0 is a dependency pin, not a patch."
    demo.edit("waivers/12.yaml", lambda waiver: waiver["no_upstream"][0].update(because=text))
    demo.render()
    (found,) = demo.findings()
    assert (found.code, found.path, found.subject) == ("pin-undeclared", "waivers/12.yaml", "transformers==5.1.0")


def test_case_10_the_entrypoint_passes_another_value_than_is_declared(demo: Bench) -> None:
    """`--kv-cache-dtype` was the literal `auto` while the declared variable said fp8."""
    demo.edit("waivers/12.yaml", lambda waiver: waiver.update(entrypoint="serve --kv-cache-dtype auto"))
    demo.render()
    (found,) = demo.findings()
    assert (found.code, found.message) == (
        "text-contradicts",
        'entrypoint: "--kv-cache-dtype auto", and kv-cache-dtype is declared as fp8',
    )


def test_case_12_the_description_says_another_number(demo: Bench) -> None:
    """The description said synthetic acceptance length 2.45; the script pinned 2.51."""
    text = "It answers nonsense at synthetic acceptance length 2.45."
    demo.edit("waivers/12.yaml", lambda waiver: waiver["why"][0].update(symptom=text))
    demo.render()
    (found,) = demo.findings()
    assert (found.code, found.path) == ("text-contradicts", "waivers/12.yaml")
    assert found.message == (
        'why[0].symptom: "synthetic acceptance length 2.45", and synthetic-acceptance-length is declared as 2.51'
    )


def test_case_13_the_recipe_is_of_another_model(shipped: Bench) -> None:
    """The sign-off linked another model's recipe page."""
    link = "https://recipes.vllm.ai/MiniMaxAI/MiniMax-M3"
    shipped.edit("waivers/2508.yaml", lambda waiver: waiver["recipes"][0].update(link=link))
    (found,) = shipped.findings(but=("document-stale",))
    assert (found.code, found.subject) == ("link-other-project", link)
    assert found.message == f"recipes[0]: {link} does not name the model moonshotai/Kimi-K3: it is another model's page"


def test_case_13_a_pull_request_of_another_project(demo: Bench) -> None:
    def link_other(stack: dict) -> None:
        stack["steps"][0]["upstream"] = [PULL, "other/router#3"]

    demo.edit("patches/demo/stack.yaml", link_other)
    lock(demo)
    demo.render()
    (found,) = demo.findings()
    assert (found.code, found.step, found.subject) == ("link-other-project", "mla-fp8", "other/router#3")


def test_case_14_no_waiver_exists(shipped: Bench) -> None:
    """No waiver existed when the pull request was first signed off."""
    (shipped.root / "waivers/2508.yaml").unlink()
    (shipped.root / "docs/waiver/2508.md").unlink()
    (found,) = shipped.findings()
    assert (found.code, found.path) == ("stack-without-waiver", f"patches/{IMAGE}/stack.yaml")
    assert found.message == f"image {IMAGE}: no waiver covers any of its 19 steps"


def test_case_14_only_the_document_exists(shipped: Bench) -> None:
    (shipped.root / "waivers/2508.yaml").unlink()
    assert shipped.codes() == ["document-without-waiver", "stack-without-waiver"]


def test_a_record_that_learns_of_the_end_of_a_pull_request(demo: Bench) -> None:
    record = demo_record()
    record["pulls"][PULL]["state"] = "abandoned"
    demo.write("patches/upstream.json", record)
    demo.render()
    assert demo.codes() == ["removal-impossible"]
