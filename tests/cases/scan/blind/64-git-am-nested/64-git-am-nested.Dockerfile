# syntax=docker/dockerfile:1.7
# expect: 6-8:patch 6-9:patch 10-12:edit
FROM vllm/vllm-openai-rocm:nightly-8c2a1f0
COPY patches/ /opt/p/
RUN --mount=type=cache,target=/root/.cache/pip pip install datasets pandas
RUN set -eux; \
    cd "$(python3 -c 'import triton,os;print(os.path.dirname(os.path.dirname(triton.__file__)))')"; \
    patch -p1 -i /opt/p/triton-ldmatrix.patch; \
    git apply -v --ignore-whitespace /opt/p/aiter-moe-tile.patch
RUN <<EOF
set -e
sed -i 's/"3.12.0"/"3.12.1"/' /usr/local/lib/python3.12/dist-packages/torch/version.py
EOF
CMD ["vllm", "serve", "--help"]
