#!/usr/bin/env bash
# expect: 7-10:mount 7-11:mount
IMAGE=vllm/vllm-openai-rocm:nightly-8c2a1f0
SP=/usr/local/lib/python3.12/dist-packages
HERE=$(cd "$(dirname "$0")" && pwd)

docker run --rm --name bench --ipc=host --network=host \
  --device /dev/kfd --device /dev/dri --group-add video \
  -v "$HOME/.cache/huggingface:/root/.cache/huggingface" \
  -v "$HERE/overrides/rocm.py:$SP/vllm/platforms/rocm.py:ro" \
  --mount type=bind,src="$HERE/overrides/fp8_utils.py",dst=$SP/vllm/model_executor/layers/quantization/utils/fp8_utils.py,readonly \
  -v "$PWD/results:/results" \
  -e HF_TOKEN -e VLLM_ROCM_USE_AITER=1 \
  "$IMAGE" --model "$MODEL" --tensor-parallel-size 8
