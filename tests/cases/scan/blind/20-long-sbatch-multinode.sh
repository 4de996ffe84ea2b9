#!/bin/bash
# expect: nothing
#SBATCH --job-name=v32-wideep
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --gpus-per-node=8
#SBATCH --time=04:00:00

set -euo pipefail

REPO=${SLURM_SUBMIT_DIR:-$PWD}
RESULTS=$REPO/results/$SLURM_JOB_ID
IMAGE=${IMAGE:-vllm/vllm-openai-rocm:nightly-8c2a1f0}
MODEL=${MODEL:-deepseek-ai/DeepSeek-V3.2}
CONCS=(${CONCS:-32 128 512})
ISL=${ISL:-1024} OSL=${OSL:-1024}
mkdir -p "$RESULTS"

log() { echo "[$(date +%T)] $*"; }

mapfile -t HOSTS < <(scontrol show hostnames "$SLURM_JOB_NODELIST")
HEAD=${HOSTS[0]}
HEAD_IP=$(srun -N1 -n1 -w "$HEAD" hostname -I | awk '{print $1}')
log "nodes: ${HOSTS[*]} head: $HEAD_IP"

# server config is rendered per job
cat > "$RESULTS/server.yaml" <<EOF
model: $MODEL
tensor-parallel-size: 1
data-parallel-size: 16
data-parallel-size-local: 8
data-parallel-address: $HEAD_IP
data-parallel-rpc-port: 13345
enable-expert-parallel: true
block-size: 1
EOF
sed -i '/^$/d' "$RESULTS/server.yaml"

cat > "$RESULTS/inner.sh" <<'EOF'
#!/bin/bash
set -euo pipefail
export VLLM_ROCM_USE_AITER=1
export GLOO_SOCKET_IFNAME=${IFACE:-eth0}
pip install -q pandas datasets
python3 - <<'PY'
import vllm, torch
print("vllm", vllm.__version__, "torch", torch.__version__)
PY
args=(--config /results/server.yaml --port 8000)
if [[ $SLURM_PROCID -gt 0 ]]; then
  args+=(--headless --data-parallel-start-rank $((SLURM_PROCID * 8)))
fi
exec vllm serve "${args[@]}" > "/results/server.$SLURM_PROCID.log" 2>&1
EOF
chmod +x "$RESULTS/inner.sh"

cleanup() {
  log "cleanup"
  srun --overlap -N "$SLURM_NNODES" bash -c 'docker rm -f v32 >/dev/null 2>&1 || true'
  rm -f "$RESULTS"/core.*
}
trap cleanup EXIT

log "start servers"
srun --export=ALL,RESULTS="$RESULTS" bash -c "docker run --rm --name v32 \
  --network host --ipc host --privileged \
  --device /dev/kfd --device /dev/dri --device /dev/infiniband \
  -v /shared/models:/root/.cache/huggingface -v $RESULTS:/results -v $REPO:/workspace \
  -e SLURM_PROCID -e HF_TOKEN --entrypoint /bin/bash $IMAGE /results/inner.sh" &

for _ in $(seq 360); do
  curl -sf "http://$HEAD_IP:8000/health" >/dev/null && break
  sleep 5
done

log "sweep"
for c in "${CONCS[@]}"; do
  srun --overlap -N1 -n1 -w "$HEAD" docker exec v32 vllm bench serve \
    --model "$MODEL" --port 8000 --dataset-name random \
    --random-input-len "$ISL" --random-output-len "$OSL" \
    --max-concurrency "$c" --num-prompts $((c * 10)) \
    --save-result --result-dir /results --result-filename "c$c.json"
done

log "summary"
python3 - "$RESULTS" <<'PY'
import glob, json, sys
rows = []
for f in sorted(glob.glob(sys.argv[1] + "/c*.json")):
    d = json.load(open(f))
    rows.append((d["max_concurrency"], d["output_throughput"]))
with open(sys.argv[1] + "/summary.csv", "w") as fh:
    fh.write("conc,tput\n")
    fh.writelines(f"{a},{b:.1f}\n" for a, b in rows)
PY
cp "$RESULTS/summary.csv" "$REPO/results/latest.csv"
mv "$RESULTS"/server.*.log "$RESULTS/../" 2>/dev/null || true
log "done"
