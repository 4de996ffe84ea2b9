# expect: 14:monkeypatch 23:monkeypatch
import importlib
import sys


class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == "vllm.v1.sample.sampler":
            print("sampler")
        return None


sys.path_importer_cache.clear()
sys.meta_path.insert(0, Finder())
CHANGES = {
    "vllm.envs": ("VLLM_ROCM_USE_AITER", True),
    "datasets.config": ("IN_MEMORY_MAX_SIZE", 0),
}


def install():
    for name, (attribute, value) in CHANGES.items():
        setattr(importlib.import_module(name), attribute, value)


install()
