#!/bin/bash
# expect: 9:overwrite 16:overwrite
# tuned fused-moe config for E=128,N=384 on MI325X, not in the image yet
set -euo pipefail

cfgdir=$(python3 -c 'import vllm.model_executor.layers.fused_moe as m, os; print(os.path.join(os.path.dirname(m.__file__), "configs"))')
name='E=128,N=384,device_name=AMD_Instinct_MI325X,dtype=fp8_w8a8.json'

tee "$cfgdir/$name" > /dev/null <<'JSON'
{
  "1":  {"BLOCK_SIZE_M": 16, "BLOCK_SIZE_N": 64,  "BLOCK_SIZE_K": 256, "GROUP_SIZE_M": 1},
  "64": {"BLOCK_SIZE_M": 32, "BLOCK_SIZE_N": 128, "BLOCK_SIZE_K": 128, "GROUP_SIZE_M": 4}
}
JSON

cat > /usr/local/lib/python3.12/dist-packages/aiter/jit/optCompilerConfig.local.json <<EOF
{"module_moe_asm": {"flags_extra_hip": ["-O3"]}}
EOF

vllm serve "$MODEL" --port 8000 2>&1 | tee /workspace/server.log
