#!/bin/bash
# expect: nothing
set -e
OUT=${1:-artifacts}
mkdir -p "$OUT"
cd "$(git rev-parse --show-toplevel)"
git rev-parse HEAD > "$OUT/harness.commit"
git diff HEAD > "$OUT/harness-dirty.diff"
if [[ -s $OUT/harness-dirty.diff ]]; then
  git stash list | head -3
  git apply --check -R "$OUT/harness-dirty.diff" && echo "recorded diff is consistent"
fi
pip freeze > "$OUT/pip-freeze.txt"
python3 -c 'import vllm, torch; print(vllm.__version__, torch.version.hip)' | tee "$OUT/engine.txt"
