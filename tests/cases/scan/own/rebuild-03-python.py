# expect: 6:rebuild
import glob
import os

for built in glob.glob("/usr/local/lib/python3.12/dist-packages/aiter/jit/*.so"):
    os.remove(built)
