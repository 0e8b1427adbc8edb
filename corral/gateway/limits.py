"""What one caller may take: requests a second, bytes of a body, places at the same time, and time.

Everything is bounded: a rate by token (by address where there is none), the number of ordinary
requests at work and of those that wait for a place, the number of open streams in total and by
token. Whoever is refused is told when to come back.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections import Counter, OrderedDict
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass

__all__ = ["Busy", "LimitSettings", "Places", "RateLimited", "RateLimiter", "StreamPlaces"]


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitSettings:
    """The bounds of a gateway."""

    rate: float = 50.0
    """Requests a second of one token, or of one address without any."""
    burst: int = 200
    """Requests that may come at once."""
    body_bytes: int = 3 * 1024 * 1024
    """Of a request; as much as an API server takes."""
    model_bytes: int = 1 << 30
    """Of a request with a model; it goes to a file and from there to a registry."""
    requests: int = 256
    """Ordinary requests at work at the same time."""
    waiting: int = 1024
    """Ordinary requests that may wait for a place."""
    streams: int = 4096
    """Open watches and logs."""
    streams_each: int = 1024
    """Open watches and logs of one token."""
    request_seconds: float = 30.0
    """How long an ordinary request may take, waiting included."""
    log_seconds: float = 300.0
    """How long a log may be read or followed; the caller then goes on where it ended."""
    watch_seconds: float = 3600.0
    """How long a watch may last; the caller then goes on where it ended."""


class RateLimited(Exception):
    """Too many requests; `retry_after` is in whole seconds."""

    def __init__(self, retry_after: int) -> None:
        super().__init__(f"too many requests: come back in {retry_after} s")
        self.retry_after = retry_after


class Busy(Exception):
    """Every place is taken; the words say which ones."""

    retry_after = 1


class RateLimiter:
    """Token buckets, one for each key; the least recently used are forgotten."""

    def __init__(
        self,
        rate: float,
        burst: int,
        *,
        keys: int = 16384,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._rate, self._burst, self._keys, self._clock = rate, burst, keys, clock
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()
        """Key to what is left, and when that was; most recently used last."""

    def take(self, key: str) -> int:
        """Count one request; gives how many more may come at once. Raises RateLimited."""
        now = self._clock()
        left, since = self._buckets.pop(key, (float(self._burst), now))
        left = min(self._burst, left + (now - since) * self._rate)
        allowed = left >= 1
        self._buckets[key] = (left - 1 if allowed else left, now)
        while len(self._buckets) > self._keys:
            self._buckets.popitem(last=False)
        if not allowed:
            raise RateLimited(max(1, math.ceil((1 - left) / self._rate)))
        return int(left - 1)


class Places:
    """Places for requests at work, and for a bounded number of those that wait."""

    def __init__(self, count: int, waiting: int) -> None:
        self._free = asyncio.Semaphore(count)
        self._waiting, self._most = 0, waiting

    @asynccontextmanager
    async def one(self) -> AsyncIterator[None]:
        """A place, when it is our turn. Raises Busy."""
        if self._free.locked():
            if self._waiting >= self._most:
                raise Busy("the gateway has as many requests as it takes")
            self._waiting += 1
            try:
                await self._free.acquire()
            finally:
                self._waiting -= 1
        else:
            await self._free.acquire()
        try:
            yield
        finally:
            self._free.release()


class StreamPlaces:
    """Places for streams: nobody waits for one, and one caller cannot have them all."""

    def __init__(self, count: int, each: int) -> None:
        self._count, self._each = count, each
        self._taken: Counter[str] = Counter()
        self._total = 0

    @property
    def total(self) -> int:
        """Streams that are open."""
        return self._total

    @contextmanager
    def one(self, key: str) -> Iterator[None]:
        """A place at once. Raises Busy."""
        if self._taken[key] >= self._each:
            raise Busy(f"one caller may have {self._each} watches and logs open at the same time")
        if self._total >= self._count:
            raise Busy("the gateway has as many watches and logs open as it takes")
        self._taken[key] += 1
        self._total += 1
        try:
            yield
        finally:
            self._total -= 1
            self._taken[key] -= 1
            if not self._taken[key]:
                del self._taken[key]
