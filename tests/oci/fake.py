"""A registry in this process that does what it should, until a test tells it what to do wrong."""

from __future__ import annotations

import hashlib
import itertools
import json
import re
import socket
import struct
import threading
from collections.abc import Callable
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

#: Does one request wrong, given the handler and the registry.
Fault = Callable[["Handler", "Fake"], None]


@dataclass(frozen=True)
class Seen:
    method: str
    path: str
    headers: dict[str, str]
    size: int


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    fake: Fake

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its signature
        pass

    def answer(self, status: int, body: bytes = b"", **headers: str) -> None:
        self.send_response(status)
        names = {name.replace("_", "-"): value for name, value in headers.items()}
        if "Content-Length" not in names and status != 204:
            names["Content-Length"] = str(len(body))
        for name, value in names.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def error(self, status: int, code: str, **headers: str) -> None:
        body = json.dumps({"errors": [{"code": code, "message": code.lower().replace("_", " ")}]}).encode()
        self.answer(status, body, **headers)

    def body(self, most: int | None = None) -> bytes:
        """The request's body, or as much of it as wanted."""
        length = int(self.headers.get("Content-Length", "0"))
        return self.rfile.read(length if most is None else min(most, length))

    def cut(self) -> None:
        """Hang up without another word."""
        self.wfile.flush()
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.connection.close()
        self.close_connection = True

    def handle_any(self) -> None:
        fake = self.fake
        headers = {name.lower(): value for name, value in self.headers.items()}
        with fake.lock:
            seen = Seen(self.command, self.path, headers, int(headers.get("content-length", "0")))
            fake.seen.append(seen)
            fault = fake.next_fault(self.command, self.path)
        if fault is not None:
            fault(self, fake)
        else:
            fake.serve(self)

    do_GET = do_HEAD = do_POST = do_PUT = do_PATCH = do_DELETE = handle_any  # noqa: N815 - its names


class Fake:
    """`blobs` by digest, `manifests` by (repository, tag or digest) with their types; `seen` is what was asked.

    `token`, where it is set, must be in every request. `offset` counts what uploads were told to have.
    """

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.blobs: dict[str, bytes] = {}
        self.manifests: dict[tuple[str, str], tuple[str, bytes]] = {}
        self.uploads: dict[str, bytearray] = {}
        self._keys = threading.Lock()
        self.seen: list[Seen] = []
        self.ranges = True
        self.prefix = ""  # what stands before a Location
        self._faults: list[tuple[str, str, list[Fault | None]]] = []
        handler = type("Bound", (Handler,), {"fake": self})

        class Quiet(ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, request: object, client_address: object) -> None:
                pass

        self._server = Quiet(("127.0.0.1", 0), handler)
        self.host = f"127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def on(self, method: str, pattern: str, *faults: Fault | None) -> None:
        """Do these, one a request, for what matches; None is right for once. Then all is right again."""
        self._faults.append((method, pattern, list(faults)))

    def always(self, method: str, pattern: str, fault: Fault) -> None:
        self.on(method, pattern, *[fault] * 100)

    def next_fault(self, method: str, path: str) -> Fault | None:
        for wanted, pattern, faults in self._faults:
            if wanted == method and faults and re.search(pattern, path):
                return faults.pop(0)
        return None

    def asked(self, method: str, pattern: str = "") -> list[Seen]:
        return [seen for seen in self.seen if seen.method == method and re.search(pattern, seen.path)]

    def put(self, data: bytes) -> str:
        digest = "sha256:" + hashlib.sha256(data).hexdigest()
        self.blobs[digest] = data
        return digest

    # -- what is right

    def serve(self, handler: Handler) -> None:
        parts = urlsplit(handler.path)
        query = {name: values[0] for name, values in parse_qs(parts.query).items()}
        if parts.path == "/v2/":
            handler.answer(200, b"{}")
            return
        match = re.fullmatch(r"/v2/(.+?)/(manifests|blobs/uploads|blobs|referrers)/(.*)", parts.path)
        assert match is not None, handler.path
        name, kind, rest = match.groups()
        if kind == "manifests":
            self.manifest(handler, name, rest)
        elif kind == "blobs":
            self.blob(handler, rest)
        elif kind == "referrers":
            handler.answer(404, b"404 page not found\n")
        elif handler.command == "POST":
            self.begin(handler, name, query)
        else:
            self.upload(handler, name, rest, query)

    def manifest(self, handler: Handler, name: str, ref: str) -> None:
        if handler.command == "PUT":
            raw = handler.body()
            digest = "sha256:" + hashlib.sha256(raw).hexdigest()
            for key in (ref, digest):
                self.manifests[name, key] = handler.headers["Content-Type"], raw
            handler.answer(201, Docker_Content_Digest=digest)
            return
        found = self.manifests.get((name, ref))
        if found is None:
            handler.error(404, "MANIFEST_UNKNOWN")
            return
        digest = "sha256:" + hashlib.sha256(found[1]).hexdigest()
        handler.answer(200, found[1], Content_Type=found[0], Docker_Content_Digest=digest)

    def blob(self, handler: Handler, digest: str) -> None:
        data = self.blobs.get(digest)
        if data is None:
            handler.error(404, "BLOB_UNKNOWN")
            return
        match = re.fullmatch(r"bytes=(\d+)-(\d*)", handler.headers.get("Range", ""))
        if match and self.ranges:
            start, end = int(match[1]), int(match[2] or len(data) - 1) + 1
            handler.answer(206, data[start:end], Content_Range=f"bytes {start}-{end - 1}/{len(data)}")
        else:
            handler.answer(200, data)

    def begin(self, handler: Handler, name: str, query: dict[str, str]) -> None:
        handler.body()
        if query.get("mount") in self.blobs:
            handler.answer(201, Location=f"/v2/{name}/blobs/{query['mount']}")
            return
        with self._keys:  # requests come at once: two of them must not get one session
            key = next(name for name in map("u{}".format, itertools.count()) if name not in self.uploads)
            self.uploads[key] = bytearray()
        handler.answer(202, Location=self.location(name, key), Range="0-0")

    def location(self, name: str, key: str) -> str:
        return f"{self.prefix}/v2/{name}/blobs/uploads/{key}?state={len(self.uploads.get(key, b''))}"

    def upload(self, handler: Handler, name: str, key: str, query: dict[str, str]) -> None:
        held = self.uploads.get(key)
        if held is None:
            handler.body()
            handler.error(404, "BLOB_UPLOAD_UNKNOWN")
            return
        if handler.command == "PATCH":
            begin = int(handler.headers["Content-Range"].partition("-")[0])
            data = handler.body()
            if begin != len(held):
                handler.error(416, "RANGE_INVALID")
                return
            held += data
        if handler.command == "PUT":
            held += handler.body()
            if "sha256:" + hashlib.sha256(held).hexdigest() != query["digest"]:
                handler.error(400, "DIGEST_INVALID")
                return
            self.put(bytes(held))
            del self.uploads[key]
            handler.answer(201, Location=f"/v2/{name}/blobs/{query['digest']}", Docker_Content_Digest=query["digest"])
            return
        if handler.command == "DELETE":
            del self.uploads[key]
            handler.answer(204)
            return
        status = 202 if handler.command == "PATCH" else 204
        handler.answer(status, Location=self.location(name, key), Range=f"0-{max(0, len(held) - 1)}")


# -- what is wrong


def status(code: int, body: bytes = b"", **headers: str) -> Fault:
    def fault(handler: Handler, _: Fake) -> None:
        handler.body()
        handler.answer(code, body, **headers)

    return fault


def error(code: int, name: str, **headers: str) -> Fault:
    def fault(handler: Handler, _: Fake) -> None:
        handler.body()
        handler.error(code, name, **headers)

    return fault


def hang_up(handler: Handler, _: Fake) -> None:
    """Read the request, answer nothing."""
    handler.body()
    handler.cut()


def content(data: bytes, kind: str = "application/octet-stream", **headers: str) -> Fault:
    return lambda handler, _: handler.answer(200, data, Content_Type=kind, **headers)


def cut_after(data: bytes, sent: int, *, code: int = 200, **headers: str) -> Fault:
    """Promise `data`, send `sent` bytes of it."""

    def fault(handler: Handler, _: Fake) -> None:
        handler.answer(code, data[:sent], Content_Length=str(len(data)), **headers)
        handler.wfile.flush()
        handler.connection.shutdown(socket.SHUT_RDWR)
        handler.close_connection = True

    return fault


def half_taken(handler: Handler, fake: Fake) -> None:
    """Take the first half of a chunk, and hang up."""
    key = urlsplit(handler.path).path.rpartition("/")[2]
    fake.uploads[key] += handler.body(int(handler.headers["Content-Length"]) // 2)
    handler.cut()


def done_and_gone(handler: Handler, fake: Fake) -> None:
    """Do what was asked, and hang up before the answer."""
    answer = handler.answer
    handler.answer = lambda *_, **__: None  # type: ignore[method-assign]
    fake.serve(handler)
    handler.answer = answer  # type: ignore[method-assign]
    handler.cut()
