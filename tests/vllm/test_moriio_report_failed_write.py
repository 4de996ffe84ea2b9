"""0002: prefill reports every failed write to decode, once for each transfer."""

from typing import Any

import pytest

IMAGE, STEP = "nightly-c50aca", "moriio-report-failed-write"
FORGOTTEN: dict[str, Any] = {"scheduled": [], "sealed": [], "allocated": []}
FAILED = {"type": "write_failed", "transfer_id": "tx"}
ENDED = [{"r": "length"}]


def told(*ports: int, ip: str = "10.0.0.2", transfer: str = "tx", kind: str = "write_failed") -> list[list[Any]]:
    return [[transfer, ip, port, kind] for port in ports]


def test_the_defects_report(observed: Any) -> None:
    assert observed(IMAGE, STEP, "report") == ([["tx"], []], [["tx"], told(61005)])


def test_a_deferred_write_that_fails(observed: Any) -> None:
    before, after = observed(IMAGE, STEP, "deferred")
    assert before == [["tx"], [], FORGOTTEN]
    assert after == [["tx"], told(61005), FORGOTTEN]


def test_many_failed_layers_are_one_report(observed: Any) -> None:
    before, after = observed(IMAGE, STEP, "many_layers_fail")
    assert before == [1, [], FORGOTTEN]
    assert after == [1, told(61005), FORGOTTEN]


def test_the_decode_rank_that_owns_the_request_is_told(observed: Any) -> None:
    assert observed(IMAGE, STEP, "decode_rank_of_another_pod") == ([], told(61006, ip="10.0.0.3"))


def test_every_rank_of_a_fanout_is_told(observed: Any) -> None:
    assert observed(IMAGE, STEP, "every_rank_of_a_fanout") == ([["tx"], []], [["tx"], told(61005, 61006)])


def test_a_posted_write_settles_before_its_blocks_are_reused(observed: Any) -> None:
    before, after = observed(IMAGE, STEP, "posted_write_settles_first")
    assert before == [[["tx"], []], ["tx"], []]
    assert after == [[[], []], ["tx"], told(61005, 61006)]


def test_a_report_that_cannot_be_sent_is_logged(observed: Any) -> None:
    before, after = observed(IMAGE, STEP, "send_fails")
    assert before == [["tx", "tx2"], [], True, [], FORGOTTEN]
    line = "Failed to notify decode at 10.0.0.2:61005 that transfer tx failed"
    assert after == [["tx", "tx2"], [["tx2", "10.0.0.2", 61005]], True, [line], FORGOTTEN]


def test_a_transfer_that_decode_has_released_is_acknowledged_once(observed: Any) -> None:
    assert observed(IMAGE, STEP, "released_meanwhile") == ([2, [], FORGOTTEN], [1, [], FORGOTTEN])


def test_sealing_reports_the_failed_transfer_and_goes_on(observed: Any) -> None:
    before, after = observed(IMAGE, STEP, "sealing")
    assert before[:3] == ["TransferError", [], []]
    assert before[3]["allocated"] == ["tx", "tx2"]
    done = told(61005, transfer="tx2", kind="write_done")
    assert after == [None, ["tx", "tx2"], told(61005) + done, FORGOTTEN]


def test_sealing_waits_for_what_is_in_flight(observed: Any) -> None:
    before, after = observed(IMAGE, STEP, "sealing_waits_for_the_rest")
    assert before == ["TransferError", [], [], []]
    assert after == [None, [[[], 0, 1]], told(61005), ["tx"]]


def test_a_rank_that_has_its_kv_is_not_told_otherwise(observed: Any) -> None:
    before, after = observed(IMAGE, STEP, "half_of_the_ranks_told")
    assert before == ["OSError", told(61005, kind="write_done")]
    assert after == [None, told(61005, kind="write_done") + told(61006)]


def test_engine_whose_session_does_not_open(observed: Any) -> None:
    assert observed(IMAGE, STEP, "engine_session_fails") == ([ENDED, [], 0, []], [ENDED, [FAILED], 0, []])


def test_engine_that_learns_late_where_to_write(observed: Any) -> None:
    before, after = observed(IMAGE, STEP, "engine_late_allocation")
    assert before == [[{}, *ENDED], 3, [], 0]
    assert after == [[{}, *ENDED], 3, [FAILED], 0]


def test_engine_that_fails_while_sealing(observed: Any) -> None:
    assert observed(IMAGE, STEP, "engine_sealing") == ([["TransferError"], []], [ENDED, [FAILED]])


def test_engine_whose_transfers_fail(observed: Any) -> None:
    assert observed(IMAGE, STEP, "engine_transfer_fails") == ([ENDED, [], 0], [ENDED, [FAILED], 0])


def test_decode_ends_the_request_instead_of_waiting_for_ever(observed: Any) -> None:
    assert observed(IMAGE, STEP, "both_engines") == ([[], 3, ["d"]], [[{"d": "error"}], 0, []])


def test_a_load_with_many_writers_fails_once(observed: Any) -> None:
    before, after = observed(IMAGE, STEP, "many_writers")
    nothing, fails, done = [[], []], [[], ["tx"]], [["tx"], []]
    assert before == {
        "failed, failed": [[fails, fails], {}],
        "failed, done": [[fails, nothing], {"tx": 1}],
        "done, failed": [[nothing, fails], {}],
        "done, done": [[nothing, done], {}],
    }
    assert after == {
        "failed, failed": [[fails, nothing], {}],
        "failed, done": [[fails, nothing], {}],
        "done, failed": [[nothing, fails], {}],
        "done, done": [[nothing, done], {}],
    }


NEAR = {
    "success": [ENDED, [{"type": "write_done", "transfer_id": "tx"}], 0, 2],
    "allocation_timeout": [ENDED, [FAILED], 0],
}


@pytest.mark.parametrize("name", NEAR)
def test_near_misses_stay_as_they_were(observed: Any, name: str) -> None:
    assert observed(IMAGE, STEP, name) == (NEAR[name], NEAR[name])
