#!/usr/bin/env bash
# expect: 6:install|rebuild 7:install
set -euo pipefail
AITER_REF=${AITER_REF:-dev/perf-mi355}

python3 -m pip uninstall -y amd-aiter aiter || true
PREBUILD_KERNELS=0 GPU_ARCHS=gfx950 \
  python3 -m pip install --no-build-isolation \
  "git+https://github.com/ROCm/aiter.git@${AITER_REF}"

python3 -m pip install -q "git+https://github.com/EleutherAI/lm-evaluation-harness.git@v0.4.9"
python3 -c 'import aiter; print("aiter at", aiter.__path__)'
exec vllm serve "$MODEL" -tp "${TP}"
