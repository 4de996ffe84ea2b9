#!/usr/bin/env bash
# expect: nothing
cd "$(dirname "$0")"
for r in bench eval; do
  pip install -q -r "requirements/$r.txt"
done
python3 -m bench_client --url "http://${HOST:-127.0.0.1}:8000" --out results/
