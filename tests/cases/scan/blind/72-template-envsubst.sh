#!/usr/bin/env bash
# expect: nothing
set -euo pipefail
RUN=/workspace/run; mkdir -p "$RUN"
envsubst < templates/server.yaml.in > "$RUN/server.yaml"
tee "$RUN/lmcache.yaml" >/dev/null <<EOF
chunk_size: 256
local_cpu: true
max_local_cpu_size: ${LMC_GB:-200}
EOF
truncate -s 0 "$RUN/server.log"
dd if=/dev/zero of="$RUN/disk.probe" bs=1M count=64 conv=fsync 2>"$RUN/disk.txt"; rm -f "$RUN/disk.probe"
LMCACHE_CONFIG_FILE="$RUN/lmcache.yaml" vllm serve --config "$RUN/server.yaml" \
  --kv-transfer-config '{"kv_connector":"LMCacheConnectorV1","kv_role":"kv_both"}' >> "$RUN/server.log" 2>&1 &
