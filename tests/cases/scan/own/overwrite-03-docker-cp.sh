# expect: 2:overwrite 3:overwrite
docker cp patched/mla.py prefill-0:/usr/local/lib/python3.12/dist-packages/vllm/v1/attention/backends/mla.py
kubectl cp scheduler.py serving/decode-0:/app/vllm/vllm/v1/core/sched/scheduler.py
