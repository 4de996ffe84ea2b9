#!/usr/bin/env bash
# expect: 5:install 7:install
export UV_SYSTEM_PYTHON=1
INDEX=https://wheels.vllm.ai/rocm/nightly
uv pip install -U vllm --extra-index-url "$INDEX" --index-strategy unsafe-best-match
uv pip install tiktoken datasets
uv pip install --pre torch --index-url https://download.pytorch.org/whl/nightly/rocm7.0

vllm bench serve --model "$MODEL" --dataset-name random --num-prompts 320
