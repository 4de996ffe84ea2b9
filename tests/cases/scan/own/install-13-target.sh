#!/bin/bash
# expect: 3:install 4:shadow
pip install --target /opt/newer triton==3.7.0
PYTHONPATH=/opt/newer vllm serve "$MODEL"
pip install --target ./client_deps transformers
PYTHONPATH=./client_deps python3 client.py
