"""Real servers on loopback, over TLS too, and releases made by the tests."""

from __future__ import annotations

import base64
import gzip
import hashlib
import io
import json
import re
import ssl
import tarfile
import threading
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING

import pytest

from patchkit.sources.cache import Cache
from tests.certificates import make_certificate

if TYPE_CHECKING:
    from pathlib import Path

Answer = Callable[[BaseHTTPRequestHandler], None]


@dataclass(frozen=True)
class Seen:
    path: str
    headers: dict[str, str]
    connection: int


class Loopback:
    """A server of routes; what was asked is in `seen`."""

    def __init__(self, context: ssl.SSLContext | None = None) -> None:
        self.routes: dict[str, Answer] = {}
        self.seen: list[Seen] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                headers = {name.lower(): value for name, value in self.headers.items()}
                outer.seen.append(Seen(self.path, headers, self.client_address[1]))
                outer.routes.get(self.path.partition("?")[0], status(404))(self)

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its signature
                pass

        class Quiet(ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, request: object, client_address: object) -> None:
                pass

        self.server = Quiet(("127.0.0.1", 0), Handler)
        if context is not None:
            self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
        self.scheme = "https" if context else "http"
        self.port = self.server.server_address[1]
        self.thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        self.thread.start()

    def url(self, path: str = "", host: str = "", user: str = "") -> str:
        host = host or ("localhost" if self.scheme == "https" else "127.0.0.1")
        return f"{self.scheme}://{user + '@' if user else ''}{host}:{self.port}{path}"

    def serve(self, path: str, data: bytes, *, ranges: bool = True, kind: str = "application/octet-stream") -> str:
        self.routes[path] = content(data, ranges=ranges, kind=kind)
        return self.url(path)

    def asked(self) -> list[str]:
        return [seen.path for seen in self.seen]

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()


def send(handler: BaseHTTPRequestHandler, code: int, data: bytes = b"", **headers: str) -> None:
    handler.send_response(code)
    handler.send_header("Content-Length", str(len(data)))
    for name, value in headers.items():
        handler.send_header(name.replace("_", "-"), value)
    handler.end_headers()
    handler.wfile.write(data)


def status(code: int, data: bytes = b"", **headers: str) -> Answer:
    return lambda handler: send(handler, code, data, **headers)


def in_turn(*answers: Answer) -> Answer:
    """Give each answer once, the last one for ever."""
    left = list(answers)

    def answer(handler: BaseHTTPRequestHandler) -> None:
        (left.pop(0) if len(left) > 1 else left[0])(handler)

    return answer


def content(data: bytes, *, ranges: bool = True, kind: str = "application/octet-stream") -> Answer:
    def answer(handler: BaseHTTPRequestHandler) -> None:
        match = re.fullmatch(r"bytes=(\d*)-(\d*)", handler.headers.get("Range", ""))
        if not ranges or match is None:
            send(handler, 200, data, Content_Type=kind)
            return
        start = int(match[1]) if match[1] else max(0, len(data) - int(match[2]))
        end = min(int(match[2]) + 1, len(data)) if match[1] and match[2] else len(data)
        send(handler, 206, data[start:end], Content_Range=f"bytes {start}-{end - 1}/{len(data)}")

    return answer


@pytest.fixture
def server() -> Iterator[Loopback]:
    loopback = Loopback()
    yield loopback
    loopback.close()


@pytest.fixture
def other() -> Iterator[Loopback]:
    loopback = Loopback()
    yield loopback
    loopback.close()


@pytest.fixture(scope="session")
def authority(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The file with the certificate of `secure` (and its key)."""
    path = tmp_path_factory.mktemp("tls") / "localhost.pem"
    path.write_bytes(make_certificate())
    return str(path)


@pytest.fixture
def secure(authority: str) -> Iterator[Loopback]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(authority)
    loopback = Loopback(context)
    yield loopback
    loopback.close()


@pytest.fixture(autouse=True)
def own_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """No pip configuration, netrc or certificate of the machine's reaches a test (but the real index's tests)."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg-cache"))
    monkeypatch.delenv("PATCHKIT_CACHE", raising=False)
    if request.node.get_closest_marker("index") is not None:
        return
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    names = ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "SSL_CERT_FILE", "GITHUB_SERVER_URL")
    pip_names = ("PIP_CERT", "PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "PIP_NO_INDEX", "PIP_FIND_LINKS")
    for name in names + pip_names:
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def cache(tmp_path: Path) -> Cache:
    return Cache(str(tmp_path / "cache"))


def make_wheel(
    files: dict[str, bytes],
    *,
    name: str = "demo-1.0",
    record: dict[str, bytes] | None = None,
    executable: tuple[str, ...] = (),
) -> bytes:
    """Return a wheel; `record` overrides what RECORD says of a file's content."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        rows = []
        for path, data in files.items():
            info = zipfile.ZipInfo(path)
            info.external_attr = (0o100755 if path in executable else 0o100644) << 16
            archive.writestr(info, data, zipfile.ZIP_DEFLATED)
            digest = hashlib.sha256((record or {}).get(path, data)).digest()
            rows.append(f"{path},sha256={base64.urlsafe_b64encode(digest).rstrip(b'=').decode()},{len(data)}\n")
        rows.append(f"{name}.dist-info/RECORD,,\n")
        archive.writestr(f"{name}.dist-info/RECORD", "".join(rows))
    return buffer.getvalue()


def make_sdist(files: dict[str, bytes | str], *, name: str = "demo-1.0", modes: dict[str, int] | None = None) -> bytes:
    """Return an sdist; a string is a symbolic link's target."""
    buffer = io.BytesIO()
    with gzip.GzipFile(fileobj=buffer, mode="wb") as packed, tarfile.open(fileobj=packed, mode="w") as archive:
        for path, data in files.items():
            info = tarfile.TarInfo(f"{name}/{path}")
            info.mode = (modes or {}).get(path, 0o664)
            if isinstance(data, str):
                info.type, info.linkname = tarfile.SYMTYPE, data
                archive.addfile(info)
            else:
                info.size = len(data)
                archive.addfile(info, io.BytesIO(data))
    return buffer.getvalue()


@dataclass
class Index:
    """A package index on a loopback server: `add` files, then read `url`."""

    server: Loopback
    project: str = "demo"

    def __post_init__(self) -> None:
        self.files: list[dict[str, object]] = []

    @property
    def url(self) -> str:
        return self.server.url("/simple")

    def add(self, name: str, data: bytes, *, ranges: bool = True, **more: object) -> None:
        self.server.serve(f"/files/{name}", data, ranges=ranges)
        entry = {"filename": name, "url": f"../../files/{name}", "hashes": {"sha256": hashlib.sha256(data).hexdigest()}}
        self.files.append({**entry, "size": len(data), **more})
        page = json.dumps({"meta": {"api-version": "1.1"}, "name": self.project, "files": self.files}).encode()
        self.server.serve(f"/simple/{self.project}/", page, kind="application/vnd.pypi.simple.v1+json")

    def as_html(self) -> None:
        links = []
        for entry in self.files:
            hashes = entry["hashes"]
            assert isinstance(hashes, dict)
            yanked = ' data-yanked="broken"' if entry.get("yanked") else ""
            links.append(f'<a href="{entry["url"]}#sha256={hashes["sha256"]}"{yanked}>{entry["filename"]}</a>')
        page = f"<!DOCTYPE html><html><body>{'<br>'.join(links)}</body></html>".encode()
        self.server.serve(f"/simple/{self.project}/", page, kind="text/html; charset=utf-8")


@pytest.fixture
def index(server: Loopback, monkeypatch: pytest.MonkeyPatch) -> Index:
    made = Index(server)
    monkeypatch.setenv("PIP_INDEX_URL", made.url)
    return made


@dataclass(frozen=True)
class Kit:
    """The helpers above, for tests that cannot import this file."""

    make_wheel = staticmethod(make_wheel)
    make_sdist = staticmethod(make_sdist)
    status = staticmethod(status)
    send = staticmethod(send)
    in_turn = staticmethod(in_turn)
    content = staticmethod(content)


@pytest.fixture
def kit() -> Kit:
    return Kit()
