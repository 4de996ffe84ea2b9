# expect: nothing
pip install datasets pandas tiktoken "lm_eval[api]==0.4.12" openai aiohttp tqdm
pip install --upgrade pip setuptools wheel
uv pip install -r requirements-client.txt
pip install "git+https://github.com/EleutherAI/lm-evaluation-harness.git@v0.4.12"
pip install -e .
pip download vllm==0.27.1 --no-deps -d /tmp/wheels
apt-get update && apt-get install -y git curl jq numactl tmux
python3 -m pip show vllm | grep Version
