#!/bin/bash
# expect: nothing
set -euo pipefail
HERE=$(cd "$(dirname "$0")" && pwd)
git clone -q --depth 1 -b 4.2.0 https://github.com/wg/wrk /tmp/wrk
cd /tmp/wrk
git apply "$HERE/third_party/wrk-sse.patch"
make -j"$(nproc)" >/dev/null
install -m 0755 wrk "$HOME/bin/wrk"
rm -rf /tmp/wrk
"$HOME/bin/wrk" -v | head -1
