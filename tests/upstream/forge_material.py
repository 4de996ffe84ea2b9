"""Real material, fetched when tests are set up and kept in the cache: GitHub's schema and recorded answers.

Fetched by npm and pip as they are configured here. Where that cannot be, its tests are skipped with the
reason, or fail, if PATCHKIT_REQUIRE names index.
"""

from __future__ import annotations

import ast
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import pytest

from patchkit.sources.cache import default_root

if TYPE_CHECKING:
    from collections.abc import Iterator

SCHEMA = "@octokit/graphql-schema"
SCHEMA_VERSION = "15.26.1"
RECORDS = "pygithub"
RECORDS_VERSION = "2.10.0"
_ROOT = Path(default_root()) / "tests"


def schema_text() -> str:
    """Return GitHub's published GraphQL schema."""
    kept = _ROOT / f"graphql-schema-{SCHEMA_VERSION}.graphql"
    if not kept.exists():
        with tempfile.TemporaryDirectory() as scratch:
            archive = fetched(["npm", "pack", f"{SCHEMA}@{SCHEMA_VERSION}", "--pack-destination", scratch], scratch)
            with tarfile.open(archive) as packed:
                member = packed.extractfile("package/schema.graphql")
                assert member is not None
                keep(kept, member.read())
    return kept.read_text()


def recordings() -> Path:
    """Return PyGithub's sdist, which holds tests/ReplayData: answers of GitHub's as they were."""
    kept = _ROOT / f"{RECORDS}-{RECORDS_VERSION}.tar.gz"
    if not kept.exists():
        command = [sys.executable, "-m", "pip", "download", "--no-deps", "--no-binary", RECORDS]
        with tempfile.TemporaryDirectory() as scratch:
            archive = fetched([*command, "-d", scratch, f"{RECORDS}=={RECORDS_VERSION}"], scratch)
            keep(kept, archive.read_bytes())
    return kept


@dataclass(frozen=True)
class Record:
    """One recorded exchange: as PyGithub's Framework writes them, ten lines each."""

    method: str
    host: str
    path: str
    sent: dict[str, str]
    status: int
    headers: dict[str, str]
    body: bytes


def records(archive: Path) -> Iterator[Record]:
    with tarfile.open(archive) as packed:
        for member in packed:
            if "/tests/ReplayData/" in member.name and member.name.endswith(".txt"):
                stream = packed.extractfile(member)
                assert stream is not None
                yield from _parsed(stream.read().decode().split("\n"))


def _parsed(lines: list[str]) -> Iterator[Record]:
    for start in range(len(lines) - 9):
        scheme, method, host, _, path, sent, _, status, headers, body = lines[start : start + 10]
        if scheme in ("http", "https") and method.isupper() and status.isdigit() and sent.startswith("{"):
            names = {name.lower(): value for name, value in ast.literal_eval(headers)}
            yield Record(method, host, path, ast.literal_eval(sent), int(status), names, body.encode())


def fetched(command: list[str], scratch: str) -> Path:
    if shutil.which(command[0]) is None:
        unavailable(f"no program {command[0]}")
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    found = sorted(Path(scratch).glob("*gz"))
    if done.returncode or not found:
        unavailable(f"{command[0]}: {done.stderr.strip()[-300:]}")
    return found[0]


def keep(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f"{path.name}.{os.getpid()}")
    part.write_bytes(data)
    part.replace(path)


def unavailable(reason: str) -> NoReturn:
    if "index" in os.environ.get("PATCHKIT_REQUIRE", ""):
        pytest.fail(f"real material cannot be fetched: {reason}")
    pytest.skip(f"real material cannot be fetched: {reason}")
