#!/bin/bash
# expect: nothing
set -e
W=$(mktemp -d)
cp -r /usr/local/lib/python3.12/dist-packages/vllm/model_executor/layers/fused_moe/configs "$W/vllm-configs"
cd "$W"
find vllm-configs -name '*.json' ! -name '*AMD*' -delete
sed -i 's/AMD_Instinct_//' vllm-configs/*.json
tar -czf /results/moe-configs.tgz vllm-configs
cd / && rm -rf "$W"
