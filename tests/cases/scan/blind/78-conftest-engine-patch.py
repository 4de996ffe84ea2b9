# expect: 15:monkeypatch
"""Run the accuracy suite in-process against a modified engine."""
from unittest import mock

import lm_eval
import torch
from lm_eval.models.vllm_causallms import VLLM


def softcap(x, cap=30.0):
    return cap * torch.tanh(x / cap)


def run(tasks):
    with mock.patch("vllm.v1.sample.sampler.Sampler.apply_temperature", lambda self, l, t, *a: softcap(l)):
        lm = VLLM(pretrained="Qwen/Qwen3-32B", tensor_parallel_size=2)
        return lm_eval.simple_evaluate(model=lm, tasks=tasks)


if __name__ == "__main__":
    print(run(["gsm8k"])["results"])
