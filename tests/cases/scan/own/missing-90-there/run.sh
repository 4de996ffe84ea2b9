# expect: nothing
# A patching script by its name, which is there and patches nothing of the stack.
bash "$(dirname "$0")/apply_patches.sh"
vllm serve "$MODEL"
