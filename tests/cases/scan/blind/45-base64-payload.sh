#!/bin/bash
# expect: 4:overwrite 5:overwrite|edit
P=/usr/local/lib/python3.12/dist-packages/vllm/reasoning
base64 -d <<< "ZnJvbSAuYWJzX3JlYXNvbmluZ19wYXJzZXJzIGltcG9ydCAqCg==" > $P/gptoss_fix.py
printf '%s\n' 'from . import gptoss_fix  # noqa' >> "$P/__init__.py"
vllm serve openai/gpt-oss-20b --reasoning-parser openai_gptoss --port 8000
