#!/bin/bash
# expect: 6:rebuild 7:rebuild 10:rebuild
set -uo pipefail

AITER=$(python3 -c "import aiter,os;print(os.path.dirname(aiter.__file__))")
rm -f "$AITER"/jit/module_moe_*.so
rm -rf "$AITER/jit/build"

# recompile with the newer hipcc flags
HIP_CLANG_FLAGS="-mllvm -amdgpu-early-inline-all=true" GPU_ARCHS=gfx950 \
    python3 -c "from aiter.jit.core import build_module_by_name as b; [b(m) for m in ('module_moe_asm','module_moe_sorting')]"

rm -rf /workspace/results/tmp ~/.cache/vllm/torch_compile_cache
vllm serve "$MODEL" -tp 8
