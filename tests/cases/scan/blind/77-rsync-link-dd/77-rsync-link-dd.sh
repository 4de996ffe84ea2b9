#!/usr/bin/env bash
# expect: 8:overwrite 9:overwrite 10:overwrite|shadow
set -e
SELF=$(dirname "$(readlink -f "$0")")
PY=python3.12
LIB=/usr/local/lib/$PY/dist-packages

rsync -a --exclude '*.pyc' "$SELF/overrides/aiter_ops/" "$LIB/aiter/ops/"
install -m 0644 "$SELF/overrides/lmcache_connector.py" "$LIB/lmcache/integration/vllm/vllm_v1_adapter.py"
ln -sfn /workspace/tuned/hip_attn.so "$LIB/vllm/_rocm_C.abi3.so"

echo "stack:"; $PY -c 'import vllm, torch; print(vllm.__version__, torch.__version__)'
vllm serve "${MODEL}" ${EXTRA_ARGS:-}
