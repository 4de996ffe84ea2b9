# expect: 5:edit
import fileinput
import site

for line in fileinput.input(site.getsitepackages()[0] + "/triton/runtime/jit.py", inplace=True):
    print(line.replace("32", "64"), end="")
