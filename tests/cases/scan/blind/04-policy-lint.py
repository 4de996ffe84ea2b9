#!/usr/bin/env python3
# expect: nothing
"""Fail CI when a recipe touches the image."""
import pathlib
import re
import sys

FORBIDDEN = [
    (re.compile(r"\bgit\s+apply\b"), "git apply"),
    (re.compile(r"\bsed\s+-i\b.*dist-packages"), "sed -i on dist-packages"),
    (re.compile(r"pip install .*vllm.*\.whl"), "engine wheel"),
]
HINT = "e.g. `sed -i 's/a/b/' /usr/local/lib/python3.12/dist-packages/vllm/envs.py` is not allowed"


def scan(path: pathlib.Path) -> list[str]:
    hits = []
    for n, line in enumerate(path.read_text().splitlines(), 1):
        for rx, name in FORBIDDEN:
            if rx.search(line):
                hits.append(f"{path}:{n}: {name}")
    return hits


if __name__ == "__main__":
    bad = [h for p in sys.argv[1:] for h in scan(pathlib.Path(p))]
    print("\n".join(bad) or "clean")
    if bad:
        print(HINT)
    sys.exit(bool(bad))
