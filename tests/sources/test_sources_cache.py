"""The cache: what goes in comes out, whatever is damaged is absent, and nobody else may write there."""

from __future__ import annotations

import hashlib
import json
import os
import stat
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from patchkit.core.errors import ConfigError, RefusedByMachineError
from patchkit.sources.cache import Cache, default_root

SAME_CACHE = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
JSON = st.dictionaries(st.text(max_size=5), st.none() | st.booleans() | st.integers() | st.text(max_size=9), max_size=4)


@SAME_CACHE
@given(data=st.binary(max_size=5000))
def test_blob_of_add_is_the_data(cache: Cache, data: bytes) -> None:
    assert cache.blob(cache.add(data)) == data
    assert cache.blob(cache.add(data)) == data


@SAME_CACHE
@given(key=st.text(max_size=20), value=JSON)
def test_fact_is_what_was_remembered_last(cache: Cache, key: str, value: dict[str, Any]) -> None:
    cache.remember(key, {"old": True})
    cache.remember(key, value)
    assert cache.fact(key) == value


def test_nothing_is_made_before_something_is_written(cache: Cache) -> None:
    assert cache.blob("0" * 64) is None
    assert cache.blob_file("0" * 64) is None
    assert cache.fact("x") is None
    assert not os.path.exists(cache.root)


def test_modes_and_no_leftovers(cache: Cache) -> None:
    old = os.umask(0o077)
    try:
        cache.add(b"x")
        cache.remember("k", {})
    finally:
        os.umask(old)
    for at, directories, files in os.walk(cache.root):
        assert stat.S_IMODE(os.stat(at).st_mode) == 0o700
        for name in files:
            assert stat.S_IMODE(os.stat(os.path.join(at, name)).st_mode) == 0o644
            assert not name.endswith(".tmp")
        assert len(directories) + len(files) <= 2


@pytest.mark.parametrize("damage", [b"", b"other", b"xx"])
def test_corrupt_blob_is_dropped_and_absent(cache: Cache, damage: bytes) -> None:
    sha256 = cache.add(b"x")
    path = cache.blob_file(sha256)
    assert path is not None
    for read in (cache.blob, cache.blob_file):
        Path(path).write_bytes(damage)
        assert read(sha256) is None
        assert not os.path.exists(path)
    Path(path).write_bytes(damage)
    assert cache.add(b"x") == sha256
    assert cache.blob(sha256) == b"x"


@pytest.mark.parametrize(
    "damage",
    [
        b"",
        b"{",
        b"[]",
        b"\xff\xfe",
        b'{"version": 1, "key": "k"}',
        b'{"version": 2, "key": "k", "value": {}}',
        b"[" * 10**5,
    ],
)
def test_corrupt_fact_is_dropped_and_absent(cache: Cache, damage: bytes) -> None:
    cache.remember("k", {"a": 1})
    [path] = [os.path.join(at, name) for at, _, names in os.walk(cache.root) for name in names]
    Path(path).write_bytes(damage)
    assert cache.fact("k") is None
    assert not os.path.exists(path)


def test_fact_of_another_key_is_absent(cache: Cache) -> None:
    cache.remember("k", {"a": 1})
    [path] = [os.path.join(at, name) for at, _, names in os.walk(cache.root) for name in names]
    entry = json.loads(Path(path).read_text())
    Path(path).write_text(json.dumps({**entry, "key": "other"}))
    assert cache.fact("k") is None


@pytest.mark.parametrize("sha256", ["", "0" * 63, "0" * 65, "A" * 64, "../" * 21 + "x", "é" * 64])
def test_only_a_sha256_is_a_name(cache: Cache, sha256: str) -> None:
    for call in (cache.blob, cache.blob_file, cache.blob_destination):
        with pytest.raises(ConfigError, match="expected a sha256"):
            call(sha256)


def test_concurrent_writers(cache: Cache) -> None:
    failures: list[BaseException] = []

    def work(number: int) -> None:
        try:
            mine = Cache(cache.root)
            for step in range(50):
                data = f"{step}".encode() * 1000
                assert mine.blob(mine.add(data)) == data
                mine.remember("shared", {"writer": number, "step": step})
                assert mine.fact("shared") is not None
        except BaseException as error:  # noqa: BLE001 - whatever it is
            failures.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


def test_world_writable_cache_is_refused_unless_sticky(cache: Cache) -> None:
    sha256 = cache.add(b"x")
    os.chmod(cache.root, 0o777)
    for call in (lambda c: c.blob(sha256), lambda c: c.add(b"y"), lambda c: c.fact("k"), lambda c: c.blob_file(sha256)):
        with pytest.raises(RefusedByMachineError, match="found mode 0777: everybody can write there") as caught:
            call(Cache(cache.root))  # type: ignore[no-untyped-call]
        assert "chmod o-w" in caught.value.hint
    os.chmod(cache.root, 0o1777)
    assert Cache(cache.root).blob(sha256) == b"x"


def test_cache_of_another_user_is_refused(cache: Cache, monkeypatch: pytest.MonkeyPatch) -> None:
    sha256 = cache.add(b"x")
    owner = os.stat(cache.root).st_uid
    if os.geteuid() == 0:
        os.chown(cache.root, 12345, -1)
        owner = 12345
    else:
        monkeypatch.setattr(os, "geteuid", lambda: owner + 1)
    with pytest.raises(RefusedByMachineError, match=f"root, found user {owner}") as caught:
        Cache(cache.root).blob(sha256)
    assert caught.value.exit_code == 8


def test_cache_that_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("")
    with pytest.raises(RefusedByMachineError, match="must be a directory"):
        Cache(str(tmp_path / "cache")).add(b"x")


def test_default_root(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATCHKIT_CACHE", str(tmp_path / "mine"))
    assert default_root() == str(tmp_path / "mine")
    monkeypatch.setenv("PATCHKIT_CACHE", "")
    monkeypatch.setenv("XDG_CACHE_HOME", "/xdg")
    assert default_root() == "/xdg/patchkit"
    for value in ("", "relative"):
        monkeypatch.setenv("XDG_CACHE_HOME", value)
        monkeypatch.setenv("HOME", "/home/me")
        assert default_root() == "/home/me/.cache/patchkit"


def test_blob_destination_is_where_blob_looks(cache: Cache) -> None:
    sha256 = hashlib.sha256(b"whole").hexdigest()
    Path(cache.blob_destination(sha256)).write_bytes(b"whole")
    assert cache.blob(sha256) == b"whole"
    assert cache.blob_file(sha256) == cache.blob_destination(sha256)


def test_importing_the_cache_is_cheap() -> None:
    costly = {"pathlib", "requests", "json", "tempfile", "urllib3", "git", "packaging", "typing", "contextlib"}
    code = f"import sys; sys.path[:0] = {sys.path!r}; import patchkit.sources.cache; print({costly} & set(sys.modules))"
    command = [sys.executable, "-S", "-I", "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
