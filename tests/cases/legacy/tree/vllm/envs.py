"""Settings read from the environment."""

from __future__ import annotations

import math

VLLM_ROCM_USE_AITER = False
VLLM_ROCM_USE_AITER_MLA = True
VLLM_ROCM_FP8_PADDING = True
VLLM_USE_V2_RUNNER = False


def read(name, default):
    value = default

    if name:
        value = default or name

    return value
