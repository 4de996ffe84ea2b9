#!/usr/bin/env bash
# expect: nothing
set -euo pipefail
W=/tmp/vllm-history
[[ -d $W ]] || git clone -q --filter=blob:none https://github.com/vllm-project/vllm "$W"
cd "$W"
sha=$(python3 -c 'import vllm, re; print(re.search(r"g([0-9a-f]{7,})", vllm.__version__).group(1))')
git checkout -q "$sha"
git log --oneline -20 -- vllm/platforms/rocm.py | tee /results/rocm-log.txt
git format-patch -1 --stdout "$sha" > /results/head-commit.txt
git grep -n "VLLM_ROCM_USE_AITER" -- vllm/envs.py | sed 's/^/  /'
