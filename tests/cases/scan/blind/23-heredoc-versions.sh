#!/usr/bin/env bash
# expect: nothing
set -euo pipefail
python3 - <<'PY'
import importlib
for name in ("vllm", "aiter", "triton", "torch", "lmcache"):
    try:
        m = importlib.import_module(name)
        print(f"{name:10s} {getattr(m, '__version__', '?'):20s} {m.__file__}")
    except Exception as e:
        print(name, "-", e)
PY

python3 - "$RESULT_JSON" <<'PY'
import json, statistics, sys
d = json.load(open(sys.argv[1]))
itl = [x for seq in d["itls"] for x in seq]
print("p50", statistics.median(itl), "p99", sorted(itl)[int(len(itl) * .99)])
PY
