#!/bin/bash
# expect: nothing
SP=/usr/local/lib/python3.12/dist-packages
OUT=/results/image-facts
mkdir -p $OUT

sed -n '/def get_attn_backend_cls/,/^    def /p' $SP/vllm/platforms/rocm.py > $OUT/backend_cls.txt
sed 's/^ *//' $SP/vllm/envs.py | grep '^"VLLM_ROCM' | sort > $OUT/rocm_envs.txt
grep -rn "patch" $SP/aiter/ops | head -20 > $OUT/grep.txt
(cd $SP && find vllm aiter aiter_meta lmcache -name '*.py' -print0 | sort -z | xargs -0 sha256sum) > $OUT/sha256.txt
cp $SP/aiter_meta/aiter/configs/a8w8_tuned_gemm.csv $OUT/
diff -u /workspace/reference/rocm_envs.txt $OUT/rocm_envs.txt || true
cp -r $SP/vllm/model_executor/layers/fused_moe/configs $OUT/moe-configs
sed -i '1d' $OUT/a8w8_tuned_gemm.csv
rm -f $OUT/grep.txt
