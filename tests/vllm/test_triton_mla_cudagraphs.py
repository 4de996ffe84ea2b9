"""TRITON_MLA declares uniform batches where it serves a draft's non-causal blocks, and nowhere else."""

from typing import Any

import pytest

IMAGE, STEP = "v0.27.1", "triton-mla-cudagraphs"
SINGLE, UNIFORM = "UNIFORM_SINGLE_TOKEN_DECODE", "UNIFORM_BATCH"
BLOCK = {"num_decodes": 2, "num_decode_tokens": 6, "num_prefills": 0, "causal": False}
TARGET, DRAFT = ["model.layers.0.self_attn.attn"], ["model.layers.2.draft.attn", "model.layers.3.draft.attn"]


def seen(declared: str, threshold: int, captured: Any) -> dict[str, Any]:
    return {
        "declared": declared,
        "declared by the instance": declared,
        "reorder threshold": threshold,
        "a block captured": captured,
    }


def test_a_drafts_block_which_the_builder_could_capture_all_along(observed: Any) -> None:
    before, after = observed(IMAGE, STEP, "draft_block")
    assert before == seen(SINGLE, 3, BLOCK)
    assert after == seen(UNIFORM, 3, BLOCK)


@pytest.mark.parametrize("name", ["causal_group", "draft_block_with_dcp"])
def test_what_cannot_be_captured_is_not_declared(observed: Any, name: str) -> None:
    before, after = observed(IMAGE, STEP, name)
    assert before == after == seen(SINGLE, 1, "AssertionError")


def test_specs_of_several_layers(observed: Any) -> None:
    before, after = observed(IMAGE, STEP, "merged_and_uniform_specs")
    assert before == {"merged": SINGLE, "uniform": SINGLE}
    assert after == {"merged": UNIFORM, "uniform": SINGLE}


def test_the_runner_keeps_full_graphs_and_captures_the_draft(observed: Any) -> None:
    before, after = observed(IMAGE, STEP, "runner")
    groups = [[TARGET, DRAFT]]
    assert before == {"target": "PIECEWISE", "target graphs": ["PIECEWISE"], "groups": groups, "draft": "NONE"}
    assert after == {
        "target": "FULL_AND_PIECEWISE",
        "target graphs": ["FULL", "PIECEWISE"],
        "groups": groups,
        "draft": "FULL_DECODE_ONLY",
    }


def test_a_block_is_flattened_without_a_read_on_the_host(observed: Any) -> None:
    before, after = observed(IMAGE, STEP, "host_reads")
    assert before == after == [[6, 4, 576], [6, 4], [6]]


def test_a_flattened_block_attends_to_the_whole_request(observed: Any) -> None:
    before, after = observed(IMAGE, STEP, "attention")
    assert before == after == {"rows": 6, "close": True}


def test_a_causal_block_in_a_marked_group_is_as_wrong_as_before(observed: Any) -> None:
    # Six rows of queries over a block table for two: upstream's #51065 mends it, this step does not.
    before, after = observed(IMAGE, STEP, "causal_block_in_a_marked_group")
    assert before == after == [[6, 4, 576], [2, 4], [2]]
