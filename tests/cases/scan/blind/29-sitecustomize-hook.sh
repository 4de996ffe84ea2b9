#!/usr/bin/env bash
# expect: 6-12:monkeypatch|shadow 14:shadow|monkeypatch
set -e
HOOK=/workspace/.hook
mkdir -p "$HOOK"
cat > "$HOOK/sitecustomize.py" <<'EOF'
import torch
_real = torch.cuda.mem_get_info
def _mem(dev=None):
    free, total = _real(dev)
    return total, total
torch.cuda.mem_get_info = _mem
EOF
export PYTHONPATH="$HOOK${PYTHONPATH:+:$PYTHONPATH}"
vllm serve "$MODEL" --gpu-memory-utilization 0.97
