# expect: 4-9:edit
# The rewriter is written to a file first, then run in the container.
cat > /tmp/fix_kv.py <<'EOF'
import pathlib, sys
root = pathlib.Path("/opt/venv/lib/python3.12/site-packages/sglang")
for name in ["srt/layers/attention/aiter_backend.py", "srt/utils.py"]:
    file = root / name
    source = file.read_text()
    file.write_text(source.replace("int32", "int64"))
EOF
docker cp /tmp/fix_kv.py server:/tmp/ && docker exec server python3 /tmp/fix_kv.py
