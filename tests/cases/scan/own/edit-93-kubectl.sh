#!/bin/bash
# expect: nothing
kubectl -n bench patch statefulset vllm-decode -p '{"spec":{"replicas":2}}'
ssh "$HOST" docker exec serve bash -c "'cat /usr/local/lib/python3.12/dist-packages/vllm/envs.py'" > envs.txt
git -C /workspace/InferenceX checkout main
cd /workspace/InferenceX && git pull
