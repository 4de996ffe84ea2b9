#!/bin/bash
# expect: 5-12:edit
# An inline rewriter, the kind the policy names.
log() { echo "$*"; }
python3 - <<'PY'
import importlib.util
path = importlib.util.find_spec("vllm.v1.attention.backends.mla.rocm_aiter_mla").origin
with open(path) as f:
    text = f.read()
assert text.count("batch <= 256") == 1
with open(path, "w") as f:
    f.write(text.replace("batch <= 256", "batch <= 512"))
PY
log done
