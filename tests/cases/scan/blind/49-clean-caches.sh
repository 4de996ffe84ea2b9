#!/bin/bash
# expect: nothing
set -u
rm -rf ~/.cache/vllm/torch_compile_cache ~/.triton/cache /tmp/torchinductor_*
rm -f /workspace/vllm_*.log /workspace/aiter_*.log
rm -rf /workspace/client/build
make -C /workspace/client clean all
find /workspace/results -name '*.tmp' -delete
docker image prune -f >/dev/null 2>&1 || true
