"""A real HTTPS server on loopback with a certificate made here, and a step that fetches a file from it."""

from __future__ import annotations

import hashlib
import ssl
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

from tests.certificates import make_certificate

if TYPE_CHECKING:
    from pathlib import Path

    from .conftest import Workbench

KERNEL = bytes(range(256)) * 2000
DIGEST = hashlib.sha256(KERNEL).hexdigest()


class Secure:
    """`files` by path, with `tag` as their ETag (None: no validator), `asked` as (Range, If-Range).

    The first answer to each path in `broken` ends early, after which nothing is there where it is in `once`;
    one in `stalls` sends so many bytes and then none any more; one in `redirects` leads elsewhere.
    """

    def __init__(self, folder: Path) -> None:
        self.files: dict[str, bytes] = {}
        self.broken: dict[str, int] = {}
        self.once: set[str] = set()
        self.stalls: dict[str, int] = {}
        self.redirects: dict[str, str] = {}
        self.tag: str | None = '"one"'
        self.asked: list[tuple[str | None, str | None]] = []
        self.closing = threading.Event()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                outer.asked.append((self.headers.get("Range"), self.headers.get("If-Range")))
                outer.answer(self)

            def log_message(self, *_: object) -> None:
                pass

        self.certificate = folder / "localhost.pem"
        self.certificate.write_bytes(make_certificate())
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.certificate)
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.handle_error = lambda *_: None  # type: ignore[method-assign]
        self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
        self.url = f"https://localhost:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()

    @property
    def ranges(self) -> list[str | None]:
        return [asked for asked, _ in self.asked]

    def answer(self, to: BaseHTTPRequestHandler) -> None:
        body, start = self.files.get(to.path), 0
        if body is not None and to.path in self.once and to.path not in self.broken:
            self.once.remove(to.path)
            body = None
        elif body is not None and to.headers.get("If-Range") in (None, self.tag):
            start = int((to.headers.get("Range") or "bytes=0-").removeprefix("bytes=").removesuffix("-"))
        status = 302 if to.path in self.redirects else 404 if body is None else 206 if start else 200
        body = body or b""
        if start and start >= len(body):
            status, body, start = 416, b"", 0
        to.send_response(status)
        to.send_header("Content-Length", str(len(body) - start))
        if status == 302:
            to.send_header("Location", self.redirects[to.path])
        to.send_header("Accept-Ranges", "bytes")
        if self.tag is not None:
            to.send_header("ETag", self.tag)
        if status == 206:
            to.send_header("Content-Range", f"bytes {start}-{len(body) - 1}/{len(body)}")
        to.end_headers()
        until = self.broken.pop(to.path, len(body))
        to.wfile.write(body[start : min(until, self.stalls.get(to.path, until))])
        if to.path in self.stalls:
            self.closing.wait(60)

    def close(self) -> None:
        self.closing.set()
        self.server.shutdown()
        self.server.server_close()


def kernel(secure: Secure, **more: Any) -> dict[str, Any]:
    file = {"path": "demo/hsa/x.co", "url": f"{secure.url}/x.co", "sha256": DIGEST, "mode": "0755", **more}
    return {"id": "kernel", "file": file, "reason": "a test"}


def where(bench: Workbench) -> tuple[str, ...]:
    return ("--image", "demo", "--root", str(bench.root))
