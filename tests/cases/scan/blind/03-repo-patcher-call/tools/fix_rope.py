# expect: 8-9:edit
import importlib.util
import sys

path = importlib.util.find_spec(sys.argv[1]).origin
with open(path) as fh:
    body = fh.read()
with open(path, "w") as fh:
    fh.write(body.replace("is_neox_style=True", "is_neox_style=False"))
