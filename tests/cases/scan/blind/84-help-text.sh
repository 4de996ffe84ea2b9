#!/usr/bin/env bash
# expect: nothing
# Do NOT `pip install vllm` or `git apply` here. The image runs as shipped.
# sed -i 's/x/y/' /usr/local/lib/python3.12/dist-packages/vllm/envs.py   <- removed in #512
set -eu
usage() {
  cat <<'EOF'
If the nightly has a bug, open an issue upstream. Not accepted:
  patch -p1 -d /usr/local/lib/python3.12/dist-packages < fix.patch
  cp my_rocm.py /usr/local/lib/python3.12/dist-packages/vllm/platforms/rocm.py
EOF
}
[[ $# -gt 0 ]] || { usage; exit 2; }
echo "note: 'pip install --force-reinstall vllm' is forbidden, pick another nightly instead"
exec vllm serve "$1" --port "${PORT:-8000}"
