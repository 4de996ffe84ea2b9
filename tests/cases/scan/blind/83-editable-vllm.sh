#!/bin/bash
# expect: 8:install|rebuild
set -e
pushd /workspace >/dev/null
git clone --depth 1 -b "${VLLM_BRANCH:-rocm-attn-opt}" https://github.com/someorg/vllm.git vllm-src
cd vllm-src
python3 use_existing_torch.py
PYTORCH_ROCM_ARCH=gfx942 pip install -e . --no-build-isolation
popd >/dev/null
vllm serve "$MODEL" --max-num-seqs 512
