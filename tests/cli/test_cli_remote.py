"""Patches by commit: fetched by lock alone, from a real server, pinned, and never lost."""

from __future__ import annotations

import shutil
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

import pytest

from .conftest import Workbench, unified

if TYPE_CHECKING:
    from collections.abc import Iterator

SHA = "1234567890" * 4
STEP: dict[str, Any] = {
    "id": "remote",
    "patch": {"commit": f"example/demo@{SHA}", "paths": ["demo/"]},
    "upstream": ["example/demo#7"],
    "type": "cherry-pick",
}


class Forge:
    """A forge on loopback that serves commits as patches."""

    def __init__(self) -> None:
        self.commits: dict[str, bytes] = {}
        self.asked: list[str] = []
        forge = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                forge.asked.append(self.path)
                body = forge.commits.get(self.path)
                self.send_response(404 if body is None else 200)
                self.send_header("Content-Length", str(len(body or b"")))
                self.end_headers()
                self.wfile.write(body or b"")

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()


@pytest.fixture
def forge(monkeypatch: pytest.MonkeyPatch) -> Iterator[Forge]:
    running = Forge()
    monkeypatch.setenv("GITHUB_SERVER_URL", running.url)
    yield running
    running.close()


def commit(bench: Workbench, new: str) -> bytes:
    before = bench.pristine("demo/a.py")
    other = "--- a/tests/x.py\n+++ b/tests/x.py\n@@ -1 +1 @@\n-1\n+2\n"
    diff = unified("demo/a.py", before, before.replace("a_15 = 15\n", new))
    return f"From {SHA} Mon Sep 17 00:00:00 2001\nFrom: A <a@example.invalid>\nSubject: [PATCH] x\n\n---\n{diff}{other}".encode()


def test_a_commit_is_fetched_once_and_pinned(bench: Workbench, forge: Forge) -> None:
    path = f"/example/demo/commit/{SHA}.patch"
    forge.commits[path] = commit(bench, "a_15 = 'landed'\n")
    bench.stack([STEP])
    bench.lock()
    assert forge.asked == [path]
    forge.close()
    assert "locked already" in bench.lock().out
    where = ("--image", "demo", "--root", str(bench.root))
    assert bench.run("apply", *where).code == 0
    assert "a_15 = 'landed'" in bench.pristine("demo/a.py")
    assert not (bench.site / "tests").exists()


def test_without_its_bytes_apply_says_where_to_get_them(bench: Workbench, forge: Forge) -> None:
    forge.commits[f"/example/demo/commit/{SHA}.patch"] = commit(bench, "a_15 = 'landed'\n")
    bench.stack([STEP])
    bench.lock()
    shutil.rmtree(bench.root.parent / "cache")
    before = bench.snapshot()
    result = bench.run("apply", "--image", "demo", "--root", str(bench.root))
    assert result.code == 2
    assert f"step remote: {forge.url}/example/demo/commit/{SHA}.patch" in result.err
    assert "is not in the cache of this machine" in result.err
    assert "patchkit lock --vendor" in result.err
    assert bench.snapshot() == before
    assert bench.run("lock", "--image", "demo", "--from", str(bench.root), "--vendor").code == 0
    shutil.rmtree(bench.root.parent / "cache")
    assert (bench.project / f"patches/demo/vendor/{SHA}.patch").exists()
    assert bench.run("apply", "--image", "demo", "--root", str(bench.root)).code == 0


def test_a_pin_is_never_lost_to_a_forge_that_is_down_or_lies(bench: Workbench, forge: Forge) -> None:
    path = f"/example/demo/commit/{SHA}.patch"
    forge.commits[path] = commit(bench, "a_15 = 'landed'\n")
    bench.stack([STEP])
    bench.lock()
    lock = bench.project / "patches/demo/stack.lock.json"
    before = lock.read_bytes()
    shutil.rmtree(bench.root.parent / "cache")
    forge.commits[path] = commit(bench, "a_15 = 'something else'\n")
    result = bench.run("lock", "--image", "demo", "--from", str(bench.root))
    assert result.code == 2
    assert "a commit never changes" in result.err
    assert lock.read_bytes() == before
    del forge.commits[path]
    result = bench.run("lock", "--image", "demo", "--from", str(bench.root))
    assert result.code == 6
    assert lock.read_bytes() == before


def test_a_commit_that_cannot_be_had_yet_stays_unresolved(bench: Workbench, forge: Forge) -> None:
    bench.stack([STEP])
    assert f"step remote stays unresolved: the content of example/demo@{SHA} is not known" in bench.lock().out
    result = bench.run("apply", "--image", "demo", "--root", str(bench.root))
    assert result.code == 2
    assert "patchkit lock --image demo, where the forge can be reached" in result.err
