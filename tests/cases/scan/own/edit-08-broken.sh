# expect: 4:edit
# A script that ends in a quote that is never closed: what stands before it runs.
if [ "$1" = fix ]; then
  sed -i 's/a/b/' /usr/local/lib/python3.12/dist-packages/vllm/envs.py
fi
echo 'done
