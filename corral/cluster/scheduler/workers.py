"""A fixed number of workers for writes that need not wait for each other."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

__all__ = ["Job", "Workers"]

logger = logging.getLogger(__name__)

Job = Callable[[], Awaitable[None]]


class Workers:
    """Runs jobs in the order in which they came, several at a time."""

    def __init__(self, name: str, count: int) -> None:
        self._name = name
        self._count = count
        self._jobs: asyncio.Queue[Job] = asyncio.Queue()

    def submit(self, job: Job) -> None:
        """Run this when a worker is free. It handles its own errors: what it raises is a bug."""
        self._jobs.put_nowait(job)

    async def idle(self) -> None:
        """Wait until everything that was submitted is done."""
        await self._jobs.join()

    async def run(self) -> None:
        """Work until cancelled."""
        async with asyncio.TaskGroup() as group:
            for number in range(self._count):
                group.create_task(self._work(), name=f"{self._name}-{number}")

    async def _work(self) -> None:
        while True:
            job = await self._jobs.get()
            try:
                await job()
            except Exception:
                logger.exception("%s: a job failed", self._name)
            finally:
                self._jobs.task_done()
