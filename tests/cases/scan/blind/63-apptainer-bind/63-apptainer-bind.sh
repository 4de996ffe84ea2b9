#!/bin/bash
# expect: 8-11:mount
#SBATCH -N 1 --gres=gpu:8 -t 90
SIF=/scratch/images/vllm-rocm-nightly.sif
DP=/usr/local/lib/python3.12/dist-packages
BINDS=(
  --bind "/scratch/hf:/root/.cache/huggingface"
  --bind "$SLURM_SUBMIT_DIR/overrides/topk.py:$DP/aiter/ops/topk.py"
  --bind "/scratch/$USER/results:/results"
)
apptainer exec --rocm "${BINDS[@]}" "$SIF" \
  vllm serve amd/Llama-3.1-405B-Instruct-MXFP4-Preview --tensor-parallel-size 8
