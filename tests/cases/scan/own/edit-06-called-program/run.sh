#!/bin/bash
# expect: 4:edit 5:edit
HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
python3 "$HERE/tools/widen.py" --module vllm.config.cache
docker exec serve python3 /workspace/tools/widen.py --module aiter.ops.mha
python3 "$HERE/tools/summary.py" results/run.json
vllm serve "$MODEL"
