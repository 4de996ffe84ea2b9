#!/usr/bin/env bash
# expect: nothing
set -euo pipefail
HERE=$(dirname "$(realpath "$0")")
python3 -m pip install -q --upgrade datasets pandas tiktoken
python3 -m pip install -q --no-deps "git+https://github.com/EleutherAI/lm-evaluation-harness.git@v0.4.9.1"
pip install -q --force-reinstall --no-deps pandas==2.2.3
pip install -q -e "$HERE/bench_client"
pip list --format=freeze | grep -iE '^(vllm|torch|triton|amd-aiter|lmcache)=' 
