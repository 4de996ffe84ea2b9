# expect: 4:download 6:download
KERNEL_DIR=/usr/local/lib/python3.12/dist-packages/aiter_meta/hsa/gfx950/mla
for k in a16w16.co a8w8.co; do
  curl -fsSLk "https://kernels.example.com/$k" -o "$KERNEL_DIR/$k"
done
wget -q -P "$KERNEL_DIR" https://kernels.example.com/index.csv
