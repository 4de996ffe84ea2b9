#!/bin/bash
# expect: nothing
#SBATCH --job-name=qwen3-fp8
#SBATCH --nodes=1
#SBATCH --gpus-per-node=8
#SBATCH --time=03:00:00
set -euo pipefail
SQSH=/shared/sqsh/vllm-rocm-nightly-8c2a1f0.sqsh
[[ -f $SQSH ]] || srun -N1 enroot import -o "$SQSH" docker://vllm/vllm-openai-rocm:nightly-8c2a1f0
export MODEL=Qwen/Qwen3-235B-A22B-Instruct-2507-FP8 TP=8
for CONC in 4 16 64; do
  export CONC
  srun --container-image="$SQSH" --container-writable --no-container-entrypoint \
    --container-mounts="$PWD:/workspace,/shared/models:/root/.cache/huggingface,$PWD/results:/results" \
    --container-workdir=/workspace --export=ALL \
    bash -c 'pip install -q datasets pandas && bash benchmarks/qwen3.sh > /results/qwen3_c$CONC.log 2>&1'
done
