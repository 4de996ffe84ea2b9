"""Fix 5: the KV offload's threads."""

from typing import Any

import pytest

IMAGE, STEP = "nightly-c50aca", "offload-copy-thread-errors"
SILENT = {"finished": None, "stored": []}


def failed(kind: str, cause: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """What is seen in the step whose transfer failed, and in each later one."""
    error = [f"RuntimeError: KV offload {kind} thread failed", cause]
    return {"finished": error, "stored": []}, {"launch": error, "finished": error, "stored": []}


def test_the_reproduction(observed: Any) -> None:
    before, after = observed(IMAGE, STEP, "reproduction")
    first, later = failed("copy", "RuntimeError: batch memcpy failed: err=1")
    assert before == [[SILENT, False, 0], [SILENT, False, 1], [SILENT, False, 2]]
    assert after == [[first, False, 0], [later, False, 0], [later, False, 0]]


@pytest.mark.parametrize(
    ("name", "well"),
    [("failing_load", {"finished": ["r0"], "stored": []}), ("failing_store", {"finished": None, "stored": [0]})],
)
def test_a_failing_copy(observed: Any, name: str, well: dict[str, Any]) -> None:
    before, after = observed(IMAGE, STEP, name)
    first, later = failed("copy", "RuntimeError: batch memcpy failed: err=719 failIdx=0")
    assert before == {"first": well, "steps": [SILENT, SILENT, SILENT], "alive": [False, False], "queued": 2}
    assert after == {"first": well, "steps": [first, later, later], "alive": [False, False], "queued": 0}


def test_a_step_without_transfers_tells_it(observed: Any) -> None:
    before, after = observed(IMAGE, STEP, "failure_without_another_launch")
    first, _ = failed("copy", "RuntimeError: batch memcpy failed: err=1 failIdx=0")
    assert before == {"step": SILENT, "alive": [False, False]}
    assert after == {"step": first, "alive": [False, False]}


def test_a_failing_read_from_disk(observed: Any) -> None:
    before, after = observed(IMAGE, STEP, "failing_disk_read")
    first, later = failed("disk IO", "OSError: Short read: expected 8192 bytes, read 0")
    well = [{"finished": None, "stored": [0]}, {"finished": ["r0"], "stored": []}]
    assert before == {"first": well, "steps": [SILENT, SILENT], "alive": [False, True]}
    assert after == {"first": well, "steps": [first, later], "alive": [False, True]}


def test_a_failing_write_to_disk(observed: Any) -> None:
    before, after = observed(IMAGE, STEP, "failing_disk_write")
    first, later = failed("disk IO", "OSError: [Errno 9] Bad file descriptor")
    well = {"finished": None, "stored": [0]}
    assert before == {"first": well, "steps": [SILENT, SILENT], "alive": [True, False]}
    assert after == {"first": well, "steps": [first, later], "alive": [True, False]}


@pytest.mark.parametrize("name", ["success", "success_on_disk"])
def test_transfers_that_succeed_are_unchanged(observed: Any, name: str) -> None:
    before, after = observed(IMAGE, STEP, name)
    assert before == after
    assert after == {
        "bytes": [[[0, 1, 2, 3], [10, 11, 12, 13]], [[0, 1, 2, 2], [10, 11, 12, 12]]],
        "steps": [
            {"finished": None, "stored": [0]},
            {"finished": ["r0"], "stored": []},
            {"finished": None, "stored": [1]},
            {"finished": ["r1"], "stored": []},
        ],
        "alive": [True, True],
        "after shutdown": {"alive": [False, False], "finished": [None, None]},
    }


def test_another_worker_goes_on(observed: Any) -> None:
    before, after = observed(IMAGE, STEP, "other_worker")
    assert before == after == {"finished": ["r0"], "stored": []}


def test_a_worker_without_caches_reports_nothing(observed: Any) -> None:
    before, after = observed(IMAGE, STEP, "no_caches")
    assert before == after == [None, SILENT]
