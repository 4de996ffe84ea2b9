"""JSON schemas of the files that people write, for their editors: generated from the same types.

`python -m patchkit.model.schema` writes docs/schemas/, `--check` only says which file is stale.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from patchkit.model.edge import json_schema
from patchkit.model.image import Image
from patchkit.model.stack import Stack
from patchkit.model.waiver import Baseline, Waiver

TYPES: dict[str, type[Any]] = {"image": Image, "stack": Stack, "waiver": Waiver, "baseline": Baseline}
FOLDER = Path(__file__).resolve().parents[2] / "docs" / "schemas"
COMMAND = "python -m patchkit.model.schema"


def render(kind: type[Any]) -> str:
    """Return the JSON schema of a file that holds a `kind`, as text."""
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$comment": f"Generated: {COMMAND}",
        **json_schema(kind),
    }
    return json.dumps(schema, indent=2) + "\n"


def stale(folder: Path) -> list[Path]:
    """Return the schema files in `folder` that are not what the types say, or not there."""
    files = {folder / f"{name}.schema.json": render(kind) for name, kind in TYPES.items()}
    return [path for path, text in files.items() if not path.exists() or path.read_text("utf-8") != text]


def main(arguments: list[str] | None = None) -> int:
    """Write the schemas, or with `--check` compare them; return the exit code (1: something is stale)."""
    parser = argparse.ArgumentParser(prog=COMMAND, description="Write the JSON schemas of the files that people write.")
    parser.add_argument("--check", action="store_true", help="change nothing; exit 1 if a schema is stale")
    parser.add_argument("--folder", type=Path, default=FOLDER, help="where they lie (default: docs/schemas)")
    options = parser.parse_args(arguments)
    old = stale(options.folder)
    if options.check:
        for path in old:
            sys.stderr.write(f"{path}: stale; type: {COMMAND}\n")
        return 1 if old else 0
    options.folder.mkdir(parents=True, exist_ok=True)
    for path in old:
        path.write_text(render(TYPES[path.name.partition(".")[0]]), encoding="utf-8")
        sys.stdout.write(f"{path}\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
