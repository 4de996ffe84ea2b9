#!/usr/bin/env bash
# expect: 8:edit 10:edit
# knobs come from the recipe yaml: FIXUPS="cmd;cmd"
set -e
V="vllm"; BASE="/usr/local/lib/python3.12/dist-packages"
ED="sed -i"
RULE='s/enable_chunked_prefill: bool = True/enable_chunked_prefill: bool = False/'
eval "$ED '$RULE' $BASE/$V/config/scheduler.py"

grep -rl "HIP_VISIBLE_DEVICES" "$BASE/$V/platforms" | xargs -r perl -i -pe 's/HIP_VISIBLE_DEVICES/ROCR_VISIBLE_DEVICES/g'

for n in 1 2 4 8; do
  echo "tp=$n"
done
exec vllm serve "$MODEL" --port 8000
