# expect: 29:monkeypatch 33:monkeypatch|shadow
import functools
import importlib
import sys
import types

TARGETS = {
    "aiter.tuned_gemm": ["gemm_a8w8_blockscale"],
    "aiter.fused_moe": ["fused_moe", "fused_topk"],
}


def cached(fn):
    memo = {}

    @functools.wraps(fn)
    def inner(*a, **k):
        key = tuple(getattr(x, "shape", x) for x in a)
        hint = memo.setdefault(key, {"splitk": 4})
        return fn(*a, **{**hint, **k})

    return inner


def activate():
    for name, attrs in TARGETS.items():
        mod = importlib.import_module(name)
        for attr in attrs:
            setattr(mod, attr, cached(getattr(mod, attr)))

    stub = types.ModuleType("vllm._custom_ops_ext")
    stub.paged_attention = importlib.import_module("fast_pa").paged_attention
    sys.modules["vllm._custom_ops_ext"] = stub


activate()
from vllm.entrypoints.cli.main import main  # noqa: E402

sys.exit(main())
