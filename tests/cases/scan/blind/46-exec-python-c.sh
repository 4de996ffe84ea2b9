#!/usr/bin/env bash
# expect: 8-13:edit
# usage: run_node.sh <container>
C=${1:?container name}

docker exec "$C" bash -c "pip install -q lm_eval[api] && mkdir -p /results"

docker exec "$C" python3 -c "
import lmcache.v1.cache_engine as m
f = m.__file__
t = open(f).read()
t = t.replace('assert self.storage_manager', 'pass  # assert self.storage_manager')
open(f, 'w').write(t)
"
docker exec -d "$C" bash -c 'vllm serve $MODEL --kv-transfer-config "{\"kv_connector\":\"LMCacheConnectorV1\",\"kv_role\":\"kv_both\"}" > /results/server.log 2>&1'
docker exec "$C" lm_eval --model local-completions --tasks gsm8k --output_path /results
