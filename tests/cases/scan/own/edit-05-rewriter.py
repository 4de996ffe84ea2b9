"""Rewrites an attention backend of the installed engine."""
# expect: 11:edit
import os
import vllm

ROOT = os.path.dirname(vllm.__file__)


def rewrite(relative, old, new):
    path = os.path.join(ROOT, relative)
    data = open(path).read().replace(old, new); open(path, "w").write(data)


rewrite("v1/worker/gpu/model_runner.py", "a", "b")
