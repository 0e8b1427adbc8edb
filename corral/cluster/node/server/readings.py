"""What the machine and the pods use now, read when somebody asks and kept for a second."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from corral.cluster.node.access import PodAccess, PodUsage
from corral.cluster.node.resources import Usage

FRESH: Final = 1.0
"""Seconds for which a reading serves everybody who asks."""
LEAST_CPU: Final = 1e-6
"""Seconds that anything that was started has used, whatever the kernel's ticks say.

metrics-server drops a whole pod when one of its containers has used nothing.
"""
_TICKS: Final = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Machine:
    """The whole machine, as a kubelet reports its node."""

    cpu_seconds: float
    memory_total: int
    memory_usage: int
    memory_working_set: int
    memory_rss: int
    swap_usage: int
    started_at: float

    @property
    def memory_available(self) -> int:
        return max(self.memory_total - self.memory_working_set, 0)


@dataclass(frozen=True, slots=True)
class Reading:
    """Everything at one moment, in seconds since 1970."""

    at: float
    machine: Machine
    pods: Sequence[PodUsage]


class Readings:
    """The last two readings."""

    def __init__(
        self,
        access: PodAccess,
        *,
        clock: Callable[[], float] = time.time,
        root: Path = Path("/"),
    ) -> None:
        self._access = access
        self._clock = clock
        self._root = root
        self._last: Reading | None = None
        self.before: Reading | None = None

    def take(self) -> Reading:
        """Now, or a moment ago."""
        now = self._clock()
        if self._last is not None and 0 <= now - self._last.at < FRESH:
            return self._last
        self.before = self._last
        self._last = Reading(now, read_machine(self._root), self._access.usage())
        return self._last


def cpu_of(usage: Usage) -> float:
    return max(usage.cpu_seconds, LEAST_CPU)


def read_machine(root: Path) -> Machine:
    """From /proc under ``root``."""
    cpu, started = 0.0, 0.0
    for line in (root / "proc/stat").read_text().splitlines():
        name, *fields = line.split()
        if name == "cpu":
            # user, nice, system, irq, softirq, steal: not idle, not waiting, not counted before
            cpu = sum(int(fields[index]) for index in (0, 1, 2, 5, 6, 7)) / _TICKS
        elif name == "btime":
            started = float(fields[0])
    memory: dict[str, int] = {}
    for line in (root / "proc/meminfo").read_text().splitlines():
        name, value, *_ = line.split()
        memory[name.rstrip(":")] = int(value) * 1024
    usage = memory.get("MemTotal", 0) - memory.get("MemFree", 0)
    return Machine(
        cpu_seconds=cpu,
        memory_total=memory.get("MemTotal", 0),
        memory_usage=usage,
        memory_working_set=max(usage - memory.get("Inactive(file)", 0), 0),
        memory_rss=memory.get("AnonPages", 0),
        swap_usage=memory.get("SwapTotal", 0) - memory.get("SwapFree", 0),
        started_at=started,
    )
