"""The AMD KDA packed decode, its kernel run in Triton's interpreter on CPU tensors.

TRITON_INTERPRET is read when a kernel is defined, and the process that runs the scenarios has defined kernels already:
so each observation starts this file in an interpreter of its own.
"""

import importlib
import json
import os
import subprocess
import sys
import types
from pathlib import Path
from typing import Any

import torch
import vllm

IMAGES = ("v0.27.1",)

PACKAGE = "vllm.models.kimi_k3.amd.ops.third_party.kda"
HEADS, KEY, VALUE, SLOTS = 2, 16, 8, 12


def kernel_module() -> Any:
    from triton.backends import Backend, backends

    backends["cpu"] = Backend(compiler=None, driver=None)  # else vLLM turns Triton off on the CPU platform
    # The package's own __init__ also defines chunk kernels, whose autotune keys a newer Triton refuses.
    package = types.ModuleType(PACKAGE)
    package.__path__ = [str(Path(vllm.__file__).parent.joinpath(*PACKAGE.split(".")[1:]))]
    sys.modules[PACKAGE] = package
    from vllm.triton_utils import tl

    module = importlib.import_module(f"{PACKAGE}.fused_recurrent")

    # The interpreter replaces the functions of `tl` for each launch; these names were taken from it at import.
    def exp(x: Any) -> Any:
        return tl.exp(x)

    def log(x: Any) -> Any:
        return tl.log(x)

    module.exp, module.log = exp, log
    return module


def decode(module: Any, state_indices: torch.Tensor, lower_bound: float | None = None) -> Any:
    """The output and the changed slots, or the refusal, of one decode step of `len(state_indices)` requests."""
    random, batch = torch.Generator().manual_seed(0), len(state_indices)

    def tensor(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=random)

    state = tensor(SLOTS, HEADS, VALUE, KEY)
    arguments = {
        "A_log": tensor(HEADS),
        "dt_bias": tensor(HEADS * KEY),
        "mixed_qkv": tensor(4, HEADS * (2 * KEY + VALUE))[:batch],
        "raw_g": tensor(1, 4, HEADS, KEY)[:, :batch],
        "raw_beta": tensor(1, 4, HEADS)[:, :batch],
        "lower_bound": lower_bound,
        "state_indices": state_indices,
    }
    after = state.clone()
    try:
        output, _ = module.fused_recurrent_kda_packed_decode(initial_state=after, **arguments)
    except ValueError as error:
        return str(error)
    changed = (after != state).flatten(1).any(dim=1)
    return {
        "output": output.tolist(),
        "state": after[changed].tolist(),
        "changed slots": changed.nonzero().flatten().tolist(),
        "silent rows": (output[0] == 0).flatten(1).all(dim=1).nonzero().flatten().tolist(),
    }


def summary(result: Any, contiguous: Any) -> Any:
    if isinstance(result, str):
        return result
    return {
        "as contiguous": result == contiguous,
        "changed slots": result["changed slots"],
        "silent rows": result["silent rows"],
    }


def block_table() -> torch.Tensor:
    """Four requests' slots, 1 + 2 speculative columns wide; slot 0 pads."""
    return torch.tensor([[4, 9, 7], [2, 1, 8], [0, 0, 0], [5, 10, 3]], dtype=torch.int32)


def strided(module: Any) -> Any:
    table = block_table()
    answers = {}
    for name, indices in {
        "first column": table[:, 0],
        "last column": table[:, 2],
        "every second row": table[::2, 1],
        "one request": table[:1, 0],
    }.items():
        contiguous = torch.tensor(indices.tolist(), dtype=torch.int32)
        answers[name] = [list(indices.stride()), summary(decode(module, indices), decode(module, contiguous))]
    bounded = decode(module, table[:, 0], -5.0), decode(module, torch.tensor([4, 2, 0, 5], dtype=torch.int32), -5.0)
    answers["with a lower bound"] = [list(table[:, 0].stride()), summary(*bounded)]
    return answers


def contiguous(module: Any) -> Any:
    return decode(module, torch.tensor([4, 2, 0, 5], dtype=torch.int32))


def refused(module: Any) -> Any:
    table = block_table()
    return {"a table": decode(module, table), "a table of one column": decode(module, table[:, :1])}


def in_an_interpreter(name: str) -> Any:
    done = subprocess.run(
        [sys.executable, __file__, name],
        env={**os.environ, "TRITON_INTERPRET": "1", "CUDA_VISIBLE_DEVICES": ""},
        stdout=subprocess.PIPE,
        check=True,
    )
    return json.loads(done.stdout.splitlines()[-1])


def observe_strided() -> Any:
    return in_an_interpreter("strided")


def observe_contiguous() -> Any:
    return in_an_interpreter("contiguous")


def observe_refused() -> Any:
    return in_an_interpreter("refused")


if __name__ == "__main__":
    print(json.dumps(globals()[sys.argv[1]](kernel_module())))
