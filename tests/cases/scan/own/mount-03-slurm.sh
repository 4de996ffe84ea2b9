#!/bin/bash
# expect: 4:mount
#SBATCH --nodes=2
srun --container-image=vllm.sqsh --container-mounts=/models:/models,$PWD/sched.py:/usr/local/lib/python3.12/dist-packages/vllm/v1/core/sched/scheduler.py bash serve.sh
