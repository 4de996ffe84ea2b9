# expect: nothing
import asyncio
import json
from unittest import mock

import pytest

from bench_client import http, report


@pytest.fixture(autouse=True)
def _env(monkeypatch):
    monkeypatch.setenv("VLLM_PORT", "8000")
    monkeypatch.setattr(http, "RETRY_SECONDS", 0)


@mock.patch("bench_client.http.post")
def test_retry(post):
    post.side_effect = [TimeoutError(), {"choices": [{"text": "ok"}]}]
    out = asyncio.run(http.complete("http://x", "hi"))
    assert out == "ok"
    assert post.call_count == 2


def test_report(tmp_path):
    f = tmp_path / "vllm.json"
    f.write_text(json.dumps({"tput": 1.0}))
    with mock.patch.object(report, "now", lambda: "2025-01-01"):
        assert "2025-01-01" in report.render(f)
