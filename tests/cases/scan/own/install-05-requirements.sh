# expect: 6:install
cat > /tmp/req.txt <<'EOF'
pandas
vllm @ https://wheels.example.com/vllm-0.33.0-cp312-none-any.whl
EOF
pip install -r /tmp/req.txt
