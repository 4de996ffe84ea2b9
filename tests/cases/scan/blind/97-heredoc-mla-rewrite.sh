#!/usr/bin/env bash
# expect: 6-12:edit
set -euo pipefail
export VLLM_ROCM_USE_AITER=1 VLLM_ROCM_USE_AITER_MLA=1

python3 - <<'PY'
import pathlib, vllm
p = pathlib.Path(vllm.__file__).parent / "v1/attention/backends/mla/rocm_aiter_mla.py"
s = p.read_text()
old = "max_num_splits = 16"
if old in s:
    p.write_text(s.replace(old, "max_num_splits = 32"))
    print("rocm_aiter_mla.py: splits 16 -> 32")
else:
    print("rocm_aiter_mla.py: nothing to do")
PY

vllm serve deepseek-ai/DeepSeek-V3.2 --tensor-parallel-size 8 --block-size 1
