"""Fix 2: prefill tells decode when a write has failed, so that decode ends the request instead of waiting for ever."""

import threading
from types import SimpleNamespace
from typing import Any

from scenarios.moriio_support import (
    HOST,
    LAYERS,
    Errors,
    Listener,
    Side,
    Status,
    for_decode,
    from_prefill,
    kv_caches,
    wait_until,
)
from vllm.distributed.kv_transfer.kv_connector.v1.moriio import moriio_common, moriio_engine
from vllm.distributed.kv_transfer.kv_connector.v1.moriio.moriio_tp_mapping import compute_write_tp_mapping

IMAGES = ("nightly-c50aca",)


class StandIn(SimpleNamespace):
    """The writer's worker, which it only refers to weakly: a plain namespace cannot be."""


def fail(*_: Any) -> Any:
    raise moriio_common.MoRIIOError("MoRI could not open a session")


class Mark:
    """A task of a transfer that has ended: the writer's thread looks whose it is, and drops it."""

    def __init__(self) -> None:
        self.taken = threading.Event()

    @property
    def transfer_id(self) -> str:
        self.taken.set()
        return "mark"


def settle(writer: Any) -> None:
    """Wait until the writer's thread has finished what it was given before, reports included."""
    wrapper, mark = writer.worker.moriio_wrapper, Mark()
    with wrapper.lock:
        wrapper._mark_transfer_terminal_locked("mark")
    writer._write_task_q.put(mark)
    wait_until(mark.taken.is_set, "the writer's thread to get so far")


class Bare:
    """A writer made by its constructor over a worker that is none, as in the defect's report."""

    def __init__(self, session: Any = fail, **worker: Any) -> None:
        self.sent: list[Any] = []
        self.wrapper = moriio_engine.MoRIIOWrapper(transfer_timeout=5.0)
        self.wrapper.send_notify = self.send
        self.worker = StandIn(
            moriio_wrapper=self.wrapper,
            moriio_config=SimpleNamespace(defer_timeout=60.0),
            tp_rank=0,
            _is_mamba_layer=lambda name: False,
            _get_built_session=session,
            get_engine_name_with_dp=lambda name, rank: f"{name}_dp{rank}",
            get_engine_name_with_dp_tp=lambda name, dp_rank, tp_rank: f"{name}_dp{dp_rank}_tp{tp_rank}",
            **worker,
        )
        self.writer = moriio_engine.MoRIIOWriter(self.worker)
        self.acks: list[str] = []

    def send(self, transfer_id: str, ip: str, port: int, message_type: str, message_fields: Any = None) -> None:
        self.sent.append([transfer_id, ip, port, message_type])

    def allocate(self, transfer_id: str = "tx", **more: Any) -> Any:
        allocation = moriio_common.RemoteAllocInfo(block_ids=[[0]], **more)
        self.wrapper.done_remote_allocate_req_dict[transfer_id] = allocation
        return allocation

    def task(self, transfer_id: str = "tx", layer: str = "l", **more: Any) -> Any:
        event = SimpleNamespace(synchronize=lambda: None)
        return moriio_common.WriteTask("r", transfer_id, "d:6301", [[0]], None, layer, event, 61005, "10.0.0.2", **more)

    def freed(self, number: int = 1) -> list[str]:
        """The transfers that the writer has given up or done, once there are so many and its queue is idle."""

        def seen() -> bool:
            self.acks += [ack.transfer_id for ack in self.wrapper.pop_finished_req_ids()]
            return len(self.acks) >= number

        wait_until(seen, f"{number} acknowledgements")
        settle(self.writer)
        seen()
        return self.acks

    def left(self) -> dict[str, Any]:
        """The transfers that the writer still remembers."""
        writer = self.writer
        return {
            "scheduled": [*writer._scheduled_writes, *writer._scheduled_layers],
            "sealed": list(writer._sealed_writes),
            "allocated": list(self.wrapper.done_remote_allocate_req_dict),
        }


def observe_report() -> Any:
    bare = Bare()
    bare.allocate()
    bare.writer.schedule_write(bare.task())
    wait_until(lambda: bare.wrapper.done_req_ids, "an acknowledgement")
    freed = [ack.transfer_id for ack in bare.wrapper.pop_finished_req_ids()]
    settle(bare.writer)
    return freed, bare.sent


def observe_deferred() -> Any:
    """The write waits for decode's allocation, and fails when that has come."""
    bare = Bare()
    bare.writer.schedule_write(bare.task())
    wait_until(lambda: bare.writer._deferred_tasks, "a deferred task")
    bare.allocate(decode_dp_rank=0)
    acks = bare.freed()
    wait_until(lambda: not bare.writer._deferred_tasks, "no deferred task")
    return acks[:1], bare.sent, bare.left()


def observe_many_layers_fail() -> Any:
    bare = Bare()
    bare.allocate()
    for number in range(5):
        bare.writer.schedule_write(bare.task(layer=f"l{number}"))
    acks = bare.freed()
    return acks.count("tx"), bare.sent, bare.left()


def observe_decode_rank_of_another_pod() -> Any:
    bare = Bare()
    bare.allocate(decode_dp_rank=3)
    pods = {"multi_pod_hosts": ["10.0.0.2", "10.0.0.3"], "remote_dp_size_local": 2, "remote_dp_size": 4}
    bare.writer.schedule_write(bare.task(**pods))
    bare.freed()
    return bare.sent


class Posting(Bare):
    """A writer of one prefill rank for two decode ranks; the session to the second does not open."""

    def __init__(self, state: str) -> None:
        self.status = Status(state)
        super().__init__(self.session)
        self.writer._prepare_transfer_plan = self.plan
        self.wrapper.write_remote_data = lambda *plan: self.status
        self.mapping = compute_write_tp_mapping(0, 1, 2, 2, False, False)

    def session(self, engine: str) -> Any:
        return fail() if engine.endswith("_tp1") else ([None], None)

    def plan(self, task: Any, *_: Any, **__: Any) -> Any:
        return moriio_common.LayerTransferPlan(task.request_id, task.transfer_id, task.layer_name, 0, [0], [0], [1])


def observe_every_rank_of_a_fanout() -> Any:
    posting = Posting("done")
    posting.allocate()
    posting.writer.schedule_write(posting.task(tp_mapping=posting.mapping))
    return posting.freed()[:1], posting.sent


def observe_posted_write_settles_first() -> Any:
    """What went to the first rank is still in flight: neither side may reuse a block before it has ended."""
    posting = Posting("in flight")
    waits = threading.Event()
    poll = posting.wrapper._poll_transfers_until_done
    posting.wrapper._poll_transfers_until_done = lambda *a: waits.set() or poll(*a)
    posting.allocate()
    posting.writer.schedule_write(posting.task(tp_mapping=posting.mapping))
    wait_until(lambda: waits.is_set() or posting.wrapper.done_req_ids, "a wait or an acknowledgement")
    early = [ack.transfer_id for ack in posting.wrapper.done_req_ids], list(posting.sent)
    posting.status.state = "done"
    return early, posting.freed()[:1], posting.sent


def observe_send_fails() -> Any:
    """The report cannot be sent either; the next transfer must not suffer from it."""
    bare = Bare()
    log = Errors()

    def send(transfer_id: str, *rest: Any, **more: Any) -> None:
        if transfer_id == "tx":
            raise OSError("no route")
        bare.sent.append([transfer_id, *rest])

    bare.wrapper.send_notify = send
    for transfer in ("tx", "tx2"):
        bare.allocate(transfer)
        bare.writer.schedule_write(bare.task(transfer))
    acks = bare.freed(2)
    alive = "moriio-write-worker" in [thread.name for thread in threading.enumerate()]
    return acks[:2], bare.sent, alive, [line for line in log.lines if "notify" in line], bare.left()


def observe_released_meanwhile() -> Any:
    """Decode gives the transfer up while a write fails: it is acknowledged once, and decode needs no report."""
    moriio_common.set_role(moriio_common.ROLE.PRODUCER)
    bare = Bare()

    def release(engine: str) -> Any:
        if bare.worker._get_built_session is release:
            bare.worker._get_built_session = fail
            bare.wrapper._handle_structured_message({"type": "release", "transfer_id": "tx"})
        return fail()

    bare.worker._get_built_session = release
    bare.allocate()
    bare.writer.schedule_write(bare.task())
    return bare.freed().count("tx"), bare.sent, bare.left()


def seal(writer: Any) -> str | None:
    """What the model's thread gets from it."""
    try:
        writer.seal_pending_transfers()
    except (moriio_common.MoRIIOError, OSError) as error:
        return type(error).__name__
    return None


def observe_sealing() -> Any:
    """Two transfers have written all; the wait for the first fails. The model's thread goes on to the second."""
    bare = Bare()
    bare.writer._execute_write_task = lambda task: None
    statuses = {"tx": "failed", "tx2": "done"}
    for transfer, state in statuses.items():
        allocation = bare.allocate(transfer)
        allocation.completion_request_id = f"r of {transfer}"
        allocation.completion_remote_ip, allocation.completion_notify_port = "10.0.0.2", 61005
        allocation.writes_done, allocation.transfer_statuses = 1, [Status(state)]
        bare.writer.schedule_write(bare.task(transfer))
    raised = seal(bare.writer)
    acks = [ack.transfer_id for ack in bare.wrapper.pop_finished_req_ids()]
    return raised, acks, bare.sent, bare.left()


def observe_sealing_waits_for_the_rest() -> Any:
    """One layer has failed while another is in flight: that one ends before anything is reported."""
    bare = Bare()
    bare.writer._execute_write_task = lambda task: None
    statuses = [Status("failed"), Status("in flight")]
    poll, reported_early = bare.wrapper._poll_transfers_until_done, []

    def patient(waited: list[Status], fail_fast: bool = True) -> None:
        if not fail_fast:
            reported_early.append([list(bare.sent), len(bare.wrapper.done_req_ids), len(waited)])
            statuses[1].state = "done"
        poll(waited, fail_fast)

    bare.wrapper._poll_transfers_until_done = patient
    allocation = bare.allocate()
    allocation.completion_request_id = "r"
    allocation.completion_remote_ip, allocation.completion_notify_port = "10.0.0.2", 61005
    allocation.writes_done, allocation.transfer_statuses = 1, list(statuses)
    bare.writer.schedule_write(bare.task())
    raised = seal(bare.writer)
    return raised, reported_early, bare.sent, [ack.transfer_id for ack in bare.wrapper.pop_finished_req_ids()]


def observe_half_of_the_ranks_told() -> Any:
    """All is written, and one of two ranks has been told so when the other's socket breaks: only that one is told more."""
    bare = Bare()

    def send(transfer_id: str, ip: str, port: int, message_type: str, message_fields: Any = None) -> None:
        if port == 61006 and message_type == "write_done":
            raise OSError("broken")
        bare.sent.append([transfer_id, ip, port, message_type])

    bare.wrapper.send_notify = send
    bare.writer._execute_write_task = lambda task: None
    allocation = bare.allocate()
    allocation.completion_request_id, allocation.completion_targets_resolved = "r", True
    allocation.completion_notify_targets = {("10.0.0.2", 61005): 1, ("10.0.0.2", 61006): 1}
    allocation.writes_done = 1
    bare.writer.schedule_write(bare.task())
    raised = seal(bare.writer)
    return raised, bare.sent


def prefill_side(**options: Any) -> tuple[Side, Listener]:
    """A prefill engine that is about to write the KV of request r, three blocks, and decode's notify socket.

    It serves the handshake itself, so its peer has the same caches."""
    decode = Listener()
    side = Side("kv_producer", **options)
    side.connectors[0].register_kv_caches(kv_caches())
    side.add("r", 40, max_tokens=1, **for_decode(decode.port, int(side.extra["handshake_port"])))
    return side, decode


def allocated(side: Side) -> None:
    side.receive(type="remote_blocks", transfer_id="tx", req_id="r", block_notify_list=[4, 5, 6], decode_rank=0)


def run_until_free(side: Side) -> list[Any]:
    """Step until no block is held, at most for as long as a test waits: what the steps told, and what one raised."""
    told: list[Any] = []

    def stepped() -> bool:
        try:
            told.append(side.step())
        except moriio_common.MoRIIOError as error:
            told.append(type(error).__name__)
            return True
        return not side.scheduler.requests

    wait_until(stepped, f"no request, got {told[:5]}")
    return [step for step in told if step]


def sentinel(side: Side, decode: Listener) -> list[dict[str, Any]]:
    """All that prefill has told decode: its thread is idle, and a word of the test's own follows on its socket."""
    settle(side.worker._writer)
    side.worker.moriio_wrapper.send_notify("end", HOST, decode.port, message_type="end")
    wait_until(lambda: decode.messages()[-1:] == [{"type": "end", "transfer_id": "end"}], "the last message")
    return decode.messages()[:-1]


def observe_engine_session_fails() -> Any:
    side, decode = prefill_side()
    side.mori.sessions = False
    allocated(side)
    told = run_until_free(side)
    writer = side.worker._writer
    return told, sentinel(side, decode), side.used_blocks(), [*writer._scheduled_writes, *writer._sealed_writes]


def observe_engine_late_allocation() -> Any:
    side, decode = prefill_side()
    side.mori.sessions = False
    told = side.steps(2)
    held = side.used_blocks()
    allocated(side)
    run_until_free(side)
    return told, held, sentinel(side, decode), side.used_blocks()


def written(side: Side) -> bool:
    allocation = side.worker.moriio_wrapper.done_remote_allocate_req_dict.get("tx")
    return bool(allocation and allocation.writes_done == len(LAYERS))


def observe_engine_sealing() -> Any:
    """The transfers fail, and the model's thread is the one that finds out, as all was posted before it seals."""
    side, decode = prefill_side()
    side.mori.transfers = "failed"
    writer = side.worker._writer
    seal_all = writer.seal_pending_transfers

    def posted_before() -> None:
        if writer._scheduled_writes and not writer._sealed_writes:
            wait_until(lambda: written(side), "all layers to be posted")
        seal_all()

    writer.seal_pending_transfers = posted_before
    allocated(side)
    return run_until_free(side), sentinel(side, decode)


def observe_engine_transfer_fails() -> Any:
    """The transfers fail, and the writer's thread is the one that finds out, as it posts the last after the sealing."""
    import torch

    side, decode = prefill_side()
    side.mori.transfers = "failed"
    sealed = threading.Event()
    torch.cuda.Event = lambda: SimpleNamespace(record=lambda stream: None, synchronize=lambda: sealed.wait(10))
    seal_all = side.worker._writer.seal_pending_transfers
    side.worker._writer.seal_pending_transfers = lambda: (
        seal_all(),
        side.worker._writer._sealed_writes and sealed.set(),
    )
    allocated(side)
    return run_until_free(side), sentinel(side, decode), side.used_blocks()


def observe_both_engines() -> Any:
    """What prefill tells is what decode acts on: the request ends and its blocks are free, or it waits for ever."""
    side, decode = prefill_side()
    side.mori.sessions = False
    allocated(side)
    run_until_free(side)
    told = sentinel(side, decode)
    other = Side("kv_consumer")
    other.add("d", 40, **from_prefill(Listener().port))
    other.step()
    for message in told:
        other.receive(**message)
    return [step for step in other.steps(20) if step], other.used_blocks(), list(other.scheduler.requests)


def observe_many_writers() -> Any:
    """Two prefill ranks write into one decode rank. However they end, the load ends once and leaves nothing behind."""
    moriio_common.set_role(moriio_common.ROLE.CONSUMER)
    done, failed = {"type": "write_done", "num_writers": 2}, {"type": "write_failed"}
    ends = {}
    for name, messages in {
        "failed, failed": (failed, failed),
        "failed, done": (failed, done),
        "done, failed": (done, failed),
        "done, done": (done, done),
    }.items():
        wrapper = moriio_engine.MoRIIOWrapper()
        reported = []
        for message in messages:
            wrapper._handle_structured_message({**message, "transfer_id": "tx"})
            reported.append([sorted(wrapper.pop_finished_write_req_ids()), sorted(wrapper.pop_failed_write_req_ids())])
        ends[name] = reported, wrapper._write_done_counts
    return ends


def observe_success() -> Any:
    side, decode = prefill_side()
    allocated(side)
    return run_until_free(side), sentinel(side, decode), side.used_blocks(), len(side.mori.posted)


def observe_allocation_timeout() -> Any:
    side, decode = prefill_side(defer_timeout=0.2)
    return run_until_free(side), sentinel(side, decode), side.used_blocks()
