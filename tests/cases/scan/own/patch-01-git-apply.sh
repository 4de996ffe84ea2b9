#!/bin/bash
# expect: 6:patch
# Applies a fix in the site directory before the server starts.
set -euo pipefail
SITE=$(python3 -c "import os, vllm; print(os.path.dirname(os.path.dirname(vllm.__file__)))")
cd "$SITE" && git apply -p1 <<'EOF_DIFF'
--- a/vllm/envs.py
+++ b/vllm/envs.py
@@ -1 +1 @@
-A = 1
+A = 2
EOF_DIFF
vllm serve "$MODEL"
