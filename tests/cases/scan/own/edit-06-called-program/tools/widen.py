# expect: 15:edit
import importlib
import inspect
import sys
from pathlib import Path


def source(module):
    found = importlib.import_module(module)
    return Path(inspect.getfile(found))


target = source(sys.argv[2])
text = target.read_text()
target.write_text(text.replace("block_size = 16", "block_size = 32"))
