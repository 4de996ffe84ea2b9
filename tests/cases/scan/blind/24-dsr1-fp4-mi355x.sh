#!/usr/bin/env bash
# expect: nothing
source "$(dirname "$0")/benchmark_lib.sh"
check_env_vars MODEL TP CONC ISL OSL RANDOM_RANGE_RATIO RESULT_FILENAME

if [[ -n "${SLURM_JOB_ID:-}" ]]; then
  echo "JOB $SLURM_JOB_ID running on $SLURMD_NODENAME"
fi

hf download "$MODEL"
pip install -q datasets pandas

export VLLM_ROCM_USE_AITER=1
export VLLM_ROCM_USE_AITER_FP4BMM=1
export HSA_NO_SCRATCH_RECLAIM=1

SERVER_LOG=/workspace/server.log
set -x
vllm serve "$MODEL" --port "$PORT" --tensor-parallel-size "$TP" \
    --max-model-len $((ISL + OSL + 200)) --no-enable-prefix-caching > "$SERVER_LOG" 2>&1 &
wait_for_server_ready --port "$PORT" --server-log "$SERVER_LOG" --server-pid $!
run_benchmark_serving --model "$MODEL" --port "$PORT" --backend vllm \
    --input-len "$ISL" --output-len "$OSL" --result-filename "$RESULT_FILENAME" --result-dir /workspace/
cp /workspace/"$RESULT_FILENAME".json "${ARTIFACT_DIR:-/workspace/artifacts}/"
