# expect: nothing
wget -q -O /data/ShareGPT.json https://example.com/ShareGPT.json
curl -s http://localhost:8000/v1/models -o /results/vllm-models.json
curl -L https://example.com/model.tar | tar -x -C /models
until curl -sf http://localhost:8000/health; do sleep 1; done
