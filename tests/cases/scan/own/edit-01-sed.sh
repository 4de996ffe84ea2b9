# expect: 3:edit 5:edit
TARGET=/usr/local/lib/python3.12/dist-packages/vllm/v1/worker/gpu_worker.py
sed -i 's/gpu_memory_utilization = 0.9/gpu_memory_utilization = 0.95/' "$TARGET"
SITE_PACKAGES=$(python3 -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
perl -0pi -e 's/\n\n/\n/' "$SITE_PACKAGES"/aiter/ops/mla.py
