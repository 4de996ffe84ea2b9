#!/usr/bin/env bash
# expect: 7:rebuild|edit|overwrite 8:rebuild|edit|overwrite 9:rebuild 10:rebuild|install
# image: lmsysorg/sglang:v0.5.6-rocm700-mi35x
set -ex
cd /sgl-workspace/aiter
git fetch origin
git checkout -f 7a3b1c9
git submodule update --init --recursive
rm -rf aiter/jit/*.so
PREBUILD_KERNELS=1 GPU_ARCHS=gfx950 python3 setup.py develop
cd -
python3 -m sglang.launch_server --model-path "$MODEL" --tp 8 --port 8888
