#!/bin/bash
# expect: nothing
C=bench-$RANDOM
docker run -d --name $C --network host --device /dev/kfd --device /dev/dri \
  -v /models:/models:ro --entrypoint sleep vllm/vllm-openai-rocm:nightly-4fd1e22 infinity
docker cp ./bench_client $C:/workspace/bench_client
docker exec $C bash -c "pip install -q pandas aiohttp; cd /workspace && PYTHONPATH=bench_client python3 -m bench --help"
docker exec -d $C bash -c "vllm serve /models/gpt-oss-120b --port 8000 > /tmp/server.log 2>&1"
docker exec $C python3 -c "
import json, vllm
print(json.dumps({'vllm': vllm.__version__}))
" > engine.json
docker cp $C:/usr/local/lib/python3.12/dist-packages/vllm/version.py ./artifacts/vllm_version.py
docker cp $C:/tmp/server.log ./artifacts/
docker rm -f $C
