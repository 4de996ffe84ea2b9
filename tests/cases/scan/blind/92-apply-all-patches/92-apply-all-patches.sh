#!/usr/bin/env bash
# expect: 14-21:patch
PATCH_DIR=${PATCH_DIR:-$(dirname "$0")/patches}
declare -A TARGET=(
  [vllm]=/usr/local/lib/python3.12/dist-packages
  [aiter]=/usr/local/lib/python3.12/dist-packages
  [triton]=/usr/local/lib/python3.12/dist-packages
)

apply_one() {
  local comp=$1 file=$2
  echo "[setup] $comp <- $(basename "$file")"
  if patch -p1 -N --dry-run -s -d "${TARGET[$comp]}" -i "$file" >/dev/null; then
    patch -p1 -N -d "${TARGET[$comp]}" -i "$file"
  else
    echo "  already applied, skipping"
  fi
}

for f in "$PATCH_DIR"/*.patch; do
  b=$(basename "$f"); apply_one "${b%%-*}" "$f"
done
