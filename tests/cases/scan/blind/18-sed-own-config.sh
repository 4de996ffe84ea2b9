#!/usr/bin/env bash
# expect: nothing
set -euo pipefail
cd "$(dirname "$0")"
CFG=run/vllm.yaml
mkdir -p run
cp templates/vllm.yaml "$CFG"

sed -i "s|__MODEL__|$MODEL|; s|__TP__|${TP:-8}|" "$CFG"
sed -i.bak -e '/^#/d' -e 's/[[:space:]]*$//' run/vllm.env
perl -pi -e 's/\r\n/\n/' run/prompts.csv
yq -i '.gpu-memory-utilization = 0.92' "$CFG"

vllm serve --config "$CFG"
