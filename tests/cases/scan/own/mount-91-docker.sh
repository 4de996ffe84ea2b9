# expect: nothing
docker run --device /dev/kfd --device /dev/dri -v $HF_HOME:/root/.cache/huggingface -v "$PWD":/workspace -w /workspace \
  -e VLLM_ROCM_USE_AITER=1 vllm/vllm-openai-rocm:nightly bash -c "vllm serve $MODEL --port 8000"
