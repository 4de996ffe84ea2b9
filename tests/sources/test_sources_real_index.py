"""The index that is configured for pip, really: vllm 0.33.0, a wheel of 336 MB, a few files of it."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Any

import pytest

from patchkit.core.errors import UnreachableError
from patchkit.io.http import Http
from patchkit.sources.cache import Cache
from patchkit.sources.open import open_source

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.index

SITE = ("usr/local/lib/python3.12/dist-packages",)
FILES = {
    "vllm/_version.py": 530,
    "vllm/config/vllm.py": 164431,
    "vllm/config/speculative.py": 98355,
    "vllm/v1/core/sched/scheduler.py": 180180,
    "vllm/v1/worker/gpu_model_runner.py": 318987,
    "vllm/v1/core/kv_cache_utils.py": 48196,
    "vllm/entrypoints/generate/base/serving.py": None,
    "vllm/v1/simple_kv_offload/copy_backend.py": None,
}
WHEEL_SHA256 = "4b6bdec4ab269990bf70d45a3c1e94c3760a27064513760193b26d6f0da883aa"


def opened(cache: Cache, factory: Any) -> Any:
    return open_source("vllm==0.33.0", site=SITE, platform="linux/amd64", cache=cache, http_factory=factory)


def test_eight_files_of_vllm(tmp_path: Path) -> None:
    cache, sessions = Cache(str(tmp_path)), []

    def counted(*, ca_bundle: str | None = None) -> Http:
        sessions.append(Http(ca_bundle=ca_bundle))
        return sessions[-1]

    begin = time.monotonic()
    source = opened(cache, counted)
    try:
        found = {path: source.read(path) for path in FILES}
    except UnreachableError as error:
        if "index" in os.environ.get("PATCHKIT_REQUIRE", ""):
            raise
        pytest.skip(f"the index cannot be reached: {error}")
    finally:
        source.close()
    seconds, moved = time.monotonic() - begin, sum(session.bytes_received for session in sessions)
    for path, size in FILES.items():
        assert found[path] is not None, path
        assert size in (None, len(found[path].data)), path
    assert source.artifact_sha256 == WHEEL_SHA256
    assert source.describe().endswith("_x86_64.whl, by range)")
    assert moved < 1_300_000
    assert seconds < 20  # 0.3 s where this was written; a slow line is no failure

    def no_network(*, ca_bundle: str | None = None) -> Http:
        raise AssertionError("a request, though the cache knows")

    again = opened(cache, no_network)
    assert {path: again.read(path) for path in FILES} == found
    print(f"{moved} bytes in {seconds:.2f} s")
