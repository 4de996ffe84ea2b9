#!/usr/bin/env bash
# expect: 10:install
# triton 3.5 in this nightly miscompiles MXFP4 matmul, go back to 3.4
PIP=(pip3 install --root-user-action=ignore)
client_deps=(pandas tqdm aiohttp tiktoken)
engine_deps=(triton==3.4.0 lmcache==0.3.9)

"${PIP[@]}" "${client_deps[@]}"
if [[ ${PIN_TRITON:-1} == 1 ]]; then
    "${PIP[@]}" --force-reinstall --no-deps "${engine_deps[@]}"
fi
python3 -c "import triton; print(triton.__version__)"
