"""Fix 1: decode frees the blocks of a request that is aborted while its KV is on the way."""

from types import SimpleNamespace
from typing import Any

from scenarios.moriio_support import Listener, Side, bare, from_prefill
from vllm.distributed.kv_transfer.kv_connector.v1.moriio import moriio_common, moriio_connector, moriio_engine
from vllm.v1.outputs import KVConnectorOutput
from vllm.v1.request import RequestStatus

IMAGES = ("nightly-c50aca",)

WRITE, READ = moriio_common.MoRIIOMode.WRITE, moriio_common.MoRIIOMode.READ


def bare_scheduler(mode: Any) -> Any:
    return bare(
        moriio_connector.MoRIIOConnectorScheduler,
        is_producer=False,
        mode=mode,
        transfer_id_to_request_id={},
        request_id_to_transfer_id={},
    )


def finish(scheduler: Any, status: RequestStatus) -> list[str]:
    """The transfers that are still mapped once request r has ended so."""
    request = SimpleNamespace(request_id="r", status=status, kv_transfer_params={"transfer_id": "tx"})
    scheduler.request_finished(request, ([1], [2]))
    return list(scheduler.transfer_id_to_request_id)


def decode_side(**options: Any) -> tuple[Side, Listener]:
    """A decode engine that waits for the KV of request r, of three blocks, and the prefill that was told so."""
    prefill = Listener()
    side = Side("kv_consumer", **options)
    side.add("r", 40, **from_prefill(prefill.port))
    side.step()
    return side, prefill


def end(side: Side) -> dict[str, Any]:
    return {
        "used": side.used_blocks(),
        "requests": list(side.scheduler.requests),
        "mapped": {**side.ids.transfer_id_to_request_id, **side.ids.request_id_to_transfer_id},
        "unmatched": [sorted(worker._unmatched_write_completions) for worker in side.workers],
    }


def observe_report() -> Any:
    moriio_common.set_role(moriio_common.ROLE.CONSUMER)
    scheduler = bare_scheduler(WRITE)
    worker = bare(
        moriio_connector.MoRIIOConnectorWorker,
        is_producer=False,
        mode=WRITE,
        moriio_wrapper=moriio_engine.MoRIIOWrapper(),
        _unmatched_write_completions=set(),
    )
    scheduler.map_request_id("r", "tx")
    finish(scheduler, RequestStatus.FINISHED_ABORTED)
    worker.moriio_wrapper._handle_structured_message({"type": "write_done", "transfer_id": "tx"})
    seen = []
    for _ in range(3):
        worker.transfer_id_to_request_id = dict(scheduler.transfer_id_to_request_id)
        received = worker.get_finished()[1]
        seen.append([sorted(received), sorted(worker._unmatched_write_completions)])
        scheduler.update_connector_output(KVConnectorOutput(finished_recving=received))
    return seen, scheduler.transfer_id_to_request_id, scheduler.request_id_to_transfer_id


def observe_aborted_then_done() -> Any:
    side, prefill = decode_side()
    told, held = prefill.messages(1), side.used_blocks()
    side.abort("r")
    side.steps(3)
    waiting = side.used_blocks()
    side.receive(type="write_done", transfer_id="tx")
    side.steps(3)
    return told, held, waiting, end(side)


def observe_aborted_then_failed() -> Any:
    side, _ = decode_side()
    side.abort("r")
    side.step()
    side.receive(type="write_failed", transfer_id="tx")
    side.steps(3)
    return end(side)


def observe_ranks_report_in_different_steps() -> Any:
    side, _ = decode_side(ranks=2)
    side.receive(rank=0, type="write_done", transfer_id="tx")
    side.step()
    side.abort("r")
    side.steps(2)
    between = side.used_blocks()
    side.receive(rank=1, type="write_done", transfer_id="tx")
    side.steps(3)
    return between, end(side)


def observe_every_aborted_request_gives_its_blocks_back() -> Any:
    """Fifteen blocks, three a request: how many of eight can be admitted when each is aborted in turn?"""
    prefill = Listener()
    side = Side("kv_consumer")
    admitted = 0
    for number in range(8):
        side.add(f"r{number}", 40, **from_prefill(prefill.port, f"tx{number}"))
        side.step()
        admitted += f"tx{number}" in side.ids.transfer_id_to_request_id
        side.abort(f"r{number}")
        side.receive(type="write_done", transfer_id=f"tx{number}")
        side.steps(2)
    return admitted, end(side)


def observe_aborted_while_running() -> Any:
    side, _ = decode_side()
    side.receive(type="write_done", transfer_id="tx")
    spoke = side.steps(3)
    side.abort("r")
    at_once = end(side)
    side.steps(2)
    return spoke, at_once, end(side)


def observe_finished_by_itself() -> Any:
    side, _ = decode_side()
    side.receive(type="write_done", transfer_id="tx")
    return side.steps(7), end(side)


def observe_failed_load() -> Any:
    side, _ = decode_side()
    side.receive(type="write_failed", transfer_id="tx")
    return side.steps(3), end(side)


def observe_aborted_before_allocation() -> Any:
    prefill = Listener()
    side = Side("kv_consumer")
    side.add("r", 40, **from_prefill(prefill.port))
    side.abort("r")
    side.step()
    return prefill.messages(1), end(side)


def observe_nothing_to_load() -> Any:
    """A request whose prompt is in decode's own cache: prefill is released, and an abort frees the blocks at once."""
    prefill = Listener()
    side = Side("kv_consumer")
    request = side.add("r", 40, **from_prefill(prefill.port))
    side.ids.update_state_after_alloc(request, side.scheduler.kv_cache_manager.empty_kv_cache_blocks, 0)
    side.abort("r")
    return prefill.messages(1), end(side)


def observe_other_requests_unmap_at_once() -> Any:
    ended = {}
    for name, mode, status in (
        ("stopped", WRITE, RequestStatus.FINISHED_STOPPED),
        ("capped", WRITE, RequestStatus.FINISHED_LENGTH_CAPPED),
        ("read", READ, RequestStatus.FINISHED_ABORTED),
    ):
        scheduler = bare_scheduler(mode)
        scheduler.map_request_id("r", "tx")
        scheduler.map_request_id("other", "tx-other")
        ended[name] = finish(scheduler, status)
    return ended
