#!/usr/bin/env bash
# expect: 57:edit 64-68:edit
# ------------------------------------------------------------------
# MiniMax-M2 fp8 / MI355X / vLLM nightly - single node sweep
# ------------------------------------------------------------------
set -uo pipefail

usage() {
  cat <<'EOF'
usage: minimax.sh [-m model] [-t tp] [-c "conc list"] [-o outdir]
  Note: do not patch the image by hand; everything needed is done below.
EOF
}

MODEL=MiniMaxAI/MiniMax-M2
TP=4
CONCS="4 16 64"
OUT=/workspace/results
while getopts "m:t:c:o:h" opt; do
  case $opt in
    m) MODEL=$OPTARG ;;
    t) TP=$OPTARG ;;
    c) CONCS=$OPTARG ;;
    o) OUT=$OPTARG ;;
    h) usage; exit 0 ;;
    *) usage; exit 2 ;;
  esac
done
mkdir -p "$OUT"

log() { printf '[%(%H:%M:%S)T] %s\n' -1 "$*" | tee -a "$OUT/run.log"; }

PYBASE=/usr/local/lib/python3.12
ENGINE_HOME=$PYBASE/dist-packages/vllm
KERNEL_HOME=${PYBASE}/dist-packages/aiter

log "client dependencies"
pip install -q datasets pandas tiktoken 'lm_eval[api]>=0.4.8'

log "versions"
python3 - <<'EOF' | tee "$OUT/versions.json"
import json
from importlib.metadata import version, PackageNotFoundError
out = {}
for name in ("vllm", "torch", "triton", "amd-aiter", "lmcache"):
    try:
        out[name] = version(name)
    except PackageNotFoundError:
        out[name] = None
print(json.dumps(out, indent=1))
EOF

log "enable the 256-expert path"
(
  cd "$ENGINE_HOME/model_executor/models" || exit 1
  grep -n "num_experts" minimax_m2.py | head -5
  sed --in-place -e '/assert self.tp_size <= config.num_local_experts/d' minimax_m2.py
)

log "kernel choice"
export VLLM_ROCM_USE_AITER=1
export VLLM_ROCM_USE_AITER_MOE=1
if [[ ${FORCE_CK:-1} -eq 1 ]]; then
  python3 -c "
import sys
f = sys.argv[1] + '/fused_moe_bf16_asm.py'
lines = open(f).read().splitlines(True)
with open(f, 'w') as fh:
    for l in lines:
        fh.write(l.replace('use_asm = True', 'use_asm = False'))
" "$KERNEL_HOME"
fi

log "serve"
vllm serve "$MODEL" --tensor-parallel-size "$TP" --port 8000 \
  --enable-expert-parallel --trust-remote-code \
  --gpu-memory-utilization 0.93 > "$OUT/server.log" 2>&1 &
SERVER=$!
trap 'kill $SERVER 2>/dev/null; wait' EXIT

for _ in $(seq 1 240); do
  curl -sf localhost:8000/health >/dev/null && break
  kill -0 $SERVER || { log "server died"; tail -50 "$OUT/server.log"; exit 1; }
  sleep 5
done

for c in $CONCS; do
  log "concurrency $c"
  vllm bench serve --model "$MODEL" --port 8000 --dataset-name random \
    --random-input-len 1024 --random-output-len 1024 --max-concurrency "$c" \
    --num-prompts $((c * 10)) --save-result --result-dir "$OUT" \
    --result-filename "minimax_tp${TP}_c${c}.json"
done

log "accuracy"
lm_eval --model local-completions --tasks gsm8k --num_fewshot 5 \
  --model_args "model=$MODEL,base_url=http://localhost:8000/v1/completions,num_concurrent=64" \
  --output_path "$OUT/gsm8k"
log done
