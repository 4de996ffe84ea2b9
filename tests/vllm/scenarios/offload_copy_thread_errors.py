"""Fix 5: a KV offload thread that fails is noticed by the thread that runs the model.

The device is stood in for at its edge: streams, events, and the one batch-copy entry point of the runtime, which here
copies host memory with the runtime's own signature. All of vLLM in between is real: the worker's registration of the
caches, the backends, their threads and queues, the descriptors of a copy.
"""

import contextlib
import ctypes
import os
import queue
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import torch
from vllm.v1.kv_cache_interface import KVCacheConfig, KVCacheTensor
from vllm.v1.simple_kv_offload import copy_backend, cuda_mem_ops, disk_backend, worker
from vllm.v1.simple_kv_offload.metadata import SimpleCPUOffloadMetadata

IMAGES = ("nightly-c50aca",)

BLOCKS, BLOCK_BYTES = 4, 4096
ADDRESS, NUMBER = ctypes.c_void_p, ctypes.c_size_t
ENTRY_POINT = ctypes.CFUNCTYPE(
    ctypes.c_uint, ADDRESS, ADDRESS, ADDRESS, NUMBER, ADDRESS, ADDRESS, NUMBER, ADDRESS, ADDRESS
)


class Stream:
    cuda_stream = 0

    def __init__(self, priority: int = 0) -> None:
        pass

    @staticmethod
    def priority_range() -> tuple[int, int]:
        return 0, 0

    def wait_event(self, event: Any) -> None:
        pass


class Event:
    def record(self, stream: Any) -> None:
        pass

    def query(self) -> bool:
        return True

    def synchronize(self) -> None:
        pass


class Device:
    """The runtime's batch copy: `failing` is the error code it answers, 0 for success."""

    def __init__(self) -> None:
        self.failing = 0
        entry_point = ENTRY_POINT(self.batch_copy)
        cuda_mem_ops._batch_memcpy = entry_point, 1
        cuda_mem_ops.pin_tensor = disk_backend.pin_tensor = lambda tensor: None
        torch.cuda.Stream, torch.Event = Stream, Event
        torch.cuda.current_stream = Stream

    def batch_copy(self, targets: int, origins: int, sizes: int, count: int, *rest: Any) -> int:
        if self.failing:
            return self.failing
        lists = [(ctypes.c_uint64 * count).from_address(address) for address in (targets, origins, sizes)]
        for target, origin, size in zip(*lists, strict=True):
            ctypes.memmove(target, origin, size)
        return 0


class Offload:
    """A worker made by its constructor, with the caches of two layers: block b of layer n holds bytes 10n + b."""

    def __init__(self, backend: str) -> None:
        self.disk_path = os.path.join(tempfile.mkdtemp(), "blocks")
        raw = torch.zeros(2 * BLOCKS * BLOCK_BYTES, dtype=torch.int8)
        self.layers = raw.view(2, BLOCKS, BLOCK_BYTES)
        for layer in range(2):
            for block in range(BLOCKS):
                self.layers[layer, block] = 10 * layer + block
        names = ["layer.0", "layer.1"]
        config = KVCacheConfig(
            num_blocks=BLOCKS,
            kv_cache_tensors=[KVCacheTensor(raw.nbytes, names, BLOCKS * BLOCK_BYTES, BLOCK_BYTES)],
            kv_cache_groups=[],
        )
        self.worker = worker.SimpleCPUOffloadWorker(
            None,
            config,
            cpu_capacity_bytes=raw.nbytes,
            kv_offload_backend=backend,
            disk_path=self.disk_path,
            disk_capacity_bytes=raw.nbytes,
            use_page_cache=True,
        )
        self.worker.register_kv_caches(dict(zip(names, self.layers, strict=True)))
        self.file = f"{self.disk_path}.rank_0"

    @property
    def threads(self) -> list[threading.Thread]:
        """The thread that loads, then the one that stores."""
        backend = self.worker._backend
        if isinstance(backend, disk_backend.DiskBackend):
            return [backend._load_thread, backend._store_thread]
        return [backend._thread, backend._thread]

    def settle(self, metadata: SimpleCPUOffloadMetadata) -> None:
        """Wait until the step's transfers have ended, well or not."""
        if self.worker._backend is None:
            return
        events = (self.worker._load_events, self.worker._store_events)
        deadline = time.monotonic() + 20
        for number, done, thread in zip((metadata.load_event, metadata.store_event), events, self.threads, strict=True):
            while number >= 0 and thread.is_alive() and number not in [index for index, _ in done]:
                assert time.monotonic() < deadline, "the transfer neither ended nor failed"
                time.sleep(0.005)

    def step(self, metadata: SimpleCPUOffloadMetadata) -> dict[str, Any]:
        """What one step of the engine gets to see when it asks after the transfers have ended."""
        seen: dict[str, Any] = {}
        self.worker.bind_connector_metadata(metadata)
        with noted(seen, "launch"):
            self.worker.start_load_kv()
            self.worker.wait_for_save()
        self.settle(metadata)
        with noted(seen, "finished"):
            sending, receiving = self.worker.get_finished(set())
            seen["finished"] = sorted(receiving) if receiving else None
            assert sending is None
        reported = self.worker.build_connector_worker_meta()
        seen["stored"] = sorted(reported.completed_store_events) if reported else []
        return seen

    def bytes(self) -> list[list[int]]:
        return [[int(block[0]) for block in layer] for layer in self.layers]


@contextlib.contextmanager
def noted(seen: dict[str, Any], key: str) -> Iterator[None]:
    try:
        yield
    except (RuntimeError, OSError) as error:
        chain: list[BaseException] = [error]
        while chain[-1].__cause__ is not None:
            chain.append(chain[-1].__cause__)
        seen[key] = [f"{type(link).__name__}: {link}" for link in chain]


def load(event: int) -> SimpleCPUOffloadMetadata:
    # the scheduler names the requests of a load until it is told that the load is done
    requests = {number: [f"r{number}"] for number in range(event + 1)}
    return SimpleCPUOffloadMetadata(event, [3], [0], requests)


def store(event: int) -> SimpleCPUOffloadMetadata:
    return SimpleCPUOffloadMetadata(store_event=event, store_gpu_blocks=[2], store_cpu_blocks=[0])


def alive(offload: Offload) -> list[bool]:
    """Whether the thread that loads and the one that stores are running."""
    return [thread.is_alive() for thread in offload.threads]


def observe_reproduction() -> list[Any]:
    """The loop alone, as the defect was found."""

    def bad(*arguments: Any) -> None:
        raise RuntimeError("batch memcpy failed: err=1")

    copy_backend.current_platform = SimpleNamespace(set_device=lambda device: None)
    copy_backend.copy_blocks = bad
    backend = copy_backend.DmaCopyBackend()
    backend._load_params = 1
    backend._queue = queue.SimpleQueue()
    thread = threading.Thread(target=backend._copy_loop, args=(backend._queue, None, None, None), daemon=True)
    thread.start()
    backend._thread = thread
    offload = Offload.__new__(Offload)
    offload.worker = worker.SimpleCPUOffloadWorker(None, None, 0)
    offload.worker._backend = backend
    return [[offload.step(load(number)), thread.is_alive(), backend._queue.qsize()] for number in range(3)]


def failing_copies(kind: Callable[[int], SimpleCPUOffloadMetadata]) -> dict[str, Any]:
    device = Device()
    offload = Offload("cpu")
    first = offload.step(kind(0))
    device.failing = 719
    steps = [offload.step(kind(number)) for number in (1, 2, 3)]
    return {"first": first, "steps": steps, "alive": alive(offload), "queued": offload.worker._backend._queue.qsize()}


def observe_failing_load() -> dict[str, Any]:
    return failing_copies(load)


def observe_failing_store() -> dict[str, Any]:
    return failing_copies(store)


def observe_failure_without_another_launch() -> dict[str, Any]:
    """A step that launches nothing must tell it too: the engine may have no other work."""
    device = Device()
    offload = Offload("cpu")
    device.failing = 1
    offload.worker.bind_connector_metadata(load(0))
    offload.worker.start_load_kv()
    offload.settle(load(0))
    idle = SimpleCPUOffloadMetadata(load_event_to_reqs={0: ["r0"]})
    return {"step": offload.step(idle), "alive": alive(offload)}


def observe_failing_disk_read() -> dict[str, Any]:
    Device()
    offload = Offload("disk")
    first = [offload.step(store(0)), offload.step(load(0))]
    os.truncate(offload.file, 0)
    steps = [offload.step(load(number)) for number in (1, 2)]
    return {"first": first, "steps": steps, "alive": alive(offload)}


def observe_failing_disk_write() -> dict[str, Any]:
    Device()
    offload = Offload("disk")
    first = offload.step(store(0))
    os.close(offload.worker._backend._fd)
    steps = [offload.step(store(number)) for number in (1, 2)]
    return {"first": first, "steps": steps, "alive": alive(offload)}


def succeeding(backend: str) -> dict[str, Any]:
    Device()
    offload = Offload(backend)
    before = offload.bytes()
    steps = [offload.step(store(0)), offload.step(load(0)), offload.step(store(1)), offload.step(load(1))]
    after = offload.bytes()
    working = alive(offload)
    offload.worker._backend.shutdown()
    closed = {"alive": alive(offload), "finished": offload.worker.get_finished(set())}
    return {"bytes": [before, after], "steps": steps, "alive": working, "after shutdown": closed}


def observe_success() -> dict[str, Any]:
    return succeeding("cpu")


def observe_success_on_disk() -> dict[str, Any]:
    return succeeding("disk")


def observe_other_worker() -> dict[str, Any]:
    """A worker beside one that failed goes on."""
    device = Device()
    failed, other = Offload("cpu"), Offload("cpu")
    device.failing = 1
    failed.worker.bind_connector_metadata(load(0))
    failed.worker.start_load_kv()
    failed.settle(load(0))
    device.failing = 0
    return other.step(load(0))


def observe_no_caches() -> list[Any]:
    """A worker that was given no caches has no backend, and reports nothing."""
    offload = Offload.__new__(Offload)
    offload.worker = worker.SimpleCPUOffloadWorker(None, None, 0)
    offload.worker.register_kv_caches({})
    return [offload.worker._backend, offload.step(SimpleCPUOffloadMetadata())]
