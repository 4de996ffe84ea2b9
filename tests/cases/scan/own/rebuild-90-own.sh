# expect: nothing
cmake -S client -B build && cmake --build build
make -C tools
rm -rf build/ dist/ *.egg-info
python3 setup.py sdist
find . -name __pycache__ -exec rm -rf {} +
