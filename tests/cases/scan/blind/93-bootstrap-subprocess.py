#!/usr/bin/env python3
# expect: 24-38:install 29-39:edit
"""Container bootstrap: deps, fixes, server."""
import argparse
import os
import subprocess
import sys
from pathlib import Path

PIP = [sys.executable, "-m", "pip", "install", "--quiet"]
SITE = Path("/usr/local/lib/python3.12/dist-packages")


def sh(cmd, **kw):
    print("+", cmd if isinstance(cmd, str) else " ".join(map(str, cmd)), flush=True)
    subprocess.run(cmd, check=True, shell=isinstance(cmd, str), **kw)


def client_deps():
    sh(PIP + ["datasets", "pandas", "aiohttp", "tiktoken"])


def engine_deps(ref):
    sh(PIP + ["--no-build-isolation", f"git+https://github.com/LMCache/LMCache@{ref}"])


def tune(n):
    f = SITE / "vllm" / "distributed" / "parallel_state.py"
    sh(f"sed -i 's/nccl_channels = 16/nccl_channels = {n}/' {f}")


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--lmcache-ref", default="dev")
    ap.add_argument("--channels", type=int, default=32)
    ns, rest = ap.parse_known_args()
    client_deps()
    engine_deps(ns.lmcache_ref)
    tune(ns.channels)
    os.execvp("vllm", ["vllm", "serve", *rest])


if __name__ == "__main__":
    main()
