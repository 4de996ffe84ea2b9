#!/bin/bash
# expect: nothing
set -e
HERE=$(cd "$(dirname "$0")" && pwd)
git clone -q https://github.com/acme/vllm-bench-configs /tmp/vllm-bench-configs
cd /tmp/vllm-bench-configs
patch -p1 --forward < "$HERE/third_party/bench-configs-local.patch"
sed -i "s/max_num_seqs: .*/max_num_seqs: ${CONC:-64}/" vllm/mi355x.yaml
cp vllm/mi355x.yaml /workspace/server.yaml
vllm serve --config /workspace/server.yaml
