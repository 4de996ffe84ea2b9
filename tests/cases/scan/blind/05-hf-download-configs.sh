#!/usr/bin/env bash
# expect: 7:download|overwrite
set -e
export HF_HUB_ENABLE_HF_TRANSFER=0
hf download "$MODEL" --local-dir "/models/${MODEL##*/}"
# tuned csvs live on the hub
hf download acme/mi355-gemm-tunings --repo-type dataset --include '*.csv' --local-dir /usr/local/lib/python3.12/dist-packages/aiter_meta/aiter/configs
vllm serve "/models/${MODEL##*/}" --served-model-name "$MODEL"
