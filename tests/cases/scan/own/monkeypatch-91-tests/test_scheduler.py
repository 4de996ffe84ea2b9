# expect: nothing
from unittest import mock

import vllm


def test_schedule(monkeypatch):
    monkeypatch.setattr("vllm.envs.VLLM_USE_V1", True)
    with mock.patch("vllm.envs.VLLM_PORT", 1):
        assert vllm
