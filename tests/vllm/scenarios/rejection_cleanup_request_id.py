"""Fix 6: the cleanup after a rejection is told the id that a served request has.

The requests go through the real routers and serving classes, made by their constructors; the engine client is the
real AsyncLLM's method over a recorded channel; what reached the channel is then finished by the real MoRIIO scheduler,
which counts how many prefill ranks it would tell to release.
"""

import asyncio
import logging
import types
from types import SimpleNamespace
from typing import Any

from fastapi import FastAPI
from fastapi.testclient import TestClient
from vllm.distributed.kv_transfer.kv_connector.v1.moriio import moriio_common, moriio_connector
from vllm.entrypoints.generate.base import serving
from vllm.entrypoints.openai.chat_completion.api_router import attach_router as attach_chat
from vllm.entrypoints.openai.chat_completion.serving import OpenAIServingChat
from vllm.entrypoints.openai.completion.api_router import attach_router as attach_completion
from vllm.entrypoints.openai.completion.protocol import CompletionRequest
from vllm.entrypoints.openai.completion.serving import OpenAIServingCompletion
from vllm.entrypoints.openai.models.protocol import BaseModelPath
from vllm.entrypoints.openai.models.serving import OpenAIServingModels
from vllm.v1.engine.async_llm import AsyncLLM
from vllm.v1.request import Request, RequestStatus

IMAGES = ("nightly-c50aca",)

ADDRESS = "host:10.0.0.1,handshake:6301,notify:61005"
ROUTED = f"___prefill_addr_{ADDRESS}___decode_addr_{ADDRESS}_" + "a" * 32
REMOTE_PREFILL = {"do_remote_prefill": True, "transfer_id": "tx"}
TP_SIZE = 8


def releases(request_id: str, params: dict[str, Any]) -> list[list[Any]]:
    """Whom the decode's MoRIIO scheduler tells to release, when a request of that id ends before it was scheduled."""
    told: list[list[Any]] = []
    scheduler = moriio_connector.MoRIIOConnectorScheduler.__new__(moriio_connector.MoRIIOConnectorScheduler)
    scheduler.__dict__.update(
        is_producer=False,
        mode=moriio_common.MoRIIOMode.WRITE,
        tp_size=TP_SIZE,
        transfer_id_to_request_id={},
        request_id_to_transfer_id={},
        _send_transfer_release=lambda *arguments: told.append(list(arguments)),
    )
    status = RequestStatus.FINISHED_ABORTED
    request = SimpleNamespace(request_id=request_id, status=status, kv_transfer_params=dict(params))
    scheduler.request_finished(request, ([], []))
    return told


class Engine:
    """The engine client: AsyncLLM's own notification over a channel that keeps what is sent."""

    def __init__(self, *, connector: bool = True, broken: bool = False) -> None:
        self.sent: list[Any] = []
        self.broken = broken
        self.errored = False
        self.model_config = SimpleNamespace(
            model="tiny",
            max_model_len=16,
            generation_config="auto",
            hf_config=SimpleNamespace(model_type="llama"),
            get_diff_sampling_param=dict,
        )
        self.vllm_config = SimpleNamespace(kv_transfer_config=SimpleNamespace() if connector else None)
        self.renderer = SimpleNamespace(tokenizer=SimpleNamespace())
        self.input_processor = SimpleNamespace()
        self.engine_core = SimpleNamespace(add_request_async=self.add_request)
        self.notify_kv_transfer_request_rejected = types.MethodType(AsyncLLM.notify_kv_transfer_request_rejected, self)

    async def add_request(self, request: Any) -> None:
        if self.broken:
            raise ConnectionError("no engine")
        self.sent.append(request)

    def told(self) -> list[dict[str, Any]]:
        requests = [Request.from_engine_core_request(sent, None) for sent in self.sent]
        return [
            {
                "id": request.request_id,
                "rank": sent.data_parallel_rank,
                "released": len(releases(request.request_id, request.kv_transfer_params)),
            }
            for sent, request in zip(self.sent, requests, strict=True)
        ]


def completion_serving(engine: Engine) -> OpenAIServingCompletion:
    models = OpenAIServingModels(engine, [BaseModelPath("tiny", "tiny")])
    return OpenAIServingCompletion(engine, models, online_renderer=SimpleNamespace(), request_logger=None)


def chat_serving(engine: Engine) -> OpenAIServingChat:
    models = OpenAIServingModels(engine, [BaseModelPath("tiny", "tiny")])
    return OpenAIServingChat(
        engine,
        models,
        "assistant",
        online_renderer=SimpleNamespace(reasoning_effort_map=None),
        request_logger=None,
        chat_template=None,
        chat_template_content_format="auto",
    )


def post(path: str, body: dict[str, Any], headers: dict[str, str]) -> dict[str, Any]:
    """Answer a request for a model that is not served: it is rejected before it reaches the engine."""
    engine = Engine()
    app = FastAPI()
    app.state.openai_serving_completion = completion_serving(engine)
    app.state.openai_serving_chat = chat_serving(engine)
    app.state.server_load_metrics = 0
    app.state.enable_server_load_tracking = False
    attach_completion(app)
    attach_chat(app)
    base = {"model": "another", "request_id": "0123", "kv_transfer_params": REMOTE_PREFILL}
    answer = TestClient(app).post(path, json={**base, **body}, headers=headers)
    return {"status": answer.status_code, "message": answer.json()["error"]["message"], "told": engine.told()}


def observe_reproduction() -> dict[str, Any]:
    """The method alone, as the defect was found."""
    base = serving.GenerateBaseServing
    ids: list[str] = []

    async def note(request_id: str, params: Any, **options: Any) -> None:
        ids.append(request_id)

    async def reject() -> None:
        raise ValueError("too long")

    me = SimpleNamespace(
        has_kv_connector=True,
        engine_client=SimpleNamespace(notify_kv_transfer_request_rejected=note),
        _get_data_parallel_rank=lambda raw: 0,
        _base_request_id=base._base_request_id,
    )
    request = SimpleNamespace(request_id="0123", kv_transfer_params=REMOTE_PREFILL)
    raw = SimpleNamespace(headers={"X-Request-Id": ROUTED})
    try:
        asyncio.run(base._with_kv_transfer_rejection_cleanup(me, reject(), request, raw))
    except ValueError as error:
        released = [len(releases(key, REMOTE_PREFILL)) for key in (ids[0], ROUTED)]
        return {"error": str(error), "ids": ids, "released": released}
    raise AssertionError("the rejection was swallowed")


def observe_completion_endpoint() -> dict[str, Any]:
    return post("/v1/completions", {"prompt": "a"}, {"X-Request-Id": ROUTED, "X-data-parallel-rank": "3"})


def observe_chat_endpoint() -> dict[str, Any]:
    return post("/v1/chat/completions", {"messages": [{"role": "user", "content": "a"}]}, {"X-Request-Id": ROUTED})


def observe_release_targets() -> list[list[Any]]:
    engine = Engine()
    app = FastAPI()
    app.state.openai_serving_completion = completion_serving(engine)
    attach_completion(app)
    body = {"model": "another", "prompt": "a", "kv_transfer_params": REMOTE_PREFILL}
    TestClient(app).post("/v1/completions", json=body, headers={"X-Request-Id": ROUTED})
    return releases(engine.sent[0].request_id, REMOTE_PREFILL)


def observe_without_header() -> dict[str, Any]:
    """No router: the body's id, which a served request has too."""
    return post("/v1/completions", {"prompt": "a"}, {})


def observe_without_header_addresses_in_parameters() -> dict[str, Any]:
    addressed = {**REMOTE_PREFILL, "remote_host": "10.0.0.1", "remote_notify_port": 61005}
    return post("/v1/completions", {"prompt": "a", "kv_transfer_params": addressed}, {})


def observe_nothing_to_clean_up() -> dict[str, Any]:
    """Requests that hold nothing at a prefill instance."""
    headers = {"X-Request-Id": ROUTED}
    bodies = {
        "no parameters": {"prompt": "a", "kv_transfer_params": None},
        "prefill's own": {"prompt": "a", "kv_transfer_params": {"do_remote_decode": True}},
    }
    return {name: post("/v1/completions", body, headers) for name, body in bodies.items()}


class Warnings(logging.Handler):
    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())


def wrapped(engine: Engine, outcome: Any, raw: Any) -> dict[str, Any]:
    """The cleanup of a real serving object around a coroutine that ends with `outcome`."""

    async def answer() -> Any:
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    request = CompletionRequest(model="tiny", prompt="a", request_id="0123", kv_transfer_params=REMOTE_PREFILL)
    warnings = Warnings()
    logging.getLogger("vllm").addHandler(warnings)
    try:
        result = asyncio.run(completion_serving(engine)._with_kv_transfer_rejection_cleanup(answer(), request, raw))
    except ValueError as error:
        result = f"raised {error}"
    about_cleanup = [line for line in warnings.lines if "KV connector" in line]
    return {"result": str(result), "told": engine.told(), "warnings": about_cleanup}


def observe_other_outcomes() -> dict[str, Any]:
    raw = SimpleNamespace(headers={"X-Request-Id": ROUTED})
    return {
        "success": wrapped(Engine(), "an answer", raw),
        "no connector": wrapped(Engine(connector=False), ValueError("too long"), raw),
        "no http request": wrapped(Engine(), ValueError("too long"), None),
    }


def observe_notification_fails() -> dict[str, Any]:
    """The caller still gets the rejection itself."""
    return wrapped(Engine(broken=True), ValueError("too long"), SimpleNamespace(headers={"X-Request-Id": ROUTED}))
