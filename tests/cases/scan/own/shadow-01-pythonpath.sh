# expect: 3:shadow 4:shadow
FORK=/workspace/vllm-fork
export PYTHONPATH="$FORK:${PYTHONPATH:-}"
PYTHONPATH=/opt/overlay python3 -m vllm.entrypoints.openai.api_server --model x
