#!/usr/bin/env bash
# expect: 5:patch
# The patch file lies beside the script.
HERE="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
git apply --directory=usr/local/lib/python3.12/dist-packages "$HERE/fix-mla.patch"
