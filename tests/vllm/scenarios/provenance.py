"""The provenance step: what the real API server application answers and logs, with and without a ledger."""

import json
import logging
import sys
import tempfile
from pathlib import Path
from typing import Any

import vllm
from fastapi import FastAPI
from fastapi.testclient import TestClient
from vllm.utils.argparse_utils import FlexibleArgumentParser

try:  # where 0.29.0 and later keep the application
    from vllm.entrypoints.launchers.app import build_app
except ImportError:
    from vllm.entrypoints.openai.api_server import build_app
try:
    from vllm.entrypoints.common.cli_args import make_arg_parser  # 0.33.0
except ImportError:
    try:
        from vllm.entrypoints.launchers.cli_args import make_arg_parser  # 0.29.0
    except ImportError:
        from vllm.entrypoints.openai.cli_args import make_arg_parser  # 0.27.1

IMAGES = ("nightly-c50aca", "nightly-7c5dc571", "nightly-cb8104839c", "v0.27.1")

LOCK = "sha256:" + "0123456789abcdef" * 4
LEDGER: dict[str, Any] = {
    "format": 1,
    "image": "nightly-c50aca",
    "stack": {"version": 3, "lock": LOCK},
    "stand_in": False,
    "steps": [{"id": "kv-leak", "verdict": "applied"}, {"id": "provenance", "verdict": "applied"}],
    "files": {},
}


class Collector(logging.Handler):
    def __init__(self, lines: list[str]) -> None:
        super().__init__()
        self.lines = lines

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(f"{record.levelname} {record.getMessage()}")


class Site:
    """A site directory with a ledger, which the process takes for the one that holds its vllm package."""

    def __init__(self, ledger: bytes | None) -> None:
        self.path = Path(tempfile.mkdtemp())
        if ledger is not None:
            self.ledger.parent.mkdir()
            self.ledger.write_bytes(ledger)
        self.log: list[str] = []
        vllm.__file__ = str(self.path / "vllm" / "__init__.py")
        # the parent process has loaded these with the site that it runs from
        for name in ("patchkit_provenance", "serve.instrumentator.basic", "serve.instrumentator"):
            sys.modules.pop(f"vllm.entrypoints.{name}", None)
        logging.getLogger("vllm").addHandler(Collector(self.log))
        logging.getLogger("vllm").setLevel(logging.INFO)  # as the command line of every release has it

    @property
    def ledger(self) -> Path:
        return self.path / ".patchkit" / "ledger.json"

    def client(self) -> TestClient:
        from vllm.entrypoints.serve.instrumentator import register_instrumentator_api_routers

        app = FastAPI()
        register_instrumentator_api_routers(app)
        return TestClient(app)

    def lines(self) -> list[str]:
        return [line.replace(str(self.path), "SITE") for line in self.log if "patchkit" in line]

    def observe(self) -> dict[str, Any]:
        answer = self.client().get("/version")
        version = json.loads(answer.text.replace(str(self.path), "SITE"))
        return {"status": answer.status_code, "version": version, "log": self.lines()}


def with_ledger(**changes: Any) -> dict[str, Any]:
    return Site(json.dumps({**LEDGER, **changes}).encode()).observe()


def observe_as_applied() -> dict[str, Any]:
    """What the tree's own ledger, written by patchkit, makes the server say."""
    from vllm.entrypoints.serve.instrumentator import register_instrumentator_api_routers

    app = FastAPI()
    register_instrumentator_api_routers(app)
    answer: dict[str, Any] = TestClient(app).get("/version").json()
    return answer


def observe_ledger() -> dict[str, Any]:
    return with_ledger()


def observe_stand_in_of_one_step() -> dict[str, Any]:
    return with_ledger(stand_in=True, steps=LEDGER["steps"][:1])


def observe_whole_application() -> dict[str, Any]:
    """The application as `vllm serve` builds it, with all its routers and middleware."""
    site = Site(json.dumps(LEDGER).encode())
    args = make_arg_parser(FlexibleArgumentParser()).parse_args(["--model", "tiny-llama"])
    app = build_app(args, ("generate",))
    answer = TestClient(app).get("/version")
    return {"status": answer.status_code, "version": answer.json(), "log": site.lines()}


def observe_read_once() -> list[Any]:
    site = Site(json.dumps(LEDGER).encode())
    client = site.client()
    answers = [client.get("/version").json()]
    site.ledger.write_text(json.dumps({**LEDGER, "stack": {"version": 4, "lock": LOCK}}))
    answers.append(client.get("/version").json())
    site.ledger.unlink()
    answers.append(site.client().get("/version").json())
    return answers


def observe_no_ledger() -> dict[str, Any]:
    return Site(None).observe()


def observe_broken_ledgers() -> dict[str, Any]:
    """Each must leave a server that answers."""
    broken = {
        "not JSON": b"{",
        "not UTF-8": b"\xff{}",
        "empty": b"",
        "a list": b"[]",
        "nested too deeply": b"[" * 100_000,
        "format 2": json.dumps({**LEDGER, "format": 2}).encode(),
        "no format": json.dumps({key: LEDGER[key] for key in LEDGER if key != "format"}).encode(),
        "no stack": json.dumps({key: LEDGER[key] for key in LEDGER if key != "stack"}).encode(),
        "version is a text": json.dumps({**LEDGER, "stack": {"version": "3", "lock": LOCK}}).encode(),
        "version is not a number": json.dumps({**LEDGER, "stack": {"version": float("nan"), "lock": LOCK}}).encode(),
        "steps is a text": json.dumps({**LEDGER, "steps": "kv-leak"}).encode(),
        "a step is a text": json.dumps({**LEDGER, "steps": ["kv-leak"]}).encode(),
        "half a surrogate pair": json.dumps({**LEDGER, "image": "\ud800"}).encode(),
    }
    return {name: Site(ledger).observe() for name, ledger in broken.items()}


def observe_ledger_that_cannot_be_opened() -> dict[str, Any]:
    site = Site(b"{}")
    site.ledger.unlink()
    site.ledger.mkdir()
    return site.observe()


def observe_other_endpoints() -> dict[str, Any]:
    client = Site(json.dumps(LEDGER).encode()).client()
    client.app.state.server_load_metrics = 7
    client.app.state.engine_client = None
    return {
        "routes": sorted({route.path for route in client.app.routes if hasattr(route, "path")}),
        "version": client.get("/version").json()["version"],
        "POST /version": client.post("/version").status_code,
        "/metrics": client.get("/metrics").status_code,
        **{path: [(answer := client.get(path)).status_code, answer.text] for path in ("/load", "/health", "/no")},
    }
