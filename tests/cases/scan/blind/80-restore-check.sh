#!/usr/bin/env bash
# expect: nothing
set -uo pipefail
SP=/usr/local/lib/python3.12/dist-packages
bad=0
for p in vllm aiter aiter_meta triton lmcache; do
  n=$(find "$SP/$p" \( -name '*.orig' -o -name '*.rej' -o -name '*.bak' \) 2>/dev/null | wc -l)
  (( n == 0 )) || { echo "$p: $n leftovers of patch/sed -i.bak"; bad=1; }
done
[[ -e $SP/sitecustomize.py ]] && { echo "sitecustomize present"; bad=1; }
[[ -z ${LD_PRELOAD:-} && -z ${PYTHONPATH:-} ]] || echo "note: LD_PRELOAD/PYTHONPATH set"
pip check > /tmp/pipcheck.txt 2>&1 || head -5 /tmp/pipcheck.txt
(cd "$SP" && sed -n 's/,sha256=.*//p' vllm-*.dist-info/RECORD | head -3)
exit $bad
