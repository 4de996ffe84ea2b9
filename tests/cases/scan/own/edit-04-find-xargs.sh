# expect: 2:edit 3:edit
find /sgl-workspace/aiter -name 'mla.py' -exec sed -i 's/WARPS = 8/WARPS = 16/' {} +
grep -rl old_name /usr/local/lib/python3.12/dist-packages/lmcache | xargs sed -i 's/old_name/new_name/g'
