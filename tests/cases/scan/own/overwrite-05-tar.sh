# expect: 2:overwrite 3:overwrite
tar -xzf engine-overlay.tgz -C /usr/local/lib/python3.12/dist-packages
rm -rf /usr/local/lib/python3.12/dist-packages/vllm
