"""TRITON_MLA's metadata builder, made by its constructor over real MLA layers: what it declares, what it can capture.

`observe_attention` runs forward_mqa and its kernels in Triton's interpreter, and starts this file in an interpreter of
its own for that: TRITON_INTERPRET is read when a kernel is defined.
"""

import json
import os
import subprocess
import sys
import types
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    from triton.backends import Backend, backends

    sys.path.insert(0, str(Path(__file__).parent.parent))
    backends["cpu"] = Backend(compiler=None, driver=None)  # else vLLM turns Triton off on the CPU platform

import torch
from scenarios.draft_layers_cudagraph_mode import CPU, QUERY_LEN, build, config, decided, layer, stand_in_for_the_gpu
from vllm.config import VllmConfig, set_current_vllm_config
from vllm.utils.math_utils import next_power_of_2
from vllm.v1.attention.backend import CommonAttentionMetadata
from vllm.v1.attention.backends.mla import triton_mla
from vllm.v1.kv_cache_interface import KVCacheSpec, MLAAttentionSpec, UniformTypeKVCacheSpecs

IMAGES = ("v0.27.1",)

NAME = "model.layers.2.self_attn.attn"


class Made:
    """One layer, its KV cache spec and its group's builder."""

    def __init__(self, *, non_causal: bool, dcp: int = 1) -> None:
        stand_in_for_the_gpu()
        self.config = config("ngram")
        self.config.parallel_config.decode_context_parallel_size = dcp
        with set_current_vllm_config(self.config):
            self.layer = layer(NAME, triton_mla.TritonMLABackend, non_causal=non_causal)
            self.spec = self.layer.get_kv_cache_spec(self.config)
            self.builder = triton_mla.TritonMLAMetadataBuilder(self.spec, [NAME], self.config, CPU)

    def metadata(self, seq_lens: list[int], *, causal: bool) -> CommonAttentionMetadata:
        """A uniform batch of QUERY_LEN tokens a request; every block table row is its own four blocks of 32."""
        requests = len(seq_lens)
        starts = torch.arange(0, (requests + 1) * QUERY_LEN, QUERY_LEN, dtype=torch.int32)
        lengths = torch.tensor(seq_lens, dtype=torch.int32)
        return CommonAttentionMetadata(
            query_start_loc=starts,
            query_start_loc_cpu=starts,
            seq_lens=lengths,
            seq_lens_cpu_upper_bound=lengths,
            num_reqs=requests,
            num_actual_tokens=requests * QUERY_LEN,
            max_query_len=QUERY_LEN,
            max_seq_len=max(seq_lens),
            block_table_tensor=torch.arange(1, 4 * requests + 1, dtype=torch.int32).view(requests, 4),
            slot_mapping=torch.zeros(requests * QUERY_LEN, dtype=torch.int64),
            dcp_local_seq_lens=lengths,
            causal=causal,
        )


def declared(vllm_config: VllmConfig, spec: KVCacheSpec) -> str:
    return triton_mla.TritonMLAMetadataBuilder.get_cudagraph_support(vllm_config, spec).name


def captured(made: Made, *, causal: bool) -> Any:
    try:
        metadata = made.builder.build_for_cudagraph_capture(made.metadata([40, 50], causal=causal))
    except AssertionError:
        return "AssertionError"
    return {name: getattr(metadata, name) for name in ("num_decodes", "num_decode_tokens", "num_prefills", "causal")}


def seen(made: Made, *, causal: bool) -> dict[str, Any]:
    return {
        "declared": declared(made.config, made.spec),
        "declared by the instance": made.builder.get_cudagraph_support(made.config, made.spec).name,
        "reorder threshold": made.builder.reorder_batch_threshold,
        "a block captured": captured(made, causal=causal),
    }


def observe_draft_block() -> Any:
    return seen(Made(non_causal=True), causal=False)


def observe_causal_group() -> Any:
    return seen(Made(non_causal=False), causal=True)


def observe_draft_block_with_dcp() -> Any:
    return seen(Made(non_causal=True, dcp=2), causal=False)


def observe_merged_and_uniform_specs() -> Any:
    draft, target = Made(non_causal=True), Made(non_causal=False)
    merged = MLAAttentionSpec.merge([target.spec, draft.spec])
    uniform = UniformTypeKVCacheSpecs(block_size=draft.spec.block_size, kv_cache_specs={NAME: draft.spec})
    return {
        "merged": declared(draft.config, merged),
        "uniform": declared(draft.config, uniform),
    }


def observe_runner() -> Any:
    """The V2 model runner with a target that supports uniform batches and this backend under its draft."""
    return decided(build(non_causal=True))


def observe_causal_block_in_a_marked_group() -> Any:
    """A target's verify block where its group carries the draft's mark: 6 rows of queries, block table rows for 2."""
    made = Made(non_causal=True)
    return decode_shapes(made, made.builder.build(0, made.metadata([40, 50], causal=True)))


def observe_host_reads() -> Any:
    """forward_mqa over tensors that have no data: whatever had to be read on the host would raise."""
    made = Made(non_causal=True)
    return decode_shapes(made, made.builder.build_for_cudagraph_capture(made.metadata([40, 50], causal=False)))


def decode_shapes(made: Made, metadata: Any) -> list[list[int]]:
    """The shapes of query, block table and lengths that forward_mqa hands to the kernels."""
    passed: list[list[int]] = []

    def decode(*arguments: Any, **_: Any) -> None:
        query, _k, _v, _o, _lse, block_table, seq_lens, *_rest = arguments
        passed.extend(list(tensor.shape) for tensor in (query, block_table, seq_lens))

    triton_mla.decode_attention_fwd = decode
    triton_mla.triton = types.SimpleNamespace(next_power_of_2=next_power_of_2)  # vLLM turns Triton off on the CPU
    metadata.decode.block_table = metadata.decode.block_table.to("meta")
    metadata.decode.seq_lens = metadata.decode.seq_lens.to("meta")
    query = torch.empty(2 * QUERY_LEN, 4, 576, dtype=torch.bfloat16, device="meta")
    cache = torch.empty(9, 32, 576, dtype=torch.bfloat16, device="meta")
    made.layer.impl.forward_mqa(query, cache, metadata, made.layer)
    return passed


def observe_attention() -> Any:
    done = subprocess.run(
        [sys.executable, __file__],
        env={**os.environ, "TRITON_INTERPRET": "1", "CUDA_VISIBLE_DEVICES": ""},
        stdout=subprocess.PIPE,
        check=True,
    )
    return json.loads(done.stdout.splitlines()[-1])


def attention() -> dict[str, Any]:
    """Two requests' draft blocks against plain attention, in which every row sees the request's whole KV.

    In float16: the interpreter computes with NumPy, which has no bfloat16.
    """
    made = Made(non_causal=True)
    lengths = [40, 70]
    metadata = made.builder.build_for_cudagraph_capture(made.metadata(lengths, causal=False))
    assert metadata.decode is not None
    random = torch.Generator().manual_seed(0)
    query = (torch.randn(2 * QUERY_LEN, 4, 576, generator=random) / 24).to(torch.float16)
    cache = torch.randn(9, 32, 576, generator=random).to(torch.float16)
    output, _ = made.layer.impl.forward_mqa(query, cache, metadata, made.layer)
    errors = []
    for row in range(2 * QUERY_LEN):
        request = row // QUERY_LEN
        keys = cache[metadata.decode.block_table[request].long()].flatten(0, 1)[: lengths[request]].float()
        weights = torch.softmax(query[row].float() @ keys.T * made.layer.impl.scale, dim=-1)
        errors.append((output[row].float() - weights @ keys[:, :512]).abs().max().item())
    return {"rows": len(errors), "close": max(errors) < 0.02}


if __name__ == "__main__":
    print(json.dumps(attention()))
