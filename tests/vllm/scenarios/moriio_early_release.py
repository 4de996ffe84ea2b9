"""Fix 4: prefill remembers that decode has let a request go, for as long as that request lives."""

import time
from types import SimpleNamespace
from typing import Any

from scenarios.moriio_support import Listener, Side, bare, for_decode
from vllm.distributed.kv_transfer.kv_connector.v1.moriio import moriio_common, moriio_connector
from vllm.v1.outputs import KVConnectorOutput
from vllm.v1.request import RequestStatus

IMAGES = ("nightly-c50aca",)

TIMEOUT = 60.0
WRITE, READ = moriio_common.MoRIIOMode.WRITE, moriio_common.MoRIIOMode.READ


class Clock:
    """The connector's clock, which a test moves."""

    def __init__(self) -> None:
        self.now = 1000.0
        moriio_connector.time = SimpleNamespace(
            monotonic=lambda: self.now, perf_counter=lambda: self.now, sleep=time.sleep
        )


class Bare:
    """A prefill scheduler without its constructor, as in the defect's report; each step takes a second."""

    def __init__(self, mode: Any = WRITE, **more: Any) -> None:
        self.clock = Clock()
        parallel = SimpleNamespace(data_parallel_size=1, data_parallel_size_local=1, tensor_parallel_size=8)
        attributes = {
            "is_producer": True,
            "mode": mode,
            "_has_mamba": True,
            "_defer_timeout": TIMEOUT,
            "_deferred_send_deadlines": {},
            "_pending_sent_acks": {},
            "_reqs_need_send": {},
            "engine_id": "p",
            "host_ip": "h",
            "handshake_port": 1,
            "side_notify_port": 2,
            "_global_dp_rank": 0,
            "vllm_config": SimpleNamespace(parallel_config=parallel),
            "transfer_id_to_request_id": {},
            "request_id_to_transfer_id": {},
            "_clamp_to_prompt_blocks": lambda request, blocks: blocks,
        }
        self.scheduler = bare(moriio_connector.MoRIIOConnectorScheduler, **{**attributes, **more})

    def step(self, *acknowledged: str) -> list[str]:
        self.clock.now += 1
        output = KVConnectorOutput(finished_sending=set(acknowledged) or None)
        self.scheduler.update_connector_output(output)
        return sorted(output.finished_sending or ())

    def steps(self, number: int) -> list[str]:
        return [freed for _ in range(number) for freed in self.step()]

    def finish(self, name: str, status: RequestStatus = RequestStatus.FINISHED_LENGTH_CAPPED, **params: Any) -> bool:
        """Whether the blocks are held for decode."""
        asked = {"do_remote_decode": True, "transfer_id": f"tx-{name}", **params}
        request = SimpleNamespace(request_id=name, status=status, kv_transfer_params=asked)
        return bool(self.scheduler.request_finished(request, ([1], [2]))[0])

    def left(self) -> dict[str, list[str]]:
        scheduler = self.scheduler
        return {"parked": list(scheduler._pending_sent_acks), "held": list(scheduler._deferred_send_deadlines)}


def observe_report() -> Any:
    made = Bare()
    made.scheduler.map_request_id("r", "tx-r")
    made.step("r")
    made.steps(90)
    return made.finish("r"), made.steps(7200), made.left(), made.scheduler.transfer_id_to_request_id


def prefill_side(prompt_tokens: int, **options: Any) -> tuple[Side, Clock]:
    """A prefill engine with request r, of which each step computes 32 tokens at most."""
    clock = Clock()
    side = Side("kv_producer", **options)
    side.worker._writer.ensure_worker_started = lambda: None  # decode never allocates, so there is nothing to write
    side.worker.save_kv_layer = lambda *_: None
    side.add("r", prompt_tokens, max_tokens=1, **for_decode(Listener().port, 1))
    return side, clock


def end(side: Side) -> dict[str, Any]:
    return {
        "used": side.used_blocks(),
        "requests": list(side.scheduler.requests),
        "parked": list(side.ids._pending_sent_acks),
        "held": list(side.ids._deferred_send_deadlines),
    }


def observe_released_during_a_long_prefill() -> Any:
    side, clock = prefill_side(160)
    side.step()
    side.receive(type="release", transfer_id="tx")
    spoke = side.steps(1)
    clock.now += TIMEOUT + 1
    spoke += side.steps(2)
    computing = side.used_blocks()
    spoke += side.steps(5)
    clock.now += 7200
    spoke += side.steps(2)
    return [said for said in spoke if said], computing, end(side), side.ids.transfer_id_to_request_id


def observe_ranks_are_released_one_after_the_other() -> Any:
    side, clock = prefill_side(192, ranks=2)
    side.step()
    for rank in range(2):
        side.receive(rank=rank, type="release", transfer_id="tx")
        side.step()
        clock.now += TIMEOUT + 1
    side.step()
    computing = side.used_blocks()
    side.steps(5)
    return computing, end(side)


def observe_aborted_after_the_release() -> Any:
    side, _ = prefill_side(96)
    side.step()
    side.receive(type="release", transfer_id="tx")
    side.step()
    parked = list(side.ids._pending_sent_acks)
    side.abort("r")
    return parked, end(side)


def observe_ends_without_hand_off() -> Any:
    """What is parked for a request goes with it, however it ends; another's stays."""
    seen = {}
    for name, ending in {
        "aborted": {"status": RequestStatus.FINISHED_ABORTED},
        "stopped": {"status": RequestStatus.FINISHED_STOPPED},
        "not asked to": {"do_remote_decode": False},
    }.items():
        made = Bare()
        for request in ("r", "other"):
            made.scheduler.map_request_id(request, f"tx-{request}")
        made.step("r", "other")
        held = made.finish("r", **ending)
        seen[name] = held, made.left()
    made = Bare(_clamp_to_prompt_blocks=lambda request, blocks: [[], []])
    made.scheduler.map_request_id("r", "tx-r")
    made.step("r")
    seen["no blocks"] = made.finish("r"), made.left()
    return seen


def observe_nothing_leaks() -> Any:
    """A hundred requests are released early; half of them end by an abort."""
    made = Bare()
    freed = []
    for number in range(100):
        name = f"r{number}"
        made.scheduler.map_request_id(name, f"tx-{name}")
        made.step(name)
        made.clock.now += TIMEOUT + 1
        freed += made.step()
        made.finish(name, RequestStatus.FINISHED_ABORTED if number % 2 else RequestStatus.FINISHED_LENGTH_CAPPED)
        freed += made.step()
    made.clock.now += TIMEOUT + 1
    freed += made.step()
    return len(freed), made.left()


def observe_released_shortly_before() -> Any:
    side, _ = prefill_side(96)
    side.step()
    side.receive(type="release", transfer_id="tx")
    spoke = side.steps(5)
    return [said for said in spoke if said], end(side)


def observe_released_afterwards() -> Any:
    side, clock = prefill_side(40)
    side.steps(2)
    clock.now += 2 * TIMEOUT
    side.steps(2)
    held = side.used_blocks()
    side.receive(type="release", transfer_id="tx")
    side.steps(2)
    return held, end(side)


def observe_late_and_foreign_acknowledgements_expire() -> Any:
    """One comes after its request was aborted, one is for a request that nobody knows."""
    made = Bare()
    made.scheduler.map_request_id("r", "tx-r")
    made.finish("r", RequestStatus.FINISHED_ABORTED)
    made.step("r", "unknown")
    parked = sorted(made.left()["parked"])
    freed = made.steps(int(TIMEOUT) - 1)
    still = sorted(made.left()["parked"])
    return parked, freed, still, made.steps(1), made.left()


def observe_read_mode() -> Any:
    """A send whose acknowledgement never comes is reaped, and one that comes after that expires."""
    made = Bare(READ, _has_mamba=False, _is_hma_required=False, kv_cache_config=SimpleNamespace(kv_cache_groups=[]))
    made.scheduler.map_request_id("r", "tx-r")
    held = made.finish("r")
    reaped = made.steps(int(TIMEOUT))
    made.step("r")
    parked = made.left()
    made.steps(int(TIMEOUT))
    return held, reaped, parked, made.left()
