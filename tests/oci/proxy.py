"""A proxy before a real server: it counts the bytes of both directions, and hangs up when it is told to."""

from __future__ import annotations

import socket
import struct
import threading
from contextlib import suppress

_CHUNK = 1 << 14


class Proxy:
    """`up` and `down` are the bytes that went to the server and came from it. `cuts`: after how many more bytes, in one
    direction ("up" or "down"), the connection that carries them is reset; one after the other."""

    def __init__(self, server: str) -> None:
        name, _, port = server.partition(":")
        self.server = (name, int(port))
        self.up = self.down = self.connections = 0
        self.cuts: list[tuple[str, int]] = []
        self._lock = threading.Lock()
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.host = f"127.0.0.1:{self._listening.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._listening.close()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listening.accept()
            except OSError:
                return
            far = socket.create_connection(self.server)
            self.connections += 1
            for source, to, way in ((near, far, "up"), (far, near, "down")):
                threading.Thread(target=self._carry, args=(source, to, way, (near, far)), daemon=True).start()

    def _carry(self, source: socket.socket, to: socket.socket, way: str, both: tuple[socket.socket, ...]) -> None:
        with suppress(OSError):
            while data := source.recv(_CHUNK):
                if self._cut(way, len(data)):
                    for end in both:
                        end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                        end.shutdown(socket.SHUT_RDWR)
                    break
                to.sendall(data)
        for end in both:
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
        if way == "down":
            for end in both:
                end.close()

    def _cut(self, way: str, size: int) -> bool:
        with self._lock:
            setattr(self, way, getattr(self, way) + size)
            if self.cuts and self.cuts[0][0] == way:
                left = self.cuts[0][1] - size
                self.cuts[0] = (way, left)
                if left < 0:
                    self.cuts.pop(0)
                    return True
        return False
