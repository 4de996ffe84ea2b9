# expect: 6:shadow 12:shadow
import os
import sys

ROOT = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(ROOT, "third_party", "aiter-fork"))

import aiter  # noqa: E402
from vllm.entrypoints.cli.main import main  # noqa: E402

print("aiter from", aiter.__file__, flush=True)
os.environ["PYTHONPATH"] = ":".join(sys.path[:1] + [os.environ.get("PYTHONPATH", "")])
sys.argv = ["vllm", "serve", os.environ["MODEL"], "--tensor-parallel-size", os.environ.get("TP", "8")]
main()
