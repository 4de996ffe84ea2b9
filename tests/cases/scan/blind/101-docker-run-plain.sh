#!/bin/bash
# expect: nothing
IMAGE=${IMAGE:-vllm/vllm-openai-rocm:nightly-8c2a1f0}
docker pull -q "$IMAGE"
docker run --rm --network=host --ipc=host --shm-size 32g \
  --device=/dev/kfd --device=/dev/dri --group-add video \
  --cap-add=SYS_PTRACE --security-opt seccomp=unconfined \
  -v "${HF_HUB_CACHE:-$HOME/.cache/huggingface}:/root/.cache/huggingface" \
  -v "$GITHUB_WORKSPACE:/workspace" -w /workspace \
  --mount type=bind,src="$PWD/results",dst=/results \
  -e HF_TOKEN -e MODEL -e TP -e CONC -e ISL -e OSL \
  --entrypoint /bin/bash "$IMAGE" benchmarks/run.sh
