#!/bin/bash
# expect: 3:overwrite 4:overwrite
git -C /app/vllm checkout -q v0.12.1
cd /sgl-workspace/sglang && git fetch -q && git reset --hard origin/fix
git log -1
git checkout --help
