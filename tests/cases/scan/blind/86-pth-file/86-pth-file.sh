#!/bin/bash
# expect: 5:shadow|overwrite|monkeypatch 6:monkeypatch|shadow|overwrite
S=$(python3 -c 'import sysconfig; print(sysconfig.get_paths()["purelib"])')
R=$(cd "$(dirname "$0")"; pwd)
echo "$R/overrides" > "$S/zz_bench.pth"
echo "import vllm_boot" >> "$S/zz_bench.pth"
vllm serve "$MODEL" --port 8000 &
