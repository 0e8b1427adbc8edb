"""Answers that are worth remembering for a while; nobody asks twice at the same time."""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

SIZE = 4096


class Memory(Generic[K, V]):
    """The youngest ``size`` answers, each for as long as it says. A failure is not remembered."""

    def __init__(self, *, size: int = SIZE, clock: Callable[[], float] = time.monotonic) -> None:
        self._size = size
        self._clock = clock
        self._known: OrderedDict[K, tuple[float, V]] = OrderedDict()
        self._asking: dict[K, asyncio.Task[V]] = {}

    async def get(self, key: K, ask: Callable[[], Awaitable[tuple[V, float]]]) -> V:
        """The answer to ``key``; ``ask`` gives it with the seconds for which it holds.

        Raises what ``ask`` raised. Those who come meanwhile share its answer.
        """
        known = self._known.get(key)
        if known is not None and known[0] > self._clock():
            return known[1]
        task = self._asking.get(key)
        if task is None:
            task = asyncio.ensure_future(self._learn(key, ask))
            self._asking[key] = task
            task.add_done_callback(lambda done: self._asked(key, done))
        # one who gives up must not take the answer from the others
        return await asyncio.shield(task)

    async def _learn(self, key: K, ask: Callable[[], Awaitable[tuple[V, float]]]) -> V:
        answer, seconds = await ask()
        self._known[key] = (self._clock() + seconds, answer)
        self._known.move_to_end(key)
        while len(self._known) > self._size:
            self._known.popitem(last=False)
        return answer

    def _asked(self, key: K, task: asyncio.Task[V]) -> None:
        del self._asking[key]
        if not task.cancelled():
            task.exception()  # whoever still waits for it has it; nobody else needs to hear

    async def close(self) -> None:
        """End the questions that are under way."""
        tasks = list(self._asking.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
