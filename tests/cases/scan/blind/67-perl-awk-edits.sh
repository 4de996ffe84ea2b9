#!/bin/bash
# expect: 7:edit 10:overwrite 12:edit
set -eu
D=/usr/local/lib/python3.12/dist-packages

# raise the custom all-reduce ceiling to 64MB
perl -0pi -e 's/max_size\s*=\s*8192\s*\*\s*1024/max_size = 65536 * 1024/' ${D}/vllm/distributed/device_communicators/custom_all_reduce.py

awk '/waves_per_eu/ { sub(/2/, "1") } { print }' $D/aiter/ops/triton/gemm_a8w8.py > /tmp/gemm_a8w8.py
mv -f /tmp/gemm_a8w8.py $D/aiter/ops/triton/gemm_a8w8.py

find "$D/triton/backends/amd" -name 'compiler.py' -exec sed -i 's/num_stages: int = 2/num_stages: int = 1/' {} +

find "$D" -name '__pycache__' -path '*aiter/ops*' | head -3
exec vllm serve "$@"
