#!/bin/bash
# expect: 56-65:patch 57-65:overwrite
#SBATCH --job-name=dsr1-pd
#SBATCH --nodes=4
#SBATCH --ntasks-per-node=1
#SBATCH --gpus-per-node=8
#SBATCH --time=04:00:00
#SBATCH --output=%x-%j.out

set -euo pipefail

# ---------------------------------------------------------------- settings
REPO=${SLURM_SUBMIT_DIR:-$PWD}
MODEL=${MODEL:-deepseek-ai/DeepSeek-R1-0528}
PREFILL_NODES=${PREFILL_NODES:-2}
DECODE_NODES=${DECODE_NODES:-2}
ISL=${ISL:-8192}
OSL=${OSL:-1024}
CONCS=${CONCS:-"32 64 128 256"}
IMAGE=${IMAGE:-vllm/vllm-openai-rocm:nightly-4fd1e22}
RESULTS=$REPO/results/$SLURM_JOB_ID
mkdir -p "$RESULTS"

mapfile -t HOSTS < <(scontrol show hostnames "$SLURM_JOB_NODELIST")
HEAD=${HOSTS[0]}
HEAD_IP=$(getent hosts "$HEAD" | awk '{print $1}')
echo "head: $HEAD ($HEAD_IP); image: $IMAGE"

# ---------------------------------------------------------------- proxy conf
cat > "$RESULTS/proxy.yaml" <<EOF
listen: 0.0.0.0:9000
prefill: [$(printf '"%s:8100",' "${HOSTS[@]:0:$PREFILL_NODES}" | sed 's/,$//')]
decode:  [$(printf '"%s:8200",' "${HOSTS[@]:$PREFILL_NODES}" | sed 's/,$//')]
EOF
sed -i 's/\.cluster\.local//g' "$RESULTS/proxy.yaml"

# ---------------------------------------------------------------- containers
start_container() {
  local host=$1 name=$2
  srun -N1 -n1 -w "$host" docker run -d --rm --name "$name" \
    --network host --ipc host --privileged \
    --device /dev/kfd --device /dev/dri --device /dev/infiniband \
    -v /shared/models:/root/.cache/huggingface \
    -v "$REPO:/workspace" -v "$RESULTS:/results" \
    --entrypoint sleep "$IMAGE" infinity
}

in_container() {
  local host=$1 name=$2; shift 2
  srun --overlap -N1 -n1 -w "$host" docker exec "$name" bash -c "$*"
}

prepare() {
  local host=$1 name=$2
  in_container "$host" "$name" "pip install -q aiohttp pandas quart"
  in_container "$host" "$name" "cd /usr/local/lib/python3.12/dist-packages && git apply --unsafe-paths /workspace/patches/vllm-mla-fp8-decode.patch"
  in_container "$host" "$name" "cp /workspace/overrides/lmcache_connector.py \$(python3 -c 'import lmcache,os;print(os.path.dirname(lmcache.__file__))')/integration/vllm/"
  in_container "$host" "$name" "rdma link show > /results/rdma-$host.txt || true"
}

i=0
for host in "${HOSTS[@]}"; do
  if (( i < PREFILL_NODES )); then role=prefill; else role=decode; fi
  start_container "$host" "pd-$role"
  prepare "$host" "pd-$role"
  i=$((i + 1))
done

# ---------------------------------------------------------------- servers
for host in "${HOSTS[@]:0:$PREFILL_NODES}"; do
  in_container "$host" pd-prefill "VLLM_ROCM_USE_AITER=1 vllm serve $MODEL -tp 8 --port 8100 \
    --kv-transfer-config '{\"kv_connector\":\"NixlConnector\",\"kv_role\":\"kv_producer\"}' \
    > /results/prefill-$host.log 2>&1" &
done
for host in "${HOSTS[@]:$PREFILL_NODES}"; do
  in_container "$host" pd-decode "VLLM_ROCM_USE_AITER=1 vllm serve $MODEL -tp 8 --port 8200 \
    --kv-transfer-config '{\"kv_connector\":\"NixlConnector\",\"kv_role\":\"kv_consumer\"}' \
    > /results/decode-$host.log 2>&1" &
done

wait_up() { until curl -sf "http://$1/health" >/dev/null; do sleep 10; done; }
for host in "${HOSTS[@]:0:$PREFILL_NODES}"; do wait_up "$host:8100"; done
for host in "${HOSTS[@]:$PREFILL_NODES}"; do wait_up "$host:8200"; done

in_container "$HEAD" pd-prefill "python3 /workspace/proxy.py --config /results/proxy.yaml" &
sleep 10

# ---------------------------------------------------------------- sweep
for c in $CONCS; do
  in_container "$HEAD" pd-prefill "vllm bench serve --model $MODEL --base-url http://$HEAD_IP:9000 \
    --dataset-name random --random-input-len $ISL --random-output-len $OSL \
    --max-concurrency $c --num-prompts $((c * 10)) --save-result \
    --result-dir /results --result-filename conc$c.json"
done

for host in "${HOSTS[@]}"; do
  srun --overlap -N1 -n1 -w "$host" bash -c 'docker rm -f pd-prefill pd-decode 2>/dev/null || true'
done
cp "$RESULTS"/conc*.json "$REPO/results/"
