# expect: 6:patch
import subprocess
from pathlib import Path

SITE = Path("/usr/local/lib/python3.12/dist-packages")
subprocess.run(["patch", "-p1", "-d", str(SITE), "-i", "/tmp/fix.diff"], check=True)
