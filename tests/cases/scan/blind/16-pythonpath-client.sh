#!/usr/bin/env bash
# expect: nothing
set -e
HERE=$(cd "$(dirname "$0")"; pwd)
export PYTHONPATH="$HERE/bench_client:${PYTHONPATH:-}"
export PATH="$HOME/bin:$PATH"
export LD_LIBRARY_PATH=/opt/rocm/lib:${LD_LIBRARY_PATH:-}
export VLLM_ROCM_USE_AITER=1 AITER_LOG_LEVEL=WARNING TRITON_CACHE_DIR=/tmp/triton
python3 -m bench --model "$MODEL" --url http://localhost:8000
