# expect: 9:monkeypatch 10:monkeypatch 11:monkeypatch
"""A wrapper that turns the asm decode off for small heads, and sets what people may set."""
import torch
import vllm.v1.attention.backends.mla.rocm_aiter_mla as mla
from vllm.v1.attention.backends.mla.rocm_aiter_mla import AiterMLAImpl

torch.backends.cudnn.benchmark = True
torch.backends.cuda.matmul.allow_tf32 = True
mla.AiterMLAImpl.forward = lambda self, *a: None
AiterMLAImpl._forward_decode = None
setattr(mla.AiterMLAImpl, "num_heads", 16)
