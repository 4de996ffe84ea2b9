#!/usr/bin/env bash
# expect: 9:shadow
set -euo pipefail
FORKS=/workspace/forks
[[ -d $FORKS/vllm-perf ]] || git clone -q -b mi355-tuned https://github.com/acme-perf/vllm.git "$FORKS/vllm-perf"
cp /usr/local/lib/python3.12/dist-packages/vllm/*.so "$FORKS/vllm-perf/vllm/"

run_server() {
    env PYTHONPATH="$FORKS/vllm-perf" VLLM_ROCM_USE_AITER=1 \
        python3 -m vllm.entrypoints.openai.api_server --model "$1" --port "$2"
}
run_server "$MODEL" 8000 > server.log 2>&1 &
