# expect: 3:install 4:install 5:install 6:install 7:install
set -e
pip install --no-deps --force-reinstall ./wheels/vllm-0.27.1+rocm722-cp312-cp312-linux_x86_64.whl
python3 -m pip install -q "git+https://github.com/ROCm/aiter.git@main"
uv pip install --system --index-url https://wheels.example.com/rocm7.2 triton==3.7.0
pip install -e /workspace/sglang/python
python -m pip uninstall -y lmcache
