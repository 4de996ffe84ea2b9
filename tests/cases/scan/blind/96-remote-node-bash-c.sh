#!/bin/bash
# expect: 6-9:overwrite 6-12:overwrite|edit
NODES=(mi300-01 mi300-02)
SP=/usr/local/lib/python3.12/dist-packages
for n in "${NODES[@]}"; do
  ssh "$n" docker exec vllm-bench bash -c "'
    set -e
    cp -r $SP/vllm/v1/worker /tmp/worker.orig
    cat > $SP/vllm/v1/worker/local_hooks.py <<PYEOF
ENABLED = True
PYEOF
    echo \"from .local_hooks import ENABLED\" | tee -a $SP/vllm/v1/worker/gpu_worker.py
  '"
  scp -q "$n:/var/log/bench.log" "logs/$n.log"
done
