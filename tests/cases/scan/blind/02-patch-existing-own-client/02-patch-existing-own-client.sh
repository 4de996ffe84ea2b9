#!/usr/bin/env bash
# expect: nothing
set -e
HERE="$(cd "$(dirname "$0")" && pwd)"
P="$HERE/third_party/genai-perf-sse.patch"
git clone -q --depth 1 https://github.com/triton-inference-server/perf_analyzer /tmp/perf_analyzer
if [[ -f $P ]]; then
  git -C /tmp/perf_analyzer apply --3way "$P"
fi
python3 -m venv /tmp/ga && /tmp/ga/bin/pip install -q /tmp/perf_analyzer/genai-perf
/tmp/ga/bin/genai-perf profile -m "$MODEL" --endpoint-type chat --url localhost:8000 --streaming
