#!/usr/bin/env bash
# expect: 16:patch
set -euo pipefail

HERE="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
: "${MODEL:?}" "${TP:=8}" "${CONC:?}" "${ISL:?}" "${OSL:?}" "${PORT:=8888}"

export VLLM_ROCM_USE_AITER=1
export VLLM_USE_V1=1
export SAFETENSORS_FAST_GPU=1

pip install -q datasets pandas tiktoken

# decode path falls back to triton without this (vllm-project/vllm#28412)
cd /usr/local/lib/python3.12/dist-packages
git apply -p1 --whitespace=nowarn "$HERE/patches/vllm-mla-fp8-decode.patch"
cd "$HERE"

vllm serve "$MODEL" --tensor-parallel-size "$TP" --port "$PORT" \
    --max-model-len $((ISL + OSL + 256)) --no-enable-prefix-caching \
    --disable-log-requests > server.log 2>&1 &
SERVER_PID=$!

until curl -sf "http://localhost:$PORT/health"; do sleep 5; done
python3 benchmark_serving.py --model "$MODEL" --port "$PORT" --max-concurrency "$CONC" \
    --random-input-len "$ISL" --random-output-len "$OSL" --save-result
kill "$SERVER_PID"
