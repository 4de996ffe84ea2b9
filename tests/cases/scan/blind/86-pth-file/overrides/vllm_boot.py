# expect: 13:monkeypatch
import importlib.abc
import sys


class _Boot(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name == "vllm.v1.sample.sampler":
            sys.modules.pop("vllm.v1.sample.ops", None)
        return None


sys.meta_path.insert(0, _Boot())
