#!/bin/bash
# expect: 7:download|overwrite 11:overwrite|download|install
# prebuilt jit cache saves ~12 min of startup
SITE_PKGS=/usr/local/lib/python3.12/dist-packages
TARBALL_URL=${TARBALL_URL:-http://artifacts.lab.local/aiter-jit-gfx942.tgz}

curl -sSfL "$TARBALL_URL" | tar -xz -C "$SITE_PKGS/aiter/jit"

cd /tmp
wget -q http://artifacts.lab.local/vllm_rocm_ext-cp312.whl
unzip -oq vllm_rocm_ext-cp312.whl 'vllm/*.so' -d "$SITE_PKGS"

vllm serve "$MODEL" --port "$PORT"
