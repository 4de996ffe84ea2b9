"""0001: decode frees the blocks of a request that is aborted while its KV is on the way."""

from typing import Any

import pytest

IMAGE, STEP = "nightly-c50aca", "moriio-aborted-load-blocks"
CLEAN: dict[str, Any] = {"used": 0, "requests": [], "mapped": {}, "unmatched": [[]]}
ALLOCATION = {
    "req_id": "r",
    "transfer_id": "tx",
    "block_notify_list": [1, 2, 3],
    "decode_rank": 0,
    "type": "remote_blocks",
}


def held(**more: Any) -> dict[str, Any]:
    return {"used": 3, "requests": ["r"], "mapped": {}, "unmatched": [[]], **more}


def test_the_defects_report(observed: Any) -> None:
    before, after = observed(IMAGE, STEP, "report")
    assert before == [[[[], ["tx"]]] * 3, {}, {}]
    assert after == [[[["r"], []], [[], []], [[], []]], {}, {}]


def test_an_aborted_load_gives_its_blocks_back_when_it_is_done(observed: Any) -> None:
    before, after = observed(IMAGE, STEP, "aborted_then_done")
    assert before == [[ALLOCATION], 3, 3, held(unmatched=[["tx"]])]
    assert after == [[ALLOCATION], 3, 3, CLEAN]


def test_an_aborted_load_gives_its_blocks_back_when_it_has_failed(observed: Any) -> None:
    assert observed(IMAGE, STEP, "aborted_then_failed") == (held(), CLEAN)


def test_all_ranks_must_have_reported_the_load(observed: Any) -> None:
    before, after = observed(IMAGE, STEP, "ranks_report_in_different_steps")
    assert before == [3, held(unmatched=[[], ["tx"]])]
    assert after == [3, {**CLEAN, "unmatched": [[], []]}]


def test_no_abort_makes_the_cache_smaller(observed: Any) -> None:
    before, after = observed(IMAGE, STEP, "every_aborted_request_gives_its_blocks_back")
    lost = {
        "used": 15,
        "requests": ["r0", "r1", "r2", "r3", "r4"],
        "mapped": {},
        "unmatched": [[f"tx{number}" for number in range(8)]],
    }
    assert before == [5, lost]
    assert after == [8, CLEAN]


TOKENS = [{"r": "token"}] * 3
NEAR = {
    "aborted_while_running": [[{}, *TOKENS[:2]], CLEAN, CLEAN],
    "finished_by_itself": [[{}, *TOKENS, {"r": "length"}, {}, {}], CLEAN],
    "failed_load": [[{"r": "error"}, {}, {}], CLEAN],
    "aborted_before_allocation": [[{"type": "release", "transfer_id": "tx", "consumer_tp_size": 1}], CLEAN],
    "nothing_to_load": [[{"type": "release", "transfer_id": "tx", "consumer_tp_size": 1}], CLEAN],
    "other_requests_unmap_at_once": {"stopped": ["tx-other"], "capped": ["tx-other"], "read": ["tx-other"]},
}


@pytest.mark.parametrize("name", NEAR)
def test_near_misses_stay_as_they_were(observed: Any, name: str) -> None:
    assert observed(IMAGE, STEP, name) == (NEAR[name], NEAR[name])
