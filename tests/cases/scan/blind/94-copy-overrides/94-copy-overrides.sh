#!/usr/bin/env bash
# expect: 16:overwrite
set -o errexit -o nounset

root=$(realpath "$(dirname "$0")")
dst=/usr/local/lib/python3.12/dist-packages

files=(
  "rocm.py:vllm/platforms/rocm.py"
  "topk.py:aiter/ops/topk.py"
  "a8w8_tuned_gemm.csv:aiter_meta/aiter/configs/a8w8_tuned_gemm.csv"
)
for entry in "${files[@]}"; do
  src=${entry%%:*}
  rel=${entry#*:}
  cp -v "$root/overrides/$src" "$dst/$rel"
done

mkdir -p /workspace/results
cp "$root"/*.json /workspace/results/ 2>/dev/null || true
vllm serve "$MODEL" --tensor-parallel-size "${TP:-8}"
