# expect: 5:patch 6:edit
import subprocess

SITE = "/usr/local/lib/python3.12/dist-packages"
subprocess.run(["bash", "-c", f"cd {SITE} && curl -sL https://github.com/vllm-project/vllm/pull/1.diff | patch -p1"])
subprocess.check_call(["sudo", "sh", "-ec", f"sed -i s/16/32/ {SITE}/vllm/envs.py"])
subprocess.run(["bash", "-c", "vllm serve $MODEL > /tmp/serve.log"])
