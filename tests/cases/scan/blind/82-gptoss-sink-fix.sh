#!/bin/bash
# expect: 14:patch
# gpt-oss-120b, MI300X
set -e
SITE=$(python3 -c 'import site; print(site.getsitepackages()[0])')

cat > /tmp/sink.diff <<'EOF'
--- a/vllm/v1/attention/backends/rocm_aiter_unified_attn.py
+++ b/vllm/v1/attention/backends/rocm_aiter_unified_attn.py
@@ -112,7 +112,7 @@
-        assert sinks is None
+        assert sinks is None or sinks.dtype == torch.float32
EOF
patch -d "$SITE" -p1 --forward --batch < /tmp/sink.diff || true

vllm serve openai/gpt-oss-120b --tensor-parallel-size 1 --port 8000 \
  --compilation-config '{"cudagraph_mode": "FULL_AND_PIECEWISE"}' &
wait
