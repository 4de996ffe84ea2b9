"""Remembers what a scan said of a file's bytes: one small file in patchkit's cache, replaced as a whole."""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Any

from patchkit.sources.cache import default_root
from patchkit.waivers.scan_file import NOTHING, FileResult
from patchkit.waivers.scan_types import Trace

_MOST = 200_000


def rules_digest() -> str:
    """What the results depend on besides the bytes: the code of the scan, and of the parser below it."""
    here = Path(__file__).parent
    files = [*sorted(here.glob("scan*.py")), here / "exempt.py", *sorted((here.parent / "model").glob("shell*.py"))]
    digest = hashlib.sha256()
    for path in files:
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def key(data: bytes, kind: str, name: str) -> str:
    """The key of a file's result."""
    return hashlib.blake2b(data, digest_size=12, person=kind.encode()[:16]).hexdigest() + ":" + name


class ScanCache:
    """Results by key. A cache that cannot be read or written is no error: it is only slower."""

    def __init__(self, root: str | None = None) -> None:
        self.path = Path(root or default_root()) / "scan" / f"{rules_digest()}.json"
        self.entries: dict[str, Any] = {}
        self.changed = False
        try:
            loaded = json.loads(self.path.read_bytes())
            self.entries = loaded if isinstance(loaded, dict) else {}
        except (OSError, ValueError):
            pass

    def get(self, name: str) -> FileResult | None:
        """The result under a key; None where there is none."""
        entry = self.entries.get(name)
        if entry is None:
            return None
        if entry == 0:
            return NOTHING
        try:
            traces = tuple(Trace(**trace) for trace in entry["traces"])
            return FileResult(traces=traces, context=entry["context"], unread=entry["unread"])
        except (TypeError, KeyError):
            return None

    def put(self, name: str, result: FileResult) -> None:
        """Remember a result."""
        empty = not result.traces and not result.unread
        self.entries[name] = 0 if empty else asdict(result)
        self.changed = True

    def save(self) -> None:
        """Write what is new; older rules' results go."""
        if not self.changed:
            return
        entries = dict(list(self.entries.items())[-_MOST:])
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            handle, temporary = tempfile.mkstemp(dir=self.path.parent, prefix=".scan-")
            with os.fdopen(handle, "w", encoding="utf-8", errors="surrogatepass") as stream:
                json.dump(entries, stream, separators=(",", ":"))
            os.replace(temporary, self.path)
            for old in self.path.parent.glob("*.json"):
                if old != self.path:
                    old.unlink(missing_ok=True)
        except OSError:
            return
