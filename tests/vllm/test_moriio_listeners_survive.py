"""0003: a message that cannot be handled is logged, and both listeners go on."""

from typing import Any

import pytest

IMAGE, STEP = "nightly-c50aca", "moriio-listeners-survive"
LAYERS = ["layer0", "layer1"]
BAD = [
    "unknown type",
    "no transfer id",
    "for the other role",
    "of no use as a key",
    "not text",
    "empty",
    "two frames",
    "huge",
    "a huge type",
    "many frames",
]


def test_the_defects_report(observed: Any) -> None:
    assert observed(IMAGE, STEP, "report") == ([["first"], [], False], [["first"], ["last"], True])


def test_the_notify_listener_takes_the_next_message_after_any_bad_one(observed: Any) -> None:
    before, after = observed(IMAGE, STEP, "notify_listener")
    assert before == {"unknown type": "the listener is dead"}
    # the good one is handled, there is one line in the log, and it is short
    assert after == {key: [True, 1, True] for key in BAD}


def test_the_log_holds_the_message_and_what_was_wrong(observed: Any) -> None:
    assert observed(IMAGE, STEP, "notify_listener_says_what") == ([False, True, True], [True, True, True])


def test_many_bad_messages_do_not_lose_the_good_one(observed: Any) -> None:
    observation = observed(IMAGE, STEP, "every_message_of_the_wrong_kind_at_once")
    assert observation == ([[], False], [["tx"], True])


def test_the_handshake_listener_answers_after_any_bad_message(observed: Any) -> None:
    before, after = observed(IMAGE, STEP, "handshake_listener")
    assert before == [LAYERS, {"unknown": ["nobody answers", 0]}, False]
    assert after == [LAYERS, {key: [LAYERS, 1] for key in ("unknown", "two frames", "huge", "empty")}, True]


def test_the_handshake_listener_answers_after_a_bad_second_part(observed: Any) -> None:
    observation = observed(IMAGE, STEP, "handshake_listener_and_a_bad_second_part")
    assert observation == (["nobody answers", False], [LAYERS, True])


NEAR = {
    # the notify listener, and the handshake listener as it receives and as it sends
    "ends_with_its_socket": {"context": [True, True, True], "socket": [True, True, True]},
    "good_messages": [["plain text", "structured"], ["failed"], [LAYERS, LAYERS], []],
}


@pytest.mark.parametrize("name", NEAR)
def test_near_misses_stay_as_they_were(observed: Any, name: str) -> None:
    assert observed(IMAGE, STEP, name) == (NEAR[name], NEAR[name])
