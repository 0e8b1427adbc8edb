"""The work queue of a controller, with the semantics of client-go's.

Guarantees:
- A key that is added several times before it is taken is handled once.
- A key is never in the hands of two workers; one that is added while it is handled comes again
  when the worker says `done`, so no change is lost.
- Higher priorities come first, equal ones in the order of arrival. Adding a waiting key again with
  a higher priority moves it forward, never back.
- A delayed key keeps the earliest of its times.

Everything but `get` and `drain` is synchronous and works without an event loop; all must be called
from one thread.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
import time
from collections import deque
from collections.abc import Callable, Hashable
from typing import Generic, Protocol, TypeVar

from corral.runtime.queues.limiters import ExponentialLimiter, RateLimiter

__all__ = ["LOW_PRIORITY", "QueueObserver", "QueueShutDown", "WorkQueue"]

LOW_PRIORITY = -100
"""For what is known from the first list: fresh changes overtake the load of a start."""

HEARTBEAT_SECONDS = 10.0
"""Longest sleep for a delayed key, in case the clock and the event loop disagree."""

K = TypeVar("K", bound=Hashable)


class QueueShutDown(Exception):
    """The queue is shut down and empty: a worker that gets this ends."""


class QueueObserver(Protocol):
    """What happens in a queue, for metrics."""

    def added(self, depth: int) -> None: ...
    def taken(self, depth: int, waited: float) -> None: ...
    def finished(self, depth: int, worked: float) -> None: ...
    def retried(self) -> None: ...


class _Unobserved:
    def added(self, depth: int) -> None: ...
    def taken(self, depth: int, waited: float) -> None: ...
    def finished(self, depth: int, worked: float) -> None: ...
    def retried(self) -> None: ...


class WorkQueue(Generic[K]):
    """A queue of keys."""

    def __init__(
        self,
        *,
        limiter: RateLimiter | None = None,
        observer: QueueObserver | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._limiter = limiter or ExponentialLimiter()
        self._observer = observer or _Unobserved()
        self._clock = clock
        self._arrivals = itertools.count()
        # Keys that wait for a worker. An entry of the heap counts only while it is the one in
        # `_queued`: a raised priority pushes a second entry and leaves the first one behind.
        self._heap: list[tuple[int, int, K]] = []
        self._queued: dict[K, tuple[int, int, K]] = {}
        # Keys that need handling, with priority and time of arrival. Every queued key is dirty; a
        # dirty key that is not queued is in processing.
        self._dirty: dict[K, tuple[int, float]] = {}
        # Keys in the hands of a worker, with priority and time of taking.
        self._processing: dict[K, tuple[int, float]] = {}
        # Delayed keys: the entry of the heap counts only while its time is the one in `_delayed`.
        self._delays: list[tuple[float, int, K]] = []
        self._delayed: dict[K, tuple[float, int]] = {}
        self._waiters: deque[asyncio.Future[None]] = deque()
        self._drainers: list[asyncio.Future[None]] = []
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = 0.0
        self.shutting_down = False

    def __len__(self) -> int:
        """How many keys wait for a worker; delayed ones do not count."""
        return len(self._queued)

    # --- adding ----------------------------------------------------------------------------------

    def add(self, key: K, priority: int = 0) -> None:
        """The key needs handling."""
        if self.shutting_down:
            return
        known = self._dirty.get(key)
        if known is not None:
            if priority > known[0]:
                self._dirty[key] = (priority, known[1])
                self._raise(key, priority)
            return
        self._dirty[key] = (priority, self._clock())
        if key not in self._processing:
            self._push(key, priority)
        self._observer.added(len(self._queued))

    def add_after(self, key: K, delay: float, *, priority: int = 0) -> None:
        """The key needs handling after ``delay`` seconds; an earlier time it has already stays."""
        if self.shutting_down:
            return
        if delay <= 0:
            self.add(key, priority)
            return
        when = self._clock() + delay
        known = self._delayed.get(key)
        if known is not None:
            priority = max(priority, known[1])
            if known[0] <= when:
                self._delayed[key] = (known[0], priority)
                return
        self._delayed[key] = (when, priority)
        heapq.heappush(self._delays, (when, next(self._arrivals), key))
        if self._waiters:
            self._arm()

    def add_rate_limited(self, key: K, *, priority: int = 0) -> None:
        """The key failed: handle it again when the limiter allows."""
        if self.shutting_down:
            return
        self._observer.retried()
        self.add_after(key, self._limiter.when(key), priority=priority)

    def forget(self, key: K) -> None:
        """The key did not fail: its next failure is its first. `done` is needed nevertheless."""
        self._limiter.forget(key)

    def retries(self, key: K) -> int:
        """How often the key failed since it was forgotten."""
        return self._limiter.retries(key)

    # --- taking ----------------------------------------------------------------------------------

    async def get(self) -> K:
        """The next key; the worker must call `done` with it.

        Raises:
            QueueShutDown: nothing is left and nothing will come.
        """
        while True:
            key = self.pop()
            if key is not None:
                return key
            if self.shutting_down:
                raise QueueShutDown
            waiter = asyncio.get_running_loop().create_future()
            self._waiters.append(waiter)
            self._arm()
            try:
                await waiter
            except asyncio.CancelledError:
                if waiter.done() and not waiter.cancelled():
                    # Woken and cancelled in one go: the key is somebody else's then.
                    self._wake()
                raise
            finally:
                if waiter in self._waiters:
                    self._waiters.remove(waiter)

    def pop(self) -> K | None:
        """The next key if there is one now."""
        self._promote()
        while self._heap:
            entry = heapq.heappop(self._heap)
            key = entry[2]
            if self._queued.get(key) is not entry:
                continue
            del self._queued[key]
            priority, arrived = self._dirty.pop(key)
            now = self._clock()
            self._processing[key] = (priority, now)
            self._observer.taken(len(self._queued), now - arrived)
            return key
        return None

    def priority(self, key: K) -> int:
        """The priority with which a key that is being handled was taken."""
        return self._processing[key][0]

    def done(self, key: K) -> None:
        """The worker has finished with the key; it comes again if it was added meanwhile."""
        taken = self._processing.pop(key, None)
        if taken is None:
            return
        again = self._dirty.get(key)
        if again is not None:
            self._push(key, again[0])
        self._observer.finished(len(self._queued), self._clock() - taken[1])
        self._check_drained()

    def next_delay(self) -> float | None:
        """Seconds until the first delayed key is ready; ``None`` without one."""
        while self._delays:
            when, _, key = self._delays[0]
            known = self._delayed.get(key)
            if known is not None and known[0] == when:
                return max(0.0, when - self._clock())
            heapq.heappop(self._delays)
        return None

    # --- the end ---------------------------------------------------------------------------------

    def shut_down(self) -> None:
        """Take no new keys and drop delayed ones; what is queued can still be taken."""
        self.shutting_down = True
        self._delays.clear()
        self._delayed.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)
        self._waiters.clear()
        self._check_drained()

    async def drain(self) -> None:
        """Shut down and wait until the workers have handled everything that is queued."""
        self.shut_down()
        if self._queued or self._processing:
            drained = asyncio.get_running_loop().create_future()
            self._drainers.append(drained)
            await drained

    # --- inside ----------------------------------------------------------------------------------

    def _push(self, key: K, priority: int) -> None:
        entry = (-priority, next(self._arrivals), key)
        self._queued[key] = entry
        heapq.heappush(self._heap, entry)
        self._wake()

    def _raise(self, key: K, priority: int) -> None:
        queued = self._queued.get(key)
        if queued is None:
            return
        entry = (-priority, queued[1], key)
        self._queued[key] = entry
        heapq.heappush(self._heap, entry)

    def _promote(self) -> None:
        """Move delayed keys whose time has come to the queue."""
        while self._delays and self.next_delay() == 0.0:
            _, _, key = heapq.heappop(self._delays)
            _, priority = self._delayed.pop(key)
            self.add(key, priority)

    def _wake(self) -> None:
        while self._waiters:
            waiter = self._waiters.popleft()
            if not waiter.done():
                waiter.set_result(None)
                return

    def _arm(self) -> None:
        """See to it that a waiting worker is woken when the first delayed key is ready."""
        delay = self.next_delay()
        if delay is None:
            return
        loop = asyncio.get_running_loop()
        at = loop.time() + min(delay, HEARTBEAT_SECONDS)
        if self._timer is not None:
            if self._timer_at <= at:
                return
            self._timer.cancel()
        self._timer_at = at
        self._timer = loop.call_at(at, self._tick)

    def _tick(self) -> None:
        self._timer = None
        self._promote()
        if self._waiters:
            self._arm()

    def _check_drained(self) -> None:
        if self.shutting_down and not self._queued and not self._processing:
            for drained in self._drainers:
                if not drained.done():
                    drained.set_result(None)
            self._drainers.clear()
