#!/usr/bin/env bash
# expect: 11-16:edit
# common fixes shared by all mi355x recipes

PKG=/usr/local/lib/python3.12/dist-packages

_swap() {           # _swap <file> <from> <to>
  local file="$PKG/$1"
  [[ -f $file ]] || { echo "no $file"; return 0; }
  grep -q -- "$3" "$file" && return 0
  sed -i.bak "s|$2|$3|g" "$file"
}

fix_block_size()  { _swap vllm/platforms/rocm.py 'block_size = 16' 'block_size = 64'; }
fix_moe_tuning()  { _swap aiter/fused_moe.py 'block_m = 32' 'block_m = 64'; }
fix_lmc_timeout() { _swap lmcache/v1/config.py 'timeout=5' 'timeout=60'; }

main() {
  fix_block_size
  fix_moe_tuning
  [[ ${USE_LMCACHE:-0} == 1 ]] && fix_lmc_timeout
  return 0
}
main "$@"
