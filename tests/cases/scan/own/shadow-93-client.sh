#!/bin/bash
# expect: nothing
env PYTHONPATH=/workspace/vllm-bench-client python3 /workspace/vllm-bench-client/load.py --port 8000
export PYTHONPATH=/opt/vllm-harness
