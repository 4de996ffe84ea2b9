"""The talk with a program in a container, over what a real engine may send: here one that is played, byte by byte."""

from __future__ import annotations

import json
import socket
import socketserver
import threading
from typing import TYPE_CHECKING

import pytest

from patchkit.core.errors import UnreachableError
from patchkit.io.engine import Container, Finished, connect

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

READY = b"\0ready\n"
SENT = b"x" * 300_000
HEAD = b"HTTP/1.1 101 UPGRADED\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n\r\n"
CONTAINER = Container(id="c1", name="one", state="running", image="i", image_id="i")

Talk = "Callable[[socket.socket], None]"


def frame(stream: int, data: bytes) -> bytes:
    return bytes([stream, 0, 0, 0]) + len(data).to_bytes(4, "big") + data


def receive(connection: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size and (more := connection.recv(65536)):
        data += more
    return data


class Played(socketserver.StreamRequestHandler):
    """An engine that knows one container; `server.talk` is what its program does."""

    def handle(self) -> None:
        while line := self.rfile.readline().decode():
            headers = {}
            while header := self.rfile.readline().decode().strip():
                name, _, value = header.partition(":")
                headers[name.lower()] = value.strip()
            self.rfile.read(int(headers.get("content-length", 0)))
            path = line.split()[1]
            if path.endswith("/start"):
                self.connection.settimeout(5)
                self.server.talk(self.connection)  # type: ignore[attr-defined]
                return
            assert path == "/_ping" or path.startswith("/v1.41/")
            answers = {"_ping": "OK", "exec": {"Id": "e1"}, "json": {"ExitCode": 3}}
            body = json.dumps(answers[path.rpartition("/")[2]]).encode()
            head = f"HTTP/1.1 200 OK\r\nApi-Version: {self.server.speaks}\r\nContent-Length: {len(body)}\r\n\r\n"  # type: ignore[attr-defined]
            self.wfile.write(head.encode() + body)


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[socketserver.BaseServer]:
    server = socketserver.ThreadingUnixStreamServer(str(tmp_path / "engine.sock"), Played)
    server.daemon_threads = True
    server.speaks = "1.41"  # type: ignore[attr-defined]
    threading.Thread(target=server.serve_forever, daemon=True).start()
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/engine.sock")
    yield server
    server.shutdown()
    server.server_close()


@pytest.fixture
def run(server: socketserver.BaseServer) -> Callable[[Talk], Finished]:
    def run(talk: Talk) -> Finished:
        server.talk = talk  # type: ignore[attr-defined]
        with connect() as engine:
            return engine.run(CONTAINER, ["python3"], SENT, READY)

    return run


def test_an_engine_that_is_too_old(server: socketserver.BaseServer) -> None:
    server.speaks = "1.12"  # type: ignore[attr-defined]
    with pytest.raises(UnreachableError, match=r"no container engine at unix://.*: it speaks version 1\.12 of the API"):
        connect().__enter__()


def test_output_that_comes_in_one_piece_with_the_head(run: Callable[[Talk], Finished]) -> None:
    def talk(connection: socket.socket) -> None:
        connection.sendall(HEAD + frame(1, READY))  # an engine under load does that
        assert receive(connection, len(SENT)) == SENT
        connection.sendall(frame(1, b"out") + frame(2, b"err") + frame(1, b"put"))

    assert run(talk) == Finished(started=True, code=3, out=b"output", err=b"err")


def test_output_in_crumbs(run: Callable[[Talk], Finished]) -> None:
    def talk(connection: socket.socket) -> None:
        for byte in HEAD + frame(2, b"a warning") + frame(1, READY[:3]) + frame(1, READY[3:]):
            connection.sendall(bytes([byte]))
        assert receive(connection, len(SENT)) == SENT
        connection.sendall(frame(1, b""))

    assert run(talk) == Finished(started=True, code=3, out=b"", err=b"a warning")


def test_a_program_that_never_gets_ready_is_sent_nothing(run: Callable[[Talk], Finished]) -> None:
    got = []

    def talk(connection: socket.socket) -> None:
        connection.sendall(HEAD + frame(2, b"no such program"))
        connection.shutdown(socket.SHUT_WR)
        got.append(receive(connection, 1))

    assert run(talk) == Finished(started=False, code=3, out=b"", err=b"no such program")
    assert got == [b""]


def test_an_engine_that_dies_in_the_middle_of_a_frame(run: Callable[[Talk], Finished]) -> None:
    def talk(connection: socket.socket) -> None:
        connection.sendall(HEAD + frame(1, READY) + frame(1, b"whole") + frame(1, b"cut off")[:11])
        receive(connection, len(SENT))

    done = run(talk)
    assert done.started
    assert done.out.startswith(b"whole")
