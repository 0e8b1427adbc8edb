"""A small keyed work queue: a key waits once, runs once at a time, and is retried with back-off."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Hashable
from typing import Generic, TypeVar

from corral.cluster.apiserver.store import StoreError
from corral.kube import errors

log = logging.getLogger(__name__)

K = TypeVar("K", bound=Hashable)
FIRST_RETRY = 0.02
LAST_RETRY = 30.0


class KeyedQueue(Generic[K]):
    """Runs ``work`` for every key that is added; failures come back later."""

    def __init__(self, name: str, work: Callable[[K], Awaitable[None]], workers: int = 4) -> None:
        self._name = name
        self._work = work
        self._workers = workers
        self._waiting: dict[K, None] = {}  # in order; a key is here at most once
        self._running: set[K] = set()
        self._again: set[K] = set()  # added while running
        self._failures: dict[K, int] = {}
        self._wake = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        self._tasks = [
            asyncio.create_task(self._run(), name=f"{self._name}-{n}") for n in range(self._workers)
        ]

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def add(self, key: K) -> None:
        if key in self._running:
            self._again.add(key)
        elif key not in self._waiting:
            self._waiting[key] = None
            self._wake.set()

    def add_after(self, key: K, seconds: float) -> None:
        asyncio.get_running_loop().call_later(seconds, self.add, key)

    async def _run(self) -> None:
        while True:
            while not self._waiting:
                self._wake.clear()
                await self._wake.wait()
            key = next(iter(self._waiting))
            del self._waiting[key]
            self._running.add(key)
            try:
                await self._work(key)
            except (errors.ApiError, StoreError) as err:
                self._retry(key, err)
            except Exception:
                log.exception("%s: %s failed", self._name, key)
                self._retry(key, None)
            else:
                self._failures.pop(key, None)
            finally:
                self._running.discard(key)
            if key in self._again:
                self._again.discard(key)
                self.add(key)

    def _retry(self, key: K, err: Exception | None) -> None:
        failures = self._failures.get(key, 0)
        self._failures[key] = failures + 1
        if err is not None:
            log.debug("%s: %s: %s", self._name, key, err)
        self.add_after(key, min(FIRST_RETRY * 2**failures, LAST_RETRY))
