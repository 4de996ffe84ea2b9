# expect: nothing
# Everything goes to the run's own folders.
mkdir -p /results/vllm /workspace/logs/sglang
vllm serve "$MODEL" > /results/vllm/server.log 2>&1 &
cp -r /usr/local/lib/python3.12/dist-packages/vllm/benchmarks /tmp/bench-vllm
cp serve.yaml /workspace/configs/vllm/serve.yaml
python3 -c "import torch; print(torch.__version__)" | tee /results/torch.txt
rm -rf /results/vllm/old ~/.cache/vllm/torch_compile_cache
