# expect: 2-5:mount
docker run --rm --network host \
  -v "$PWD/fixes/mla.py:/usr/local/lib/python3.12/dist-packages/vllm/v1/attention/backends/mla.py:ro" \
  -v /models:/models \
  vllm/vllm-openai-rocm:nightly vllm serve /models/x
