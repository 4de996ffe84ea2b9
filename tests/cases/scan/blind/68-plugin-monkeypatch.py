# expect: 20:monkeypatch 21:monkeypatch
"""vllm.general_plugins entry point used by our recipes."""
import logging

logger = logging.getLogger("bench_plugin")


def register():
    import torch
    from vllm.model_executor.layers.quantization import fp8
    from vllm.v1.worker.gpu_model_runner import GPUModelRunner

    original = fp8.Fp8LinearMethod.apply

    def apply(self, layer, x, bias=None):
        if x.shape[0] < 8:
            return torch.nn.functional.linear(x, layer.weight.to(x.dtype), bias)
        return original(self, layer, x, bias)

    fp8.Fp8LinearMethod.apply = apply
    GPUModelRunner.profile_run = lambda self: None
    logger.warning("bench_plugin active")
