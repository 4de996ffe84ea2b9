#!/bin/bash
# expect: 4:install
pip install -r requirements/client.txt
python3 -m pip install --require-hashes -r requirements/serve.txt
vllm serve "$MODEL"
