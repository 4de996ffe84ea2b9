"""Run `observe_*` functions against the vLLM that PYTHONPATH names, and print what they returned.

    PYTHONPATH=TREE ENV/bin/python tests/vllm/run_scenarios.py MODULE...

MODULE is the name of a file in scenarios/. vLLM is imported once; each function then runs in a forked child, so that
what it replaces in a module or a global cannot be seen by the next one. One JSON object goes to stdout:
{"MODULE": {"NAME": {"value": ...} | {"error": "traceback"}}}; the key "<import>" stands for the module itself.
"""

import contextlib
import importlib
import json
import os
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

TIMEOUT_SECONDS = 180


def observe(function: Callable[[], Any]) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as scratch:
        answer = Path(scratch) / "answer.json"
        child = os.fork()
        if child == 0:
            os.setsid()
            answer_and_exit(function, answer)
        status = wait(child, time.monotonic() + TIMEOUT_SECONDS)
        kill_group(child)
        if status is None:
            os.waitpid(child, 0)
            return {"error": f"no answer within {TIMEOUT_SECONDS:.0f} s"}
        if not answer.exists():
            return {"error": f"the child ended without an answer (wait status {status})"}
        result: dict[str, Any] = json.loads(answer.read_text())
        return result


def answer_and_exit(function: Callable[[], Any], answer: Path) -> None:
    try:
        result = json.dumps({"value": function()})
    except BaseException:  # noqa: BLE001 - told as the answer, whatever it was
        result = json.dumps({"error": traceback.format_exc()})
    answer.write_text(result)
    sys.stderr.flush()
    os._exit(0)  # no exit handlers: threads that a scenario left behind must not hold it up


def wait(child: int, deadline: float) -> int | None:
    while time.monotonic() < deadline:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return status
        time.sleep(0.01)
    return None


def kill_group(child: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)


def main(names: list[str]) -> None:
    stdout = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what vLLM and the scenarios print must not get between the lines of the answer
    import vllm  # noqa: F401 - paid once, before the children are forked

    observed: dict[str, dict[str, Any]] = {}
    for name in names:
        try:
            module = importlib.import_module(f"scenarios.{name}")
        except Exception:  # noqa: BLE001 - told as the answer, whatever it was
            observed[name] = {"<import>": {"error": traceback.format_exc()}}
            continue
        functions = {key: value for key, value in vars(module).items() if key.startswith("observe_")}
        observed[name] = {key.removeprefix("observe_"): observe(value) for key, value in functions.items()}
    json.dump(observed, stdout)
    stdout.close()


if __name__ == "__main__":
    main(sys.argv[1:])
