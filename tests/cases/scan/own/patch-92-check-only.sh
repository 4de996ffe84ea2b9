# expect: nothing
# Only asks whether the fix would still apply, and shows what is installed.
cd /usr/local/lib/python3.12/dist-packages
git apply --check /fixes/0001-mla.patch && echo "still applies"
git apply --stat /fixes/0001-mla.patch
patch --dry-run -p1 < /fixes/0001-mla.patch || true
pip show vllm
