#!/bin/bash
# expect: 7:install 10:install|overwrite
set -e
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq
apt-get install -y -qq jq curl
apt-get install -y --only-upgrade hipblaslt rccl

wget -q https://repo.radeon.com/rocm/apt/7.1/pool/main/h/hipblaslt/hipblaslt_1.1.0.70100-20~24.04_amd64.deb -P /tmp
dpkg -i --force-overwrite /tmp/hipblaslt_*.deb

vllm serve "$MODEL" --port 8000
