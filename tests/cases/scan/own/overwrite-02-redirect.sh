# expect: 2:overwrite 7:overwrite
cat > /usr/local/lib/python3.12/dist-packages/aiter/configs/tuned_gemm.csv <<'CSV'
M,N,K
1,2,3
CSV
cd /opt/vllm
echo "VERSION = 'fork'" | tee -a vllm/version.py >/dev/null
