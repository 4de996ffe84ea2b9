"""0004: prefill remembers an early release for as long as the request lives, and no longer."""

from typing import Any

import pytest

IMAGE, STEP = "nightly-c50aca", "moriio-early-release"
NOTHING: dict[str, list[str]] = {"parked": [], "held": []}
CLEAN = {"used": 0, "requests": [], **NOTHING}
ENDED = [{"r": "length"}]


def test_the_defects_report(observed: Any) -> None:
    before, after = observed(IMAGE, STEP, "report")
    assert before == [True, [], {"parked": [], "held": ["r"]}, {"tx-r": "r"}]
    assert after == [True, ["r"], NOTHING, {}]


def test_a_release_during_a_long_prefill_frees_the_blocks_after_it(observed: Any) -> None:
    before, after = observed(IMAGE, STEP, "released_during_a_long_prefill")
    pinned = {"used": 10, "requests": ["r"], "parked": [], "held": ["r"]}
    assert before == [ENDED, 8, pinned, {"tx": "r"}]
    assert after == [ENDED, 8, CLEAN, {}]


def test_releases_of_the_ranks_may_be_far_apart(observed: Any) -> None:
    before, after = observed(IMAGE, STEP, "ranks_are_released_one_after_the_other")
    assert before == [8, {"used": 12, "requests": ["r"], "parked": [], "held": ["r"]}]
    assert after == [8, CLEAN]


def test_an_abort_takes_the_parked_release_with_it(observed: Any) -> None:
    before, after = observed(IMAGE, STEP, "aborted_after_the_release")
    assert before == [["r"], {**CLEAN, "parked": ["r"]}]
    assert after == [["r"], CLEAN]


def test_every_end_without_a_hand_off_drops_it_and_only_it(observed: Any) -> None:
    before, after = observed(IMAGE, STEP, "ends_without_hand_off")
    ends = ("aborted", "stopped", "not asked to")
    both = {"parked": ["other", "r"], "held": []}
    sort = {end: [held, {key: sorted(names) for key, names in left.items()}] for end, (held, left) in before.items()}
    assert sort == {**{key: [False, both] for key in ends}, "no blocks": [False, {"parked": ["r"], "held": []}]}
    assert after == {**{key: [False, {"parked": ["other"], "held": []}] for key in ends}, "no blocks": [False, NOTHING]}


def test_a_hundred_early_releases_leave_nothing(observed: Any) -> None:
    before, after = observed(IMAGE, STEP, "nothing_leaks")
    assert before == [0, {"parked": [], "held": [f"r{number}" for number in range(0, 100, 2)]}]
    assert after == [50, NOTHING]


NEAR = {
    "released_shortly_before": [ENDED, CLEAN],
    "released_afterwards": [3, CLEAN],
    "late_and_foreign_acknowledgements_expire": [["r", "unknown"], [], ["r", "unknown"], [], NOTHING],
    "read_mode": [True, ["r"], {"parked": ["r"], "held": []}, NOTHING],
}


@pytest.mark.parametrize("name", NEAR)
def test_near_misses_stay_as_they_were(observed: Any, name: str) -> None:
    assert observed(IMAGE, STEP, name) == (NEAR[name], NEAR[name])
