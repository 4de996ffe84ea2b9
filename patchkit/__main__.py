"""`python -m patchkit`, and the `patchkit` program."""

from __future__ import annotations

import sys

from patchkit.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
