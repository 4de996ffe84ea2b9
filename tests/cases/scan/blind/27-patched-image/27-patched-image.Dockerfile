# expect: 9:patch 10:overwrite
FROM vllm/vllm-openai-rocm:nightly-8c2a1f0

ARG SITE=/usr/local/lib/python3.12/dist-packages
WORKDIR ${SITE}

RUN apt-get update && apt-get install -y --no-install-recommends git jq && rm -rf /var/lib/apt/lists/*
COPY patches/vllm-mla-fp8-decode.patch /tmp/mla.patch
RUN git apply --directory=. /tmp/mla.patch && rm /tmp/mla.patch
COPY overrides/topk.py ${SITE}/aiter/ops/topk.py
RUN pip install --no-cache-dir datasets pandas tiktoken

WORKDIR /workspace
ENTRYPOINT ["vllm", "serve"]
