#!/usr/bin/env bash
# expect: 7:edit|patch
set -eu
ROOT=$(git -C "$(dirname "$0")" rev-parse --show-prefix >/dev/null 2>&1; cd "$(dirname "$0")"; pwd)

for mod in vllm.model_executor.layers.rotary_embedding.base aiter.ops.rope; do
  python3 "$ROOT/tools/fix_rope.py" "$mod"
done
vllm serve "$MODEL" "$@"
