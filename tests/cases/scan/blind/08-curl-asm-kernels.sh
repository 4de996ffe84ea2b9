#!/usr/bin/env bash
# expect: 8:download 10:download
set -euo pipefail
REL=https://github.com/acme-perf/aiter-kernels/releases/download/r12
META=/usr/local/lib/python3.12/dist-packages/aiter_meta
JIT=$(python3 -c 'import aiter.jit, os; print(os.path.dirname(aiter.jit.__file__))')

curl -fL "$REL/module_fmha_v3_fwd.so" -o "$JIT/module_fmha_v3_fwd.so"
for k in fmha_bf16_pertoken mla_a8w8_qh16; do
    wget -q -O "$META/hsa/gfx950/$k.co" "$REL/$k.co"
done
curl -fsSL https://huggingface.co/datasets/anon8231489123/ShareGPT_Vicuna_unfiltered/resolve/main/ShareGPT_V3_unfiltered_cleaned_split.json -o /workspace/sharegpt.json

vllm serve "$MODEL" --tensor-parallel-size 8
