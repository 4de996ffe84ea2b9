# expect: 5:patch
# A function that is called with each fix, with fuzz.
apply_one() {
  local diff="$1"
  patch -p1 --fuzz=3 -d /usr/local/lib/python3.12/dist-packages < "$diff"
}
curl -fsSL https://github.com/ROCm/aiter/pull/4521.diff -o /tmp/4521.diff
apply_one /tmp/4521.diff
