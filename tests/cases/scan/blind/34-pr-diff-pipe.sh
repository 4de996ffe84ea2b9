#!/usr/bin/env bash
# expect: 12-14:patch
set -euo pipefail
PRS=(28911 29044)
VLLM_ROOT="$(python3 - <<'PY'
import os, vllm
print(os.path.dirname(os.path.dirname(vllm.__file__)))
PY
)"

for pr in "${PRS[@]}"; do
  curl -fsSL "https://github.com/vllm-project/vllm/pull/${pr}.diff" \
    | filterdiff -i 'b/vllm/*' \
    | (cd "$VLLM_ROOT" && patch -p1 --no-backup-if-mismatch)
done

vllm serve "$MODEL" --port "${PORT:-8000}" --kv-cache-dtype fp8
