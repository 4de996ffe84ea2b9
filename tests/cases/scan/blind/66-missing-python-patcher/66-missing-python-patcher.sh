#!/bin/bash
# expect: 6:missing-patch|edit
HERE=$(dirname "$0")
python3 "$HERE/tools/collect_env.py" > env.json
# upstream PR 30112, drop when the nightly has it
python3 "$HERE/tools/patch_vllm_fp8_kv.py" --site /usr/local/lib/python3.12/dist-packages

export VLLM_ROCM_USE_AITER=1
vllm serve "$MODEL" --kv-cache-dtype fp8 --port "$PORT"
