#!/usr/bin/env bash
# expect: 8:patch 9:patch 9:missing-patch
set -eo pipefail
SCRIPT_DIR="$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" &> /dev/null && pwd)"
PATCHES="$SCRIPT_DIR/patches"
DP=/usr/local/lib/python3.12/dist-packages

patch --directory="$DP" --strip=1 --forward < "$PATCHES/aiter-moe-tile.patch"
patch --directory="$DP" --strip=1 --forward < "$PATCHES/kimi-k2-int4-router.patch"

vllm serve moonshotai/Kimi-K2-Instruct-0905 --tensor-parallel-size 8 \
  --trust-remote-code --max-model-len 32768
