# expect: nothing
import asyncio
import json
import os
import sys
import time

import aiohttp

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "bench_client"))


class Stats:
    def add(self, x):
        raise NotImplementedError


def _add(self, x):
    self.__dict__.setdefault("xs", []).append(x)


Stats.add = _add
setattr(Stats, "name", "ttft")


async def one(session, url, body, stats):
    t = time.perf_counter()
    async with session.post(url, json=body) as r:
        async for _ in r.content:
            break
    stats.add(time.perf_counter() - t)


async def main():
    stats = Stats()
    async with aiohttp.ClientSession() as s:
        body = {"model": os.environ["MODEL"], "prompt": "x", "max_tokens": 1}
        await asyncio.gather(*(one(s, "http://localhost:8000/v1/completions", body, stats) for _ in range(32)))
    json.dump(stats.xs, open("ttft.json", "w"))


asyncio.run(main())
