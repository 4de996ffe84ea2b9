# expect: 21:monkeypatch 22:monkeypatch
"""Start the OpenAI server with a few local tweaks."""
import os

import uvloop
from vllm.entrypoints.openai import api_server
from vllm.entrypoints.openai.cli_args import make_arg_parser
from vllm.utils import FlexibleArgumentParser
from vllm.v1.core.sched import scheduler as sched_mod
import vllm.platforms.rocm as rocm

_orig_schedule = sched_mod.Scheduler.schedule


def schedule(self):
    # drain decodes first
    self.running.sort(key=lambda r: r.num_tokens)
    return _orig_schedule(self)


sched_mod.Scheduler.schedule = schedule
rocm.on_gfx950 = lambda: True

if __name__ == "__main__":
    os.environ.setdefault("VLLM_USE_V1", "1")
    parser = make_arg_parser(FlexibleArgumentParser())
    args = parser.parse_args()
    uvloop.run(api_server.run_server(args))
