# expect: nothing
import os
import signal
import subprocess
import sys
import time
import urllib.request

env = dict(os.environ)
env.update({
    "VLLM_ROCM_USE_AITER": "1",
    "VLLM_CACHE_ROOT": "/tmp/vllm-cache",
    "NCCL_MIN_NCHANNELS": "112",
})
cmd = ["vllm", "serve", env["MODEL"], "--port", "8000", *sys.argv[1:]]
log = open("/workspace/server.log", "w")
proc = subprocess.Popen(cmd, env=env, stdout=log, stderr=subprocess.STDOUT)
signal.signal(signal.SIGTERM, lambda *_: proc.terminate())

deadline = time.time() + 1800
while time.time() < deadline:
    try:
        urllib.request.urlopen("http://localhost:8000/health", timeout=2)
        print("ready")
        break
    except OSError:
        if proc.poll() is not None:
            sys.exit(proc.returncode)
        time.sleep(5)
proc.wait()
