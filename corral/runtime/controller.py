"""A controller: a queue, workers, and a reconciler that is told which object to look at.

The contract with a reconciler:
- It is given a key and brings the world nearer to what the object says; it looks everything up
  itself, and is never called for the same key twice at a time.
- It raises: the key is tried again, with growing waits. `TerminalError`: not until it changes.
- It raises `NotYetConsistent` (see `consistency`): tried again within `BEHIND_MAX` seconds; that is
  no failure, and counts for no growing wait.
- It raises `Conflict`: what it read has changed since; tried again, with growing waits, and no
  failure either.
- It returns ``Result(requeue_after=s)``: it is called again after that time. Else it is done.
- It may be cancelled at shutdown, and by ``timeout``; a step that must not be torn is shielded.
"""

from __future__ import annotations

import asyncio
import logging
import time
import uuid
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

from corral.kube.errors import Conflict
from corral.runtime.informers.consistency import NotYetConsistent
from corral.runtime.informers.handlers import Mapper, same_object
from corral.runtime.informers.informer import Change, Informer
from corral.runtime.logcontext import ReconcileContext, reconciling
from corral.runtime.metrics import RuntimeMetrics
from corral.runtime.queues.limiters import ExponentialLimiter, RateLimiter
from corral.runtime.queues.workqueue import LOW_PRIORITY, QueueShutDown, WorkQueue
from corral.runtime.sharing import WHOLE, Share

__all__ = ["CacheSyncTimeout", "Controller", "Reconciler", "Result", "TerminalError"]

logger = logging.getLogger(__name__)

BEHIND_FIRST: Final = 0.005
BEHIND_MAX: Final = 0.1
"""Seconds between two tries while a cache is behind our own writes. The wait does not grow further:
a watch that is away for long is no reason to be away for longer."""


@dataclass(frozen=True, slots=True)
class Result:
    """What a reconciler wants next."""

    requeue_after: float = 0.0
    """Seconds until it wants to be called again; 0 = when something changes."""


class TerminalError(Exception):
    """Trying again will not help; raise it ``from`` the cause."""


class CacheSyncTimeout(Exception):
    """An informer did not get its first list in time."""


Reconciler = Callable[[str], Awaitable[Result | None]]


class Controller:
    """Wire it up with `watch`, then `run` it (or let a manager do so)."""

    def __init__(
        self,
        name: str,
        reconciler: Reconciler,
        *,
        workers: int = 1,
        timeout: float | None = None,
        limiter: RateLimiter | None = None,
        metrics: RuntimeMetrics | None = None,
        share: Share = WHOLE,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """``timeout`` bounds one reconcile, in seconds; keys beyond ``share`` are others' work."""
        self.name = name
        self._reconciler = reconciler
        self._workers = workers
        self._timeout = timeout
        self._share = share
        self._metrics = metrics
        self._clock = clock
        self.informers: list[Informer] = []
        """Those it waits for before it starts."""
        observer = metrics.queue(name) if metrics else None
        self.queue: WorkQueue[str] = WorkQueue(limiter=limiter, observer=observer, clock=clock)
        self._behind = ExponentialLimiter(BEHIND_FIRST, BEHIND_MAX)

    def watch(
        self,
        informer: Informer,
        mapper: Mapper = same_object,
        *,
        when: Callable[[Change], bool] | None = None,
        after: Callable[[Change], float] | None = None,
    ) -> None:
        """Reconcile what the mapper makes of every change (for which ``when`` holds).

        What is known from the first list has low priority: fresh changes overtake it. ``after``
        says for how many seconds others may yet join a change, so that one reconcile sees all.
        """

        def enqueue(change: Change) -> None:
            if when is not None and not when(change):
                return
            priority = LOW_PRIORITY if change.is_initial else 0
            wait = after(change) if after is not None else 0.0
            for key in mapper(change):
                if key not in self._share:
                    continue
                if wait > 0:
                    self.queue.add_after(key, wait, priority=priority)
                else:
                    self.queue.add(key, priority)

        if informer not in self.informers:
            self.informers.append(informer)
        informer.add_handler(enqueue)

    # --- running ---------------------------------------------------------------------------------

    async def wait_synced(self, limit: float = 120.0) -> None:
        """Wait for the first list of every informer, for ``limit`` seconds at most.

        Raises:
            CacheSyncTimeout: one took too long.
        """
        try:
            async with asyncio.timeout(limit):
                for informer in self.informers:
                    await informer.wait_synced()
        except TimeoutError:
            missing = ", ".join(str(i.scope) for i in self.informers if not i.synced)
            raise CacheSyncTimeout(
                f"{self.name}: no first list within {limit:g} s of {missing}"
            ) from None

    async def run(self) -> None:
        """Work until `stop`; cancelling it interrupts the reconciles that are going on."""
        if self._metrics:
            self._metrics.max_workers.labels(self.name).set(self._workers)
        async with asyncio.TaskGroup() as group:
            for number in range(self._workers):
                group.create_task(self._work(), name=f"{self.name}-{number}")

    def stop(self) -> None:
        """Begin no further reconcile; `run` returns when those going on have ended."""
        self.queue.shut_down()

    async def _work(self) -> None:
        while True:
            try:
                key = await self.queue.get()
            except QueueShutDown:
                return
            try:
                # What is left at a stop is listed again by the next start.
                if not self.queue.shutting_down and key in self._share:
                    await self._handle(key)
            finally:
                self.queue.done(key)

    async def _handle(self, key: str) -> None:
        """Reconcile and decide what follows."""
        priority = self.queue.priority(key)
        started = self._clock()
        outcome = "success"
        with reconciling(ReconcileContext(self.name, key, str(uuid.uuid4()))):
            self._count_active(1)
            try:
                result = await self._reconcile(key)
            except TerminalError as error:
                outcome = "terminal_error"
                self.queue.forget(key)
                logger.error("%s %s: not tried again: %s", self.name, key, _described(error))
            except NotYetConsistent as error:
                outcome = "requeue"
                self.queue.add_after(key, self._behind.when(key), priority=priority)
                logger.debug("%s %s: the cache is behind: %s", self.name, key, error)
            except Conflict as error:
                outcome = "requeue"
                self.queue.add_rate_limited(key, priority=priority)
                logger.debug("%s %s: changed meanwhile: %s", self.name, key, error)
            except Exception as error:
                outcome = "error"
                self.queue.add_rate_limited(key, priority=priority)
                self._log_failure(key, error)
            else:
                self.queue.forget(key)
                if result is not None and result.requeue_after > 0:
                    outcome = "requeue_after"
                    self.queue.add_after(key, result.requeue_after, priority=priority)
            finally:
                self._count_active(-1)
                if outcome != "requeue":
                    self._behind.forget(key)
        self._count(outcome, self._clock() - started)

    async def _reconcile(self, key: str) -> Result | None:
        try:
            async with asyncio.timeout(self._timeout):
                return await self._reconciler(key)
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            # Something the reconciler waited for was cancelled, not we: a failure like any other.
            raise RuntimeError("the reconciler waited for something that was cancelled") from None

    def _log_failure(self, key: str, error: Exception) -> None:
        retries = self.queue.retries(key)
        logger.warning(
            "%s %s: failed (try %d): %s",
            self.name, key, retries, _described(error),
            # The stack is worth its lines once.
            exc_info=error if retries == 1 else None,
        )  # fmt: skip

    def _count_active(self, change: int) -> None:
        if self._metrics:
            self._metrics.active_workers.labels(self.name).inc(change)

    def _count(self, outcome: str, seconds: float) -> None:
        if self._metrics is None:
            return
        metrics, failed = self._metrics, outcome.endswith("error")
        metrics.reconciles.labels(self.name, "error" if failed else outcome).inc()
        metrics.reconcile_time.labels(self.name).observe(seconds)
        if failed:
            metrics.reconcile_errors.labels(self.name).inc()
        if outcome == "terminal_error":
            metrics.terminal_errors.labels(self.name).inc()


def _described(error: BaseException) -> str:
    text = str(error) or type(error).__name__
    cause = error.__cause__
    return f"{text}: {cause}" if isinstance(error, TerminalError) and cause else text
