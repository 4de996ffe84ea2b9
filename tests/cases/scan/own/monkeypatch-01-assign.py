"""Starts the engine with a traced worker."""
# expect: 10:monkeypatch 11:monkeypatch 12:monkeypatch
import sys

import vllm.v1.worker.gpu_worker as worker
from vllm.v1.core.sched.scheduler import Scheduler

import mine

worker.Worker.execute_model = mine.traced
setattr(Scheduler, "schedule", mine.schedule)
sys.modules["aiter.ops.mla"] = mine
