# expect: nothing
FROM vllm/vllm-openai-rocm:nightly-8c2a1f0
RUN apt-get update && apt-get install -y --no-install-recommends jq numactl && rm -rf /var/lib/apt/lists/*
RUN pip install --no-cache-dir datasets pandas tiktoken "lm_eval[api]"
COPY benchmarks/ /workspace/benchmarks/
COPY configs/server.yaml /etc/bench/server.yaml
RUN sed -i 's/\r$//' /workspace/benchmarks/*.sh && chmod +x /workspace/benchmarks/*.sh \
 && python3 -c "import vllm, aiter; print(vllm.__version__)"
ENV VLLM_ROCM_USE_AITER=1 PYTHONUNBUFFERED=1
WORKDIR /workspace
ENTRYPOINT ["/workspace/benchmarks/entry.sh"]
