"""How the readers of logs get at the cluster, and how patient they are with it."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from corral.kube.client import KubeClient

__all__ = ["MAX_FAILURES", "ReadContext", "backoff"]

MAX_FAILURES = 20
"""Failures in a row, with nothing read between them, until it is given up: over a minute."""
_FIRST_WAIT, _LONGEST_WAIT = 0.05, 5.0


def backoff(failures: int, rng: Callable[[], float]) -> float:
    """Seconds to wait after so many failures in a row."""
    wait = min(_FIRST_WAIT * 2.0 ** min(failures, 16), _LONGEST_WAIT)
    return wait * (1 + rng())


@dataclass(slots=True)
class ReadContext:
    """The cluster as one reader sees it; all sources of the reader share it."""

    client: KubeClient
    namespace: str
    opening: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(32))
    """Connections that may be made at the same time."""
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    rng: Callable[[], float] = random.random

    def wait(self, failures: int) -> float:
        """Seconds to wait after so many failures."""
        return backoff(failures, self.rng)

    async def pause(self, failures: int) -> None:
        await self.sleep(self.wait(failures))
