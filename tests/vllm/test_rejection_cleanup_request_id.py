"""Fix 6: the id that the cleanup after a rejection is told."""

from typing import Any

import pytest

IMAGE, STEP = "nightly-c50aca", "rejection-cleanup-request-id"
ADDRESS = "host:10.0.0.1,handshake:6301,notify:61005"
ROUTED = f"___prefill_addr_{ADDRESS}___decode_addr_{ADDRESS}_" + "a" * 32
REJECTED = {"status": 404, "message": "The model `another` does not exist. Valid aliases: tiny."}


def test_the_reproduction(observed: Any) -> None:
    before, after = observed(IMAGE, STEP, "reproduction")
    assert before == {"error": "too long", "ids": ["0123"], "released": [0, 8]}
    assert after == {"error": "too long", "ids": [ROUTED], "released": [8, 8]}


@pytest.mark.parametrize(("name", "rank"), [("completion_endpoint", 3), ("chat_endpoint", None)])
def test_a_routed_request_that_is_rejected(observed: Any, name: str, rank: int | None) -> None:
    before, after = observed(IMAGE, STEP, name)
    assert before == {**REJECTED, "told": [{"id": "0123", "rank": rank, "released": 0}]}
    assert after == {**REJECTED, "told": [{"id": ROUTED, "rank": rank, "released": 8}]}


def test_every_prefill_rank_is_told_to_release(observed: Any) -> None:
    before, after = observed(IMAGE, STEP, "release_targets")
    assert before == []
    assert after == [["tx", "10.0.0.1", 61005 + rank] for rank in range(8)]


@pytest.mark.parametrize(("name", "released"), [("without_header", 0), ("without_header_addresses_in_parameters", 8)])
def test_without_a_header_the_body_s_id_stays(observed: Any, name: str, released: int) -> None:
    before, after = observed(IMAGE, STEP, name)
    assert before == after == {**REJECTED, "told": [{"id": "0123", "rank": None, "released": released}]}


def test_requests_with_nothing_to_clean_up_are_unchanged(observed: Any) -> None:
    before, after = observed(IMAGE, STEP, "nothing_to_clean_up")
    untold = {**REJECTED, "told": []}
    assert before == after == {"no parameters": untold, "prefill's own": untold}


def test_other_outcomes_are_unchanged(observed: Any) -> None:
    before, after = observed(IMAGE, STEP, "other_outcomes")
    told = [{"id": "0123", "rank": None, "released": 0}]
    assert before == after
    assert after == {
        "success": {"result": "an answer", "told": [], "warnings": []},
        "no connector": {"result": "raised too long", "told": [], "warnings": []},
        "no http request": {"result": "raised too long", "told": told, "warnings": []},
    }


def test_a_notification_that_fails_hides_no_rejection(observed: Any) -> None:
    before, after = observed(IMAGE, STEP, "notification_fails")
    warning = "Failed to notify KV connector about rejected request "
    assert before == {"result": "raised too long", "told": [], "warnings": [warning + "0123"]}
    assert after == {"result": "raised too long", "told": [], "warnings": [warning + ROUTED]}
