#!/bin/bash
# expect: 8:edit
# Qwen3-235B-A22B FP8, mi325x
source "$(dirname "$0")/benchmark_lib.sh"
check_env_vars MODEL TP CONC ISL OSL RESULT_FILENAME

VLLM_DIR=$(python3 -c "import vllm, os; print(os.path.dirname(vllm.__file__))" 2>/dev/null)
sed -i 's/router_logits_dtype = torch.bfloat16/router_logits_dtype = torch.float32/' \
    "$VLLM_DIR/model_executor/models/qwen3_moe.py"

export VLLM_ROCM_USE_AITER=1
set -x
vllm serve "$MODEL" --port "$PORT" --tensor-parallel-size "$TP" \
    --gpu-memory-utilization 0.92 > "$SERVER_LOG" 2>&1 &
wait_for_server_ready --port "$PORT" --server-log "$SERVER_LOG" --server-pid $!
run_benchmark_serving --model "$MODEL" --port "$PORT" --backend vllm \
    --input-len "$ISL" --output-len "$OSL" --max-concurrency "$CONC" \
    --result-filename "$RESULT_FILENAME" --result-dir /workspace/
