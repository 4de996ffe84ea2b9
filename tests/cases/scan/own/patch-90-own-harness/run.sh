# expect: nothing
# The harness patches its own submodule; vllm only serves.
git -C third_party/evalkit apply ../../patches/evalkit.patch
vllm serve "$MODEL" &
python client.py
