#!/bin/bash
# expect: 8:install
set -ex
WHL=vllm-0.12.1.dev88+gfx950.rocm700-cp312-cp312-linux_x86_64.whl
BASE=https://rocm-wheels.s3.us-east-2.amazonaws.com/staging

pip install --no-cache-dir datasets==3.6.0 pandas
pip install --no-deps "$BASE/$WHL"

vllm serve $MODEL --tensor-parallel-size $TP --quantization quark
