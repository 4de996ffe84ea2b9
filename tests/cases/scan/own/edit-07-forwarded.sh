#!/bin/bash
# expect: 7:edit 8:overwrite 9:install
remote() { ssh -o StrictHostKeyChecking=no "$HOST" docker exec serve bash -c "'$*'"; }
inside() { docker exec serve bash -c "$*"; }
try() { echo "+ $*"; "$@" || exit 1; }

inside "sed -i s/16/32/ /app/vllm/vllm/envs.py"
inside "cp /workspace/mla.py /usr/local/lib/python3.12/dist-packages/vllm/mla.py && echo done"
try pip install --no-deps "git+https://github.com/ROCm/aiter.git@feature/mla"
inside "rocm-smi > /results/smi.txt"
try pip install datasets
try vllm serve "$MODEL"
