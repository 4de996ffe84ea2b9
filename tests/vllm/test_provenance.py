"""The provenance step on every release that a shipped stack is for."""

import json
from pathlib import Path
from typing import Any

import pytest

IMAGES = {"nightly-c50aca": "0.33.0", "nightly-7c5dc571": "0.29.0", "v0.27.1": "0.27.1"}
STEP = "provenance"
LOCK = "sha256:" + "0123456789abcdef" * 4
CARRIED = {"image": "nightly-c50aca", "version": 3, "lock": LOCK, "stand_in": False, "steps": ["kv-leak", "provenance"]}
START_UP = f"INFO patchkit: image nightly-c50aca, stack version 3, lock {LOCK}, 2 steps"

pytestmark = pytest.mark.parametrize("image", IMAGES)


def pristine(image: str) -> dict[str, Any]:
    return {"status": 200, "version": {"version": IMAGES[image]}, "log": []}


def patched(image: str, patchkit: Any, log: str) -> dict[str, Any]:
    return {"status": 200, "version": {"version": IMAGES[image], "patchkit": patchkit}, "log": [log]}


def test_the_ledger_that_patchkit_wrote(observed: Any, image: str) -> None:
    before, after = observed(image, STEP, "as_applied")
    assert before == {"version": IMAGES[image]}
    lock = json.loads((Path(__file__).parents[2] / "patches" / image / "stack.lock.json").read_text())
    assert after["patchkit"] == {
        "image": image,
        "version": lock["stack"]["version"],
        "lock": lock["digest"],
        "stand_in": image != "v0.27.1",
        "steps": [step["id"] for step in lock["steps"] if not step["unresolved"]],
    }


@pytest.mark.parametrize("name", ["ledger", "whole_application"])
def test_the_ledger_is_answered_and_logged(observed: Any, image: str, name: str) -> None:
    assert observed(image, STEP, name) == (pristine(image), patched(image, CARRIED, START_UP))


def test_a_stand_in_of_one_step(observed: Any, image: str) -> None:
    before, after = observed(image, STEP, "stand_in_of_one_step")
    assert before == pristine(image)
    log = f"INFO patchkit: image nightly-c50aca, stack version 3, lock {LOCK}, 1 step, stand-in"
    assert after == patched(image, {**CARRIED, "stand_in": True, "steps": ["kv-leak"]}, log)


def test_a_ledger_that_changes_later_is_not_what_was_loaded(observed: Any, image: str) -> None:
    before, after = observed(image, STEP, "read_once")
    assert before == [{"version": IMAGES[image]}] * 3
    assert after == [{"version": IMAGES[image], "patchkit": CARRIED}] * 3


def test_no_ledger(observed: Any, image: str) -> None:
    before, after = observed(image, STEP, "no_ledger")
    assert before == pristine(image)
    assert after == patched(image, None, "INFO patchkit: no ledger at SITE/.patchkit/ledger.json")


def test_a_broken_ledger_is_told_and_harms_nothing(observed: Any, image: str) -> None:
    before, after = observed(image, STEP, "broken_ledgers")
    errors = {
        "not JSON": "JSONDecodeError: Expecting property name enclosed in double quotes: line 1 column 2 (char 1)",
        "not UTF-8": "UnicodeDecodeError: 'utf-8' codec can't decode byte 0xff in position 0: invalid start byte",
        "empty": "JSONDecodeError: Expecting value: line 1 column 1 (char 0)",
        "a list": "ValueError: the ledger is not of type dict",
        "nested too deeply": "RecursionError: maximum recursion depth exceeded"
        " while decoding a JSON array from a unicode string",
        "format 2": "ValueError: unknown format 2",
        "no format": "KeyError: 'format'",
        "no stack": "KeyError: 'stack'",
        "version is a text": "ValueError: stack.version is not of type int",
        "version is not a number": "ValueError: stack.version is not of type int",
        "steps is a text": "ValueError: steps is not of type list",
        "a step is a text": "TypeError: string indices must be integers, not 'str'",
        "half a surrogate pair": "UnicodeEncodeError: 'utf-8' codec can't encode character '\\ud800'"
        " in position 11: surrogates not allowed",
    }
    warning = "WARNING patchkit: cannot read SITE/.patchkit/ledger.json: "
    assert before == dict.fromkeys(errors, pristine(image))
    assert after == {name: patched(image, {"error": error}, warning + error) for name, error in errors.items()}


def test_a_ledger_that_cannot_be_opened(observed: Any, image: str) -> None:
    before, after = observed(image, STEP, "ledger_that_cannot_be_opened")
    error = "IsADirectoryError: [Errno 21] Is a directory: 'SITE/.patchkit/ledger.json'"
    warning = f"WARNING patchkit: cannot read SITE/.patchkit/ledger.json: {error}"
    assert before == pristine(image)
    assert after == patched(image, {"error": error}, warning)


def test_other_endpoints_and_the_version_itself_are_unchanged(observed: Any, image: str) -> None:
    before, after = observed(image, STEP, "other_endpoints")
    assert before == after
    assert after["version"] == IMAGES[image]
    assert after["/load"] == [200, '{"server_load":7}']
    assert (after["POST /version"], after["/no"][0], after["/metrics"]) == (405, 404, 200)
