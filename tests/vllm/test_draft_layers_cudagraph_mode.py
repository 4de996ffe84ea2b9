"""A draft's attention layers do not lower the target's cudagraph mode: the V2 model runner, built for real."""

from typing import Any

import pytest

IMAGE, STEP = "v0.27.1", "draft-layers-cudagraph-mode"
TARGET, WEAK = "model.layers.0.self_attn.attn", "model.layers.1.self_attn.attn"
DRAFT = ["model.layers.2.draft.attn", "model.layers.3.draft.attn"]
PIECEWISE = {"target": "PIECEWISE", "target graphs": ["PIECEWISE"]}
FULL = {"target": "FULL_AND_PIECEWISE", "target graphs": ["FULL", "PIECEWISE"]}


@pytest.mark.parametrize("name", ["decision", "only_full_asked_for"])
def test_a_weak_draft(observed: Any, name: str) -> None:
    before, after = observed(IMAGE, STEP, name)
    groups = [[[TARGET], DRAFT]]
    assert before == {**PIECEWISE, "groups": groups, "draft": "NONE"}
    assert after == {**FULL, "groups": groups, "draft": "NONE"}


def test_no_draft(observed: Any) -> None:
    before, after = observed(IMAGE, STEP, "no_draft")
    assert before == after == {**FULL, "groups": [[[TARGET]]]}


def test_a_draft_as_capable_as_its_target(observed: Any) -> None:
    before, after = observed(IMAGE, STEP, "capable_draft")
    assert before == after == {**FULL, "groups": [[[TARGET, *DRAFT]]], "draft": "FULL_DECODE_ONLY"}


def test_a_weak_layer_of_the_target_still_counts(observed: Any) -> None:
    before, after = observed(IMAGE, STEP, "weak_target_layer")
    assert before == after == {**PIECEWISE, "groups": [[[TARGET, *DRAFT], [WEAK]]], "draft": "NONE"}


def test_a_weak_group_with_layers_of_both_still_counts(observed: Any) -> None:
    before, after = observed(IMAGE, STEP, "weak_group_of_both")
    assert before == after == {**PIECEWISE, "groups": [[[TARGET], [WEAK, *DRAFT]]], "draft": "NONE"}


def test_a_draft_that_runs_in_the_targets_mode_still_counts(observed: Any) -> None:
    before, after = observed(IMAGE, STEP, "draft_that_runs_in_the_targets_mode")
    assert before == after == {**PIECEWISE, "groups": [[[TARGET], DRAFT]], "draft": "NONE"}


def test_what_metadata_is_built_for(observed: Any) -> None:
    before, after = observed(IMAGE, STEP, "metadata")
    eager = [False, [TARGET, *DRAFT]]
    assert before == {"captured": [eager, eager], "dummy": [eager]}
    # Built for capture, the draft's group would fail an assertion.
    full, piecewise = [True, [TARGET]], [False, [TARGET]]
    assert after == {"captured": [full, full, piecewise, piecewise], "dummy": [full]}
