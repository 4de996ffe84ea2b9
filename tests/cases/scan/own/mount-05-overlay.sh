#!/bin/bash
# expect: 4:mount 5:mount
SITE=/usr/local/lib/python3.12/dist-packages
sudo mount -t overlay overlay -o "lowerdir=$SITE/vllm,upperdir=/tmp/up,workdir=/tmp/work" "$SITE/vllm"
mount -o bind ./envs.py $SITE/vllm/envs.py
mount -t nfs store:/models /models
