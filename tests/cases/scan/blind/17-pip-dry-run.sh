#!/bin/bash
# expect: nothing
pip show vllm amd-aiter triton 2>/dev/null | grep -E '^(Name|Version|Location)'
pip install --dry-run --no-deps vllm==0.12.0 2>&1 | tail -1
pip index versions lmcache 2>/dev/null | head -1
pip config list
pip install -q tiktoken pandas
echo "engine stays at $(python3 -c 'import vllm; print(vllm.__version__)')"
