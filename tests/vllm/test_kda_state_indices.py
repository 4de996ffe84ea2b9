"""KDA's packed decode on AMD takes state indices of any stride: the kernel itself, in Triton's interpreter."""

from typing import Any

import pytest

IMAGE, STEP = "v0.27.1", "kda-state-indices"
REFUSED = "`state_indices` must be contiguous and one-dimensional."


@pytest.mark.parametrize(
    ("indices", "stride", "changed", "silent"),
    [
        ("first column", 3, [2, 4, 5], [2]),
        ("last column", 3, [3, 7, 8], [2]),
        ("every second row", 6, [9], [1]),
        ("one request", 3, [4], []),
        ("with a lower bound", 3, [2, 4, 5], [2]),
    ],
)
def test_strided_indices_decode_as_their_contiguous_copy(
    observed: Any, indices: str, stride: int, changed: list[int], silent: list[int]
) -> None:
    before, after = observed(IMAGE, STEP, "strided")
    assert before[indices] == [[stride], REFUSED]
    assert after[indices] == [[stride], {"as contiguous": True, "changed slots": changed, "silent rows": silent}]


def test_contiguous_indices_give_the_very_same_numbers(observed: Any) -> None:
    before, after = observed(IMAGE, STEP, "contiguous")
    assert before["changed slots"] == [2, 4, 5]
    assert before["silent rows"] == [2]
    assert after == before


def test_a_table_is_still_refused(observed: Any) -> None:
    before, after = observed(IMAGE, STEP, "refused")
    assert before == {"a table": REFUSED, "a table of one column": REFUSED}
    message = "`state_indices` must be one-dimensional."
    assert after == {"a table": message, "a table of one column": message}
