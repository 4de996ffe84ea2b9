#!/bin/bash
# expect: nothing
set -e
cat > /tmp/vllm_config.yaml <<EOF
model: ${MODEL}
tensor-parallel-size: ${TP}
max-num-seqs: ${CONC}
compilation-config: '{"cudagraph_mode":"FULL_DECODE_ONLY"}'
EOF
vllm serve --config /tmp/vllm_config.yaml > /tmp/server.log 2>&1 &
until curl -sf localhost:8000/health; do sleep 5; done
vllm bench serve --model "$MODEL" --save-result --result-dir /results --result-filename raw.json

python3 - <<'PY'
import json, pathlib
p = pathlib.Path("/results/raw.json")
d = json.loads(p.read_text())
text = p.read_text().replace("NaN", "null")
d["tput_per_gpu"] = d["total_token_throughput"] / 8
pathlib.Path("/results/agg.json").write_text(json.dumps(d))
p.write_text(text)
PY
