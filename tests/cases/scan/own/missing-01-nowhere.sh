# expect: 4:missing-patch
# The patch file exists nowhere.
HERE=$(dirname "$(readlink -f "$0")")
(cd /usr/local/lib/python3.12/dist-packages && git apply "$HERE/patches/0014-gone.patch")
