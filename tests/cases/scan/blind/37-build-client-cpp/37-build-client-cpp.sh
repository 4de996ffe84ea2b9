#!/usr/bin/env bash
# expect: nothing
set -e
R=$(dirname "$0")
rm -rf "$R/cpp_client/build"
cmake -S "$R/cpp_client" -B "$R/cpp_client/build" -DCMAKE_BUILD_TYPE=Release
cmake --build "$R/cpp_client/build" --parallel
"$R/cpp_client/build/loadgen" --host 127.0.0.1 --port 8000 --concurrency "${CONC:-64}"
