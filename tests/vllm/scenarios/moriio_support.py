"""What the four MoRIIO scenarios share: the engines of both sides, made by their constructors, on one CPU.

Two things are stood in for, both at the edge of vLLM: the package `mori` (`FakeMori`, which copies nothing and lets a
test decide how a session or a transfer ends) and the CUDA event of a write. Sockets, threads, messages, the scheduler
with its block pool, the connector and the distributed groups are real. Each `observe_*` runs in a process of its own, so
nothing that is set here is put back.
"""

import contextlib
import enum
import logging
import pickle
import random
import socket
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgpack
import torch
import zmq
from vllm.config import (
    CacheConfig,
    DeviceConfig,
    KVTransferConfig,
    ModelConfig,
    SchedulerConfig,
    VllmConfig,
    set_current_vllm_config,
)
from vllm.distributed.kv_transfer.kv_connector.utils import KVOutputAggregator
from vllm.distributed.kv_transfer.kv_connector.v1.base import KVConnectorRole
from vllm.distributed.kv_transfer.kv_connector.v1.moriio import moriio_common, moriio_connector, moriio_engine
from vllm.distributed.parallel_state import ensure_model_parallel_initialized, init_distributed_environment
from vllm.sampling_params import SamplingParams
from vllm.utils.hashing import sha256
from vllm.v1.core.kv_cache_utils import get_request_block_hasher, init_none_hash
from vllm.v1.core.sched.scheduler import Scheduler
from vllm.v1.kv_cache_interface import FullAttentionSpec, KVCacheConfig, KVCacheGroupSpec, KVCacheTensor
from vllm.v1.outputs import KVConnectorOutput, ModelRunnerOutput
from vllm.v1.request import Request, RequestStatus
from vllm.v1.structured_output import StructuredOutputManager

HOST = "127.0.0.1"
LAYERS = ["layer0", "layer1"]
BLOCK_TOKENS, BLOCKS = 16, 16
DEADLINE_SECONDS = 45.0


def bare(kind: type, **attributes: Any) -> Any:
    """An object without its constructor, as the reports of the defects make them."""
    made = kind.__new__(kind)
    made.__dict__.update(attributes)
    return made


def wait_until(condition: Callable[[], Any], what: str) -> Any:
    deadline = time.monotonic() + DEADLINE_SECONDS
    while not (found := condition()):
        if time.monotonic() > deadline:
            raise TimeoutError(f"{what} within {DEADLINE_SECONDS:.0f} s")
        time.sleep(0.005)
    return found


def free_port() -> int:
    """A port below those that the system gives to any connection, so that none takes it before its listener does."""
    while True:
        port = random.SystemRandom().randrange(20000, 32000)
        with contextlib.suppress(OSError), socket.socket() as probe:
            probe.bind((HOST, port))
            return port


class Errors(logging.Handler):
    """The error lines that MoRIIO modules log."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.lines: list[str] = []
        for module in (moriio_connector, moriio_engine):
            logging.getLogger(module.__name__).addHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())


class Listener:
    """The notify socket of a decode rank, of which only the messages count."""

    def __init__(self) -> None:
        self.port = free_port()
        self.socket = zmq.Context.instance().socket(zmq.ROUTER)
        self.socket.bind(f"tcp://{HOST}:{self.port}")
        self.raw: list[bytes] = []

    def messages(self, at_least: int = 0) -> list[dict[str, Any]]:
        """What has come, after `at_least` have; a message sent by the same thread before another comes before it."""
        wait_until(lambda: self.receive() or len(self.raw) >= at_least, f"{at_least} messages, got {self.raw}")
        return [msgpack.loads(message) for message in self.raw]

    def receive(self) -> None:
        with contextlib.suppress(zmq.Again):
            while True:
                self.raw.append(self.socket.recv_multipart(zmq.NOBLOCK)[1])


def send(port: int, *frames: bytes) -> Any:
    """Send one message to a listener of vLLM, from a peer of its own, which is returned."""
    peer = zmq.Context.instance().socket(zmq.DEALER)
    peer.connect(f"tcp://{HOST}:{port}")
    peer.send_multipart(frames)
    return peer


class Packed:
    """A descriptor of mori: only its way through pack and unpack matters."""

    def __init__(self, key: str) -> None:
        self.key = key

    def pack(self) -> bytes:
        return self.key.encode()

    @classmethod
    def unpack(cls, packed: bytes) -> "Packed":
        return cls(packed.decode())


class Status:
    """A transfer that is in flight until `state` says otherwise."""

    def __init__(self, state: str) -> None:
        self.state = state

    def Succeeded(self) -> bool:  # noqa: N802 - mori's name
        return self.state == "done"

    def Failed(self) -> bool:  # noqa: N802
        return self.state == "failed"

    def Message(self) -> str:  # noqa: N802
        return "remote access error"

    def Code(self) -> int:  # noqa: N802
        return 12


class FakeMori:
    """`mori.io` for the two modules that import it; `sessions` and `transfers` decide how the next ones end."""

    def __init__(self) -> None:
        self.sessions = True
        self.transfers = "done"
        self.posted: list[Status] = []
        kinds = enum.Enum("BackendType", ["XGMI", "RDMA"])  # type: ignore[misc]
        names = {
            "BackendType": kinds,
            "EngineDesc": Packed,
            "MemoryDesc": Packed,
            "PollCqMode": SimpleNamespace(POLLING=0),
            "RdmaBackendConfig": lambda *sizes, **options: sizes,
            "XgmiBackendConfig": lambda: None,
            "IOEngine": lambda name, config: self,
            "IOEngineConfig": lambda ip, port: (ip, port),
        }
        for module in (moriio_engine, moriio_connector):
            vars(module).update(names)
        moriio_engine.StatusCode = None
        moriio_connector.MoRIIO_enabled = True

    def create_backend(self, kind: Any, options: Any) -> None:
        pass

    def get_engine_desc(self) -> Packed:
        return Packed("engine")

    def register_remote_engine(self, engine: Packed) -> None:
        pass

    def register_torch_tensor(self, tensor: torch.Tensor) -> Packed:
        return Packed(f"memory of {tensor.nbytes} bytes")

    def create_session(self, local: Packed, remote: Packed) -> "FakeMori | None":
        return self if self.sessions else None

    def allocate_transfer_uid(self) -> int:
        return len(self.posted)

    def batch_write(self, local: Any, remote: Any, sizes: Any, uid: int) -> Status:
        self.posted.append(Status(self.transfers))
        return self.posted[-1]


def no_cuda() -> None:
    event = SimpleNamespace(record=lambda stream: None, synchronize=lambda: None)
    torch.cuda.Event = lambda: event  # type: ignore[misc,assignment]
    torch.cuda.current_stream = lambda: None  # type: ignore[assignment]


def vllm_config(role: str, **extra: Any) -> VllmConfig:
    model = ModelConfig(model=str(Path(sys.prefix) / "tiny-llama"), dtype="float16")
    cache = CacheConfig(block_size=BLOCK_TOKENS, enable_prefix_caching=True)
    cache.kv_cache_layout = "LBNHC"  # what the engine resolves before it makes a connector
    config = VllmConfig(
        model_config=model,
        cache_config=cache,
        scheduler_config=SchedulerConfig(
            max_num_seqs=8,
            max_num_batched_tokens=32,
            max_model_len=512,
            enable_chunked_prefill=True,
            is_encoder_decoder=False,
            async_scheduling=False,
        ),
        device_config=DeviceConfig("cpu"),
        kv_transfer_config=KVTransferConfig(
            kv_connector="MoRIIOConnector",
            kv_role=role,
            kv_load_failure_policy="fail",
            kv_connector_extra_config={
                "host_ip": HOST,
                "http_port": free_port(),
                "handshake_port": free_port(),
                "notify_port": free_port(),
                "proxy_ip": "",
                "transfer_timeout": 5.0,
                **extra,
            },
        ),
    )
    config.cache_config.num_gpu_blocks = BLOCKS
    return config


def kv_cache_config() -> KVCacheConfig:
    spec = FullAttentionSpec(block_size=BLOCK_TOKENS, num_kv_heads=2, head_size=32, dtype=torch.float16)
    page = spec.page_size_bytes
    return KVCacheConfig(
        num_blocks=BLOCKS,
        kv_cache_tensors=[
            KVCacheTensor(
                size=len(LAYERS) * BLOCKS * page, layers=LAYERS, layer_stride=BLOCKS * page, block_stride=page
            )
        ],
        kv_cache_groups=[KVCacheGroupSpec(layer_names=LAYERS, kv_cache_spec=spec)],
    )


def kv_caches() -> dict[str, torch.Tensor]:
    return {layer: torch.zeros(2, BLOCKS, BLOCK_TOKENS, 2, 32, dtype=torch.float16) for layer in LAYERS}


class Side:
    """One engine of a pair: the scheduler and its connector, and a connector for each rank, as vLLM constructs them."""

    def __init__(self, role: str, ranks: int = 1, **extra: Any) -> None:
        self.mori = FakeMori()
        no_cuda()
        self.config = vllm_config(role, **extra)
        with set_current_vllm_config(self.config):
            if not torch.distributed.is_initialized():
                init_distributed_environment(1, 0, f"tcp://{HOST}:{free_port()}", 0, backend="gloo")
                ensure_model_parallel_initialized(1, 1)
            self.scheduler = Scheduler(
                vllm_config=self.config,
                kv_cache_config=kv_cache_config(),
                structured_output_manager=StructuredOutputManager(self.config),
                block_size=BLOCK_TOKENS,
                hash_block_size=BLOCK_TOKENS,
                log_stats=False,
            )
            self.connectors = [
                moriio_connector.MoRIIOConnector(self.config, KVConnectorRole.WORKER, kv_cache_config())
                for _ in range(ranks)
            ]
        assert self.scheduler.connector is not None
        self.ids: Any = self.scheduler.connector.connector_scheduler
        self.workers: list[Any] = [connector.connector_worker for connector in self.connectors]
        for worker in self.workers[1:]:  # one process holds them all, so their listeners must not share a port
            worker.moriio_wrapper.notify_port = free_port()
        self.worker = self.workers[0]
        self.aggregator = KVOutputAggregator(ranks)
        self.extra = self.config.kv_transfer_config.kv_connector_extra_config
        init_none_hash(sha256)

    def add(self, name: str, prompt_tokens: int, max_tokens: int = 4, **params: Any) -> Request:
        sampling = SamplingParams(max_tokens=max_tokens, ignore_eos=True)
        sampling.update_from_generation_config({}, 2)
        request = Request(
            request_id=name,
            prompt_token_ids=list(range(3, 3 + prompt_tokens)),
            sampling_params=sampling,
            pooling_params=None,
            block_hasher=get_request_block_hasher(BLOCK_TOKENS, sha256),
        )
        request.kv_transfer_params = params or None
        self.scheduler.add_request(request)
        return request

    def step(self) -> dict[str, str]:
        """One step of the engine: schedule, run the worker's connector as a model runner does, update.

        The answer is what the step told clients: request -> "token" or the reason of its end."""
        scheduled = self.scheduler.schedule()
        requests = [self.scheduler.requests[name] for name in scheduled.num_scheduled_tokens]
        ranks = [self.run_rank(connector, scheduled, requests) for connector in self.connectors]
        outputs = self.scheduler.update_from_output(scheduled, self.aggregator.aggregate(ranks))
        return {
            output.request_id: str(output.finish_reason or "token")
            for batch in outputs.values()
            for output in batch.outputs
        }

    def run_rank(self, connector: Any, scheduled: Any, requests: list[Request]) -> ModelRunnerOutput:
        connector.bind_connector_metadata(pickle.loads(pickle.dumps(scheduled.kv_connector_metadata)))
        connector.start_load_kv(None)
        connector.wait_for_save()
        results = connector.get_transfer_results(scheduled.finished_req_ids)
        connector.clear_connector_metadata()
        return ModelRunnerOutput(
            req_ids=[request.request_id for request in requests],
            req_id_to_index={request.request_id: index for index, request in enumerate(requests)},
            sampled_token_ids=[
                [7] if request.num_computed_tokens >= request.num_tokens else [] for request in requests
            ],
            kv_connector_output=KVConnectorOutput(
                finished_sending=results.finished_sending or None,
                finished_recving=results.finished_recving or None,
                failed_recving=results.failed_recving,
            ),
        )

    def steps(self, number: int) -> list[dict[str, str]]:
        return [self.step() for _ in range(number)]

    def used_blocks(self) -> int:
        return (
            BLOCKS - 1 - self.scheduler.kv_cache_manager.block_pool.get_num_free_blocks()
        )  # block 0 is the null block

    def abort(self, name: str) -> None:
        self.scheduler.finish_requests(name, RequestStatus.FINISHED_ABORTED)

    def receive(self, rank: int = 0, **message: Any) -> None:
        """What a rank's listener does with a message of the peer, without the socket."""
        self.workers[rank].moriio_wrapper._handle_message(msgpack.dumps(message))


def from_prefill(notify_port: int, transfer_id: str = "tx", **more: Any) -> dict[str, Any]:
    """The parameters with which a router sends a request to decode: where its prefill is."""
    return {
        "do_remote_prefill": True,
        "do_remote_decode": False,
        "transfer_id": transfer_id,
        "remote_host": HOST,
        "remote_handshake_port": 1,
        "remote_notify_port": notify_port,
        "remote_engine_id": "prefill",
        "remote_block_ids": [],
        **more,
    }


def for_decode(notify_port: int, handshake_port: int, transfer_id: str = "tx", **more: Any) -> dict[str, Any]:
    """The parameters with which a router sends a request to prefill: where its decode is."""
    return {
        "do_remote_prefill": False,
        "do_remote_decode": True,
        "transfer_id": transfer_id,
        "remote_host": HOST,
        "remote_handshake_port": handshake_port,
        "remote_notify_port": notify_port,
        "remote_engine_id": f"{HOST}:{handshake_port}",
        "remote_block_ids": [],
        "remote_tp_size": 1,
        **more,
    }


def role(name: str) -> None:
    moriio_common.set_role(moriio_common.ROLE[name])
