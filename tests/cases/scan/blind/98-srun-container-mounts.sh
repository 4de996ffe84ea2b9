#!/bin/bash
# expect: 13-17:mount
#SBATCH --job-name=dsr1-disagg
#SBATCH --nodes=2
#SBATCH --gpus-per-node=8
#SBATCH --time=02:00:00

IMG=/shared/sqsh/vllm-rocm-nightly.sqsh
CODE=/shared/$USER/bench
STACK=/usr/local/lib/python3.12/dist-packages

MOUNTS="$CODE:/workspace,/shared/models:/models"
MOUNTS+=",$CODE/lmcache-dev/lmcache:$STACK/lmcache"

srun --ntasks-per-node=1 \
     --container-image="$IMG" \
     --container-mounts="$MOUNTS" \
     --container-workdir=/workspace \
     bash -c 'bash /workspace/serve_$([[ $SLURM_PROCID == 0 ]] && echo prefill || echo decode).sh'
