#!/bin/bash
# expect: 5-13:edit
TARGET=/usr/local/lib/python3.12/dist-packages/aiter/fused_moe.py

cat >/tmp/_fix.py <<EOF
import re, sys
src = open(sys.argv[1]).read()
src = re.sub(r"if token_num < 16:", "if token_num < ${MOE_THRESH:-64}:", src)
open(sys.argv[1], "w").write(src)
EOF

echo "adjusting MoE threshold to ${MOE_THRESH:-64}"
python3 /tmp/_fix.py "$TARGET"
python3 -m compileall -q "$TARGET"
vllm serve "$MODEL" --tensor-parallel-size "$TP" &
