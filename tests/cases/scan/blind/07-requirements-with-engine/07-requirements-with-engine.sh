#!/usr/bin/env bash
# expect: 7:install
set -euo pipefail
cd "$(dirname "$0")"

pip install -r requirements/bench.txt
pip install -r requirements/mi355x.txt

./serve.sh "$MODEL" &
sleep 300
python3 -m bench_client --url http://127.0.0.1:8000 --out results/
