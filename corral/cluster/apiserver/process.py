"""The process that is an API server and nothing else: its priority and its garbage collection.

All requests are served by one event loop, so that whatever stops the loop stops every client. A
pass of the garbage collector over all objects takes some fifty milliseconds in a server that has
just started, and more with every object stored; a thread that computes may keep the interpreter
for five; pods on the same machine compete for its processors.
"""

from __future__ import annotations

import asyncio
import gc
import os
import sys
from contextlib import suppress
from typing import Final

from corral.cluster.apiserver.memory import give_back_memory

__all__ = ["Collector", "dedicate"]

NICE: Final = -5
"""Priority of the event loop as root: pods of the same machine run at 0."""
SWITCH_SECONDS: Final = 0.0002
"""How long another thread may keep the interpreter when the event loop wants it."""
THRESHOLDS: Final = (2_000, 5, 1_000_000)
"""Young objects are collected a few at a time; all others in passes of ``Collector`` alone."""
COLLECT_SECONDS: Final = 30.0


def dedicate() -> None:
    """Make this process an API server's own; call it when everything is loaded."""
    if os.getpriority(os.PRIO_PROCESS, 0) > NICE:
        for thread in os.listdir("/proc/self/task"):  # any of them may hold the interpreter
            with suppress(OSError):  # only root may
                os.setpriority(os.PRIO_PROCESS, int(thread), NICE)
    sys.setswitchinterval(SWITCH_SECONDS)
    gc.freeze()  # what is loaded stays, and is looked at no more
    gc.set_threshold(*THRESHOLDS)


class Collector:
    """Collects old garbage now and then, and gives its memory back."""

    def __init__(self) -> None:
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(COLLECT_SECONDS, self._collect)

    def _collect(self) -> None:
        if gc.get_count()[2]:  # something has grown old since
            gc.collect()
            asyncio.get_running_loop().run_in_executor(None, give_back_memory)
        self.start()

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
