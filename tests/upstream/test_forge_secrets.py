"""A token is nowhere but in the header that it is sent in: not in the store, the output, an error, a traceback."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from .forge_server import HABITS, TOKEN, Server

if TYPE_CHECKING:
    from pathlib import Path

RUN = """
import dataclasses, pickle, sys, traceback
from datetime import datetime, timedelta, timezone
from patchkit.io.http import Http
from patchkit.upstream.facts import Ref
from patchkit.upstream.hosts import for_host
from patchkit.upstream.observe import compare, observe, require_something
from patchkit.upstream.store import Store

now = datetime(2026, 8, 14, tzinfo=timezone.utc)
with Store(sys.argv[1]) as store:
    def asked(host):
        return for_host(host, memory=store, http=Http(read_timeout=0.5, backoff=0.01))
    for hours in range(2):
        observed = observe([Ref(repo="o/r", number=n) for n in range(1, 4)], store, asked,
                           now=now + timedelta(hours=hours))
        print(observed)
        print([dataclasses.asdict(one) for one in observed.values()])
    for call in (lambda: require_something(observed), lambda: compare(asked, store, "github.com", "o/r", "a", "b")):
        try:
            print(call())
        except BaseException as error:
            traceback.print_exc()
            print(repr(error), error.hint, [str(e) for e in (error.__cause__, error.__context__)])
    print(vars(for_host("github.com")))
"""


@pytest.mark.parametrize(
    ("how", "name"), [*(("variable", name) for name in ("", *HABITS)), ("gh", ""), ("gh", "echo"), ("gh", "primary")]
)
def test_no_failure_shows_the_token(
    forge: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str, name: str
) -> None:
    if how == "gh":
        monkeypatch.delenv("GH_TOKEN")
        monkeypatch.setenv("GH_CONFIG_DIR", str(tmp_path / "gh"))
        (tmp_path / "gh").mkdir()
        (tmp_path / "gh" / "hosts.yml").write_text(f"github.com:\n  oauth_token: {TOKEN}\n")
    forge.pull("o/r", 1)
    forge.pull("o/r", 2)
    if name:
        forge.fail(name, times=2 if name == "retry-after" else 1000)
    command = [sys.executable, "-c", RUN, str(tmp_path / "cache")]
    done = subprocess.run(command, capture_output=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert b"Token(from " in done.stdout  # the client was made with it
    assert any(seen.headers.get("authorization") == f"Bearer {TOKEN}" for seen in forge.seen)
    written = {path: path.read_bytes() for path in (tmp_path / "cache").rglob("*") if path.is_file()}
    for place, data in {"stdout": done.stdout, "stderr": done.stderr, **written}.items():
        assert TOKEN.encode() not in data, place
        assert TOKEN[4:20].encode() not in data, place


def test_a_wrong_token_is_not_shown_either(forge: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GH_TOKEN", "ghp_wrongButStillSecret")
    command = [sys.executable, "-c", RUN, str(tmp_path / "cache")]
    done = subprocess.run(command, capture_output=True, timeout=120, check=False)
    assert b"refuses the token of GH_TOKEN: 401 Bad credentials" in done.stdout
    assert b"wrongButStillSecret" not in done.stdout + done.stderr
