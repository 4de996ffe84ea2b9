"""Fix 3: a message that cannot be handled is logged, and the two listeners of MoRIIO go on."""

import contextlib
import threading
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import msgpack
import zmq
from scenarios.moriio_support import Errors, Side, bare, free_port, kv_caches, send, wait_until
from vllm.distributed.kv_transfer.kv_connector.v1.moriio import moriio_common, moriio_connector, moriio_engine

IMAGES = ("nightly-c50aca",)

HUGE = b"\xff" * 100_000
BAD: dict[str, tuple[bytes, ...]] = {
    "unknown type": (msgpack.dumps({"type": "write_progress", "transfer_id": "early"}),),
    "no transfer id": (msgpack.dumps({"type": "write_done"}),),
    "for the other role": (msgpack.dumps({"type": "release", "transfer_id": "tx"}),),
    "of no use as a key": (msgpack.dumps({"type": "write_done", "transfer_id": ["tx"]}),),
    "not text": (b"\xff\xfe",),
    "empty": (b"",),
    "two frames": (b"tx", b"more"),
    "huge": (HUGE,),
    "a huge type": (msgpack.dumps({"type": "x" * 100_000}),),
    "many frames": (b"a",) * 50,
}
GET_META, POP_DONE = moriio_common.MoRIIOConstants.GET_META_MSG, moriio_common.MoRIIOConstants.POP_DONE_RECV


def ends(thread: threading.Thread) -> bool:
    thread.join(10)
    return not thread.is_alive()


def observe_report() -> Any:
    moriio_common.set_role(moriio_common.ROLE.CONSUMER)
    wrapper = moriio_engine.MoRIIOWrapper()
    wrapper.notify_port = free_port()
    wrapper.async_wait_reqid()
    log = Errors()
    peer = send(wrapper.notify_port, msgpack.dumps({"type": "write_done", "transfer_id": "first"}))
    first = sorted(wait_until(wrapper.pop_finished_write_req_ids, "the first"))
    peer.send(msgpack.dumps({"type": "write_progress", "transfer_id": "odd"}))
    wait_until(lambda: log.lines, "an error in the log")
    peer.send(msgpack.dumps({"type": "write_done", "transfer_id": "last"}))
    wait_until(lambda: wrapper.done_write_cache_req_ids or not wrapper.notify_thread.is_alive(), "the last, or the end")
    return first, sorted(wrapper.pop_finished_write_req_ids()), wrapper.notify_thread.is_alive()


def consumer() -> Side:
    side = Side("kv_consumer")
    side.connectors[0].register_kv_caches(kv_caches())
    return side


def after_each(side: Side, port: int) -> dict[str, Any]:
    """What each bad message leads to, followed by a good one to the same notify listener."""
    wrapper = side.worker.moriio_wrapper
    seen = {}
    for name, frames in BAD.items():
        log = Errors()
        send(port, *frames)
        wait_until(lambda log=log: log.lines or not wrapper.notify_thread.is_alive(), f"a reaction to {name}")
        send(port, msgpack.dumps({"type": "write_done", "transfer_id": name}))
        # the listener logs before it dies: only what becomes of the good message tells
        got = wait_until(
            lambda: wrapper.pop_finished_write_req_ids() or (not wrapper.notify_thread.is_alive() and "dead"),
            f"the good one after {name}",
        )
        if got == "dead":
            seen[name] = "the listener is dead"
            break
        seen[name] = sorted(got) == [name], len(log.lines), max(map(len, log.lines)) < 2500
    return seen


def observe_notify_listener() -> Any:
    side = consumer()
    return after_each(side, side.worker.moriio_wrapper.notify_port)


def observe_notify_listener_says_what() -> Any:
    """The line in the log holds the message."""
    side = consumer()
    log = Errors()
    send(side.worker.moriio_wrapper.notify_port, *BAD["unknown type"])
    line = wait_until(lambda: log.lines, "an error in the log")[0]
    return [part in line for part in ("early", "write_progress", "Unhandled structured message type")]


def observe_every_message_of_the_wrong_kind_at_once() -> Any:
    """A thousand of them do not hold up the one that counts."""
    side = consumer()
    wrapper = side.worker.moriio_wrapper
    peer = send(wrapper.notify_port, *BAD["unknown type"])
    for _ in range(999):
        peer.send_multipart(BAD["unknown type"])
    peer.send(msgpack.dumps({"type": "write_failed", "transfer_id": "tx"}))
    wait_until(lambda: wrapper.failed_write_cache_req_ids or not wrapper.notify_thread.is_alive(), "an end")
    return sorted(wrapper.pop_failed_write_req_ids()), wrapper.notify_thread.is_alive()


def handshake(port: int, thread: threading.Thread) -> Any:
    """What a peer learns in a handshake: the layers whose memory it may write to."""
    peer = send(port, GET_META)
    answered = wait_until(lambda: peer.poll(10) or (not thread.is_alive() and "nobody"), "an answer")
    if answered == "nobody":
        return "nobody answers"
    peer.recv_multipart()
    return sorted(msgpack.loads(peer.recv_multipart()[1]))


def observe_handshake_listener() -> Any:
    side = consumer()
    thread, port = side.worker._moriio_handshake_listener_t, side.worker.side_channel_port
    first = handshake(port, thread)
    seen = {}
    for name, frames in {
        "unknown": (b"get_metadata",),
        "two frames": (GET_META, b"more"),
        "huge": (HUGE,),
        "empty": (b"",),
    }.items():
        log = Errors()
        send(port, *frames)
        wait_until(lambda log=log: log.lines or not thread.is_alive(), f"a reaction to {name}")
        content = [line for line in log.lines if repr(frames[-1][:8])[2:-1] in line and len(line) < 2500]
        seen[name] = handshake(port, thread), len(content)
        if not thread.is_alive():
            break
    return first, seen, thread.is_alive()


def observe_handshake_listener_and_a_bad_second_part() -> Any:
    side = consumer()
    thread, port = side.worker._moriio_handshake_listener_t, side.worker.side_channel_port
    log = Errors()
    peer = send(port, POP_DONE)
    peer.send(b"\xff\xfe")
    wait_until(lambda: log.lines or not thread.is_alive(), "a reaction")
    return handshake(port, thread), thread.is_alive()


class Broken:
    """A socket that answers what it has, and then breaks."""

    def __init__(self, error: Exception, *messages: list[bytes]) -> None:
        self.error, self.messages, self.sends_break = error, list(messages), False

    def recv_multipart(self) -> list[bytes]:
        if self.messages:
            return self.messages.pop(0)
        raise self.error

    def send_multipart(self, frames: Any) -> None:
        if self.sends_break:
            raise self.error


def with_socket(module: Any, broken: Broken) -> None:
    @contextlib.contextmanager
    def give(kind: Any, path: str) -> Iterator[Broken]:
        yield broken

    module.zmq_ctx = give


def listen_for_handshakes(broken: Broken) -> threading.Thread:
    with_socket(moriio_connector, broken)
    metadata = SimpleNamespace(engine_id="e")
    moriio_connector.msgspec = SimpleNamespace(
        msgpack=SimpleNamespace(Encoder=lambda: SimpleNamespace(encode=lambda m: b"m"))
    )
    listener = moriio_connector.MoRIIOConnectorWorker._moriio_handshake_listener
    thread = threading.Thread(target=listener, args=(metadata, threading.Event(), 1, 0, 0, {}), daemon=True)
    thread.start()
    return thread


def observe_ends_with_its_socket() -> Any:
    moriio_common.set_role(moriio_common.ROLE.CONSUMER)
    ended = {}
    for name, error in {"context": zmq.ContextTerminated(), "socket": zmq.ZMQError(zmq.ENOTSOCK)}.items():
        wrapper = bare(moriio_engine.MoRIIOWrapper, notify_port=1, notify_thread=None)
        with_socket(moriio_engine, Broken(error))
        wrapper.async_wait_reqid()
        sending = Broken(error, [b"id", GET_META], [b"id", GET_META])
        sending.sends_break = True
        ended[name] = [
            ends(wrapper.notify_thread),
            ends(listen_for_handshakes(Broken(error, [b"id", GET_META]))),
            ends(listen_for_handshakes(sending)),
        ]
    return ended


def observe_good_messages() -> Any:
    side = consumer()
    wrapper = side.worker.moriio_wrapper
    log = Errors()
    peer = send(wrapper.notify_port, msgpack.dumps({"type": "write_done", "transfer_id": "structured"}))
    peer.send(b"plain text")
    peer.send(msgpack.dumps({"type": "write_failed", "transfer_id": "failed"}))
    failed = wait_until(wrapper.pop_failed_write_req_ids, "the last")
    done = wrapper.pop_finished_write_req_ids()
    thread, port = side.worker._moriio_handshake_listener_t, side.worker.side_channel_port
    return sorted(done), sorted(failed), [handshake(port, thread) for _ in range(2)], log.lines
