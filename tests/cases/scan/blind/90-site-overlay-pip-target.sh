#!/usr/bin/env bash
# expect: 5:install 6:shadow
set -e
OVERLAY=/opt/overlay
uv pip install --target "$OVERLAY" --no-deps "triton @ https://download.pytorch.org/whl/nightly/pytorch_triton_rocm-3.6.0-cp312-cp312-linux_x86_64.whl"
PYTHONPATH=$OVERLAY:$PYTHONPATH exec vllm serve "$MODEL" -tp 4
