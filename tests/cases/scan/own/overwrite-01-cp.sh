# expect: 4:overwrite 5:overwrite 6:overwrite
PKG=/usr/local/lib/python3.12/dist-packages
HERE=$(cd "$(dirname "$0")" && pwd)
cp -f "$HERE"/files/gpu_worker.py $PKG/vllm/v1/worker/gpu_worker.py
install -m 644 mla_gluon.py -t $PKG/aiter/ops/triton/gluon
ln -sf /workspace/my_envs.py "$PKG/vllm/envs.py"
