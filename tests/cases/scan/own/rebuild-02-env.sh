# expect: 2:rebuild 4:rebuild
export AITER_REBUILD=1
git clone https://github.com/vllm-project/vllm.git
cmake --build vllm/build --target install -j 32
