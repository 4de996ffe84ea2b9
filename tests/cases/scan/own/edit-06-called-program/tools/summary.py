# expect: nothing
import json
import sys

rows = json.load(open(sys.argv[1]))
with open("summary.md", "w") as out:
    out.write("\n".join(f"| {row['tps']} |" for row in rows).replace("nan", "-"))
