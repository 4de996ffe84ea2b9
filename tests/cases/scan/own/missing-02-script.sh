# expect: 3:missing-patch
# The recipe calls a script that was never added.
bash benchmarks/apply_k3_container_patches.sh
vllm serve moonshotai/Kimi-K3 --tensor-parallel-size 8
