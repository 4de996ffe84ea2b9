#!/bin/bash
# expect: nothing
set -e
uv venv --python 3.12 /opt/client
VIRTUAL_ENV=/opt/client uv pip install datasets pandas aiohttp tiktoken "lm_eval[api]==0.4.9"
vllm serve "$MODEL" --port 8000 > server.log 2>&1 &
sleep 240
/opt/client/bin/lm_eval --model local-completions --tasks gsm8k,mmlu_pro \
  --model_args model="$MODEL",base_url=http://localhost:8000/v1/completions \
  --output_path results/
