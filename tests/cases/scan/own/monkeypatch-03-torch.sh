# expect: 2-5:monkeypatch
python3 - "$@" <<'EOF'
import torch, runpy
torch.compile = lambda fn, *a, **k: fn
runpy.run_module("vllm.entrypoints.openai.api_server", run_name="__main__")
EOF
