# expect: nothing
import argparse
import json
import re
import shutil
from pathlib import Path


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("src", type=Path)
    ap.add_argument("--dst", type=Path, default=Path("/results/vllm"))
    a = ap.parse_args()
    a.dst.mkdir(parents=True, exist_ok=True)
    rows = []
    for f in sorted(a.src.glob("vllm_*.json")):
        text = re.sub(r"\bNaN\b", "null", f.read_text())
        f.write_text(text)
        d = json.loads(text)
        rows.append({"conc": d["max_concurrency"], "tput": d["total_token_throughput"]})
        shutil.copy(f, a.dst / f.name)
    (a.dst / "summary.json").write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
