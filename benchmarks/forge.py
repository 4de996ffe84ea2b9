"""How much the forge client adds to its requests: 100 pull requests, cold, against a GitHub on loopback.

    PYTHONPATH=. .venv/bin/python benchmarks/forge.py [ROUNDS]

Prints, for a server that takes 250 ms a request and for one that takes none, the median seconds of the five
requests alone, of the whole observation (store included), and their ratio.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import tempfile
import time
from datetime import datetime, timezone

from graphql import build_schema

from patchkit.io.http import Http
from patchkit.upstream.facts import Ref
from patchkit.upstream.github_query import build
from patchkit.upstream.hosts import Forges
from patchkit.upstream.observe import observe
from patchkit.upstream.store import Store
from tests.upstream.forge_material import schema_text
from tests.upstream.forge_server import TOKEN, Server

REFS = [Ref(repo=f"o/r{number % 3}", number=number) for number in range(1, 101)]


def alone(server: Server) -> float:
    """Return the seconds of the five requests, over one connection."""
    queries = [build(REFS[at : at + 20]) for at in range(0, 100, 20)]
    bodies = [json.dumps({"query": query.text, "variables": query.variables}).encode() for query in queries]
    begin = time.perf_counter()
    with Http() as http:
        for body in bodies:
            http.get(f"{server.url}/graphql", {"Authorization": f"Bearer {TOKEN}"}, body=body)
    return time.perf_counter() - begin


def whole() -> tuple[float, float, float]:
    """Return the seconds of an observation: cold, within the time to live, offline."""
    now, seconds = datetime.now(timezone.utc), []
    with tempfile.TemporaryDirectory() as directory, Store(directory) as store, Forges(store) as forges:
        for offline in (False, False, True):
            begin = time.perf_counter()
            observe(REFS, store, forges, now=now, offline=offline)
            seconds.append(time.perf_counter() - begin)
    return seconds[0], seconds[1], seconds[2]


def main() -> None:
    """Measure and print."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    server = Server(build_schema(schema_text(), assume_valid=True, no_location=True))
    os.environ.update(GITHUB_API_URL=server.url, GH_TOKEN=TOKEN)
    for ref in REFS:
        server.pull(ref.repo, ref.number)
    print("server       five requests    cold   ratio   within the time to live   offline")
    for delay in (0.25, 0.0):
        server.delay = delay
        pairs = [(alone(server), *whole()) for _ in range(rounds)]
        base, cold, warm, offline = (statistics.median(column) for column in zip(*pairs, strict=True))
        left = f"{delay * 1000:3.0f} ms {base:17.3f} s {cold:8.3f} s {cold / base:5.2f}"
        print(f"{left} {warm * 1000:20.1f} ms {offline * 1000:12.1f} ms")
    server.close()


if __name__ == "__main__":
    main()
