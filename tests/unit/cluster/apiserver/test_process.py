"""What a process gets that is an API server's own, and what its workers do not."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from corral.cluster.apiserver import process, workers
from corral.cluster.apiserver.workers import Workers

DEDICATED = """
import gc, os, sys
from corral.cluster.apiserver.process import dedicate
dedicate()
print(os.getpriority(os.PRIO_PROCESS, 0), gc.get_threshold(), gc.get_freeze_count() > 10_000)
print(sys.getswitchinterval())
"""


def test_nothing_that_was_loaded_is_looked_at_by_the_garbage_collector() -> None:
    run = [sys.executable, "-c", DEDICATED]
    said = subprocess.run(run, check=True, stdout=subprocess.PIPE, text=True).stdout
    nice = process.NICE if os.geteuid() == 0 else os.getpriority(os.PRIO_PROCESS, 0)
    lines = said.splitlines()
    assert lines[0] == f"{nice} {process.THRESHOLDS} True"
    assert float(lines[1]) == pytest.approx(process.SWITCH_SECONDS)


async def test_workers_give_way_to_the_event_loop() -> None:
    made = Workers(waiting_per_flow=4, waiting=4)
    try:
        nice = await made.run("a", os.getpriority, os.PRIO_PROCESS, 0)
        scheduled = await made.run("a", os.sched_getscheduler, 0)
    finally:
        made.close()
    assert nice == workers.NICE > process.NICE
    assert scheduled == os.SCHED_BATCH
