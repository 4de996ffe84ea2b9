# expect: nothing
import hashlib
import importlib.util
import inspect
import json
from pathlib import Path

out = {}
for name in ("vllm.platforms.rocm", "aiter.fused_moe", "lmcache.config"):
    spec = importlib.util.find_spec(name)
    if spec is None:
        continue
    src = Path(spec.origin).read_text()
    out[name] = {
        "path": spec.origin,
        "sha256": hashlib.sha256(src.encode()).hexdigest(),
        "has_gfx950": "gfx950" in src.replace("GFX", "gfx"),
    }

from vllm.engine.arg_utils import EngineArgs  # noqa: E402

out["engine_args"] = sorted(inspect.signature(EngineArgs).parameters)
Path("/results/probe.json").write_text(json.dumps(out, indent=1))
