# expect: nothing
import torch
from vllm import LLM, SamplingParams

torch.backends.cuda.matmul.allow_tf32 = True
torch._dynamo.config.cache_size_limit = 64
llm = LLM(model="x")
llm.tag = "run-1"
params = SamplingParams()
params.seed = 3


class Probe:
    def __init__(self):
        self.vllm = llm


Probe.run = lambda self: self.vllm.generate("x")
