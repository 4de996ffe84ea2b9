#!/bin/bash
# expect: nothing
set -e
git clone -q --depth 1 -b v0.4.9 https://github.com/EleutherAI/lm-evaluation-harness /workspace/lm-eval
sed -i 's/num_fewshot: 5/num_fewshot: 8/' /workspace/lm-eval/lm_eval/tasks/gsm8k/gsm8k.yaml
sed -i 's/timeout: int = 300/timeout: int = 3600/' /workspace/lm-eval/lm_eval/models/api_models.py
pip install -q -e "/workspace/lm-eval[api]"
lm_eval --model local-chat-completions --apply_chat_template --tasks gsm8k \
  --model_args "model=$MODEL,base_url=http://localhost:8000/v1/chat/completions" --output_path /results
