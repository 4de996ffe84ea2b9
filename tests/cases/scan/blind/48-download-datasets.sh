#!/usr/bin/env bash
# expect: nothing
set -euo pipefail
DATA=${DATA:-/workspace/data}
mkdir -p "$DATA" "$HOME/bin"
curl -fsSL -o "$DATA/sharegpt.json" \
  https://huggingface.co/datasets/anon8231489123/ShareGPT_Vicuna_unfiltered/resolve/main/ShareGPT_V3_unfiltered_cleaned_split.json
wget -q -O "$DATA/sonnet.txt" https://raw.githubusercontent.com/vllm-project/vllm/main/benchmarks/sonnet.txt
curl -fsSL https://github.com/mikefarah/yq/releases/download/v4.44.3/yq_linux_amd64 -o "$HOME/bin/yq"
chmod +x "$HOME/bin/yq"
curl -sL https://artifacts.lab.local/prompts.tgz | tar -xz -C "$DATA"
hf download "$MODEL" --local-dir "/models/${MODEL##*/}"
