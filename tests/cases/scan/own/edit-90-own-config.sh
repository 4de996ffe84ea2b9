# expect: nothing
# Rewrites its own files, next to the engine.
sed -i "s/@MODEL@/$MODEL/" config/serve.yaml
sed -i 's/^port:.*/port: 8000/' /etc/lmcache.yaml
python3 - <<'PY'
import json, pathlib
result = pathlib.Path("results/vllm/summary.json")
data = json.loads(result.read_text())
data["engine"] = "vllm"
result.write_text(json.dumps(data))
PY
sed 's/a/b/' /usr/local/lib/python3.12/dist-packages/vllm/envs.py | head -3
