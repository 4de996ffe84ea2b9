# expect: 2:shadow 5:shadow
cat > /usr/local/lib/python3.12/dist-packages/sitecustomize.py <<'EOF'
import my_fixes
EOF
echo "import my_fixes" > $(python3 -c "import site; print(site.getsitepackages()[0])")/zz_fixes.pth
