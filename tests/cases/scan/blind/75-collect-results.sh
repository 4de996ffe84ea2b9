#!/usr/bin/env bash
# expect: nothing
set -eu
RUN=${1:?run id}
SRC=/workspace
DST=/shared/results/vllm/$RUN
mkdir -p "$DST"/{json,logs,aiter}

mv "$SRC"/results_*.json "$DST/json/"
cp -p "$SRC"/server.log "$DST/logs/vllm_server.log"
find "$SRC" -maxdepth 1 -name 'aiter_*.log' -exec mv {} "$DST/aiter/" \;
{ date -u; uname -a; rocm-smi --showproductname; } | tee "$DST/logs/host.txt" > /dev/null
echo "$RUN" >> /shared/results/vllm/INDEX
rsync -a "$DST/" "archive:/srv/bench/$RUN/"
ln -sfn "$DST" /shared/results/vllm/latest
