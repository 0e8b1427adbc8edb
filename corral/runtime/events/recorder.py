"""Events about objects, written beside the work: recording one never waits and never fails.

Events go through a bounded queue; when it is full they are dropped and counted. One task writes
them in order. While the server cannot be reached an event is tried again, at most 12 times; one
that the server refuses is dropped.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Awaitable, Callable
from typing import Literal

from corral.kube.client import KubeClient
from corral.kube.connection.transport import KubeConnectionError
from corral.kube.errors import ApiError, NotFound
from corral.kube.resources import EVENTS
from corral.kube.types import Obj
from corral.runtime.events.correlation import (
    Correlated,
    CorrelationSettings,
    EventCorrelator,
    make_event,
)
from corral.runtime.metrics import RuntimeMetrics
from corral.runtime.queues.limiters import BucketLimiter

__all__ = ["EventRecorder"]

logger = logging.getLogger(__name__)

QUEUE_SIZE = 8000
EVENTS_PER_SECOND = 25.0
EVENTS_AT_ONCE = 50
MAX_TRIES = 12
RETRY_SECONDS = 10.0
MAX_MESSAGE = 1024
"""Longest message the API accepts."""


class EventRecorder:
    """The events of one component; `run` writes them."""

    def __init__(
        self,
        client: KubeClient,
        component: str,
        *,
        host: str = "",
        limiter: BucketLimiter | None = None,
        size: int = QUEUE_SIZE,
        settings: CorrelationSettings | None = None,
        metrics: RuntimeMetrics | None = None,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
        rng: Callable[[], float] = random.random,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        """``limiter`` says how fast events are written, ``size`` how many may wait."""
        self._client = client
        self._limiter = limiter
        self._component = component
        self._host = host
        self._metrics = metrics
        self._wall, self._rng, self._sleep = wall, rng, sleep
        self._correlator = EventCorrelator(settings, clock=clock)
        self._queue: asyncio.Queue[Obj] = asyncio.Queue(size)
        self._last = 0
        self.dropped = 0
        """Events that were lost because the queue was full."""

    def normal(self, obj: Obj, reason: str, message: str) -> None:
        """Something happened as it should."""
        self.record(obj, "Normal", reason=reason, message=message)

    def warning(self, obj: Obj, reason: str, message: str) -> None:
        """Something went wrong."""
        self.record(obj, "Warning", reason=reason, message=message)

    def record(
        self,
        obj: Obj,
        type: Literal["Normal", "Warning"],
        *,
        reason: str,
        message: str,
        field_path: str = "",
    ) -> None:
        """Note an event about an object that was read from the API; returns at once.

        ``field_path`` names the part of the object that it is about, such as a container.
        """
        # Names are made of the time: two events at the same moment must not get the same one.
        self._last = max(int(self._wall() * 1e9), self._last + 1)
        event = make_event(
            obj,
            type=type,
            reason=reason,
            message=message[:MAX_MESSAGE],
            component=self._component,
            host=self._host,
            nanoseconds=self._last,
            field_path=field_path,
        )
        try:
            self._queue.put_nowait(event)
        except asyncio.QueueFull:
            self.dropped += 1
            self._count_drop("queue full")
            logger.warning("too many events are waiting: dropped %s %s", reason, message)

    async def run(self) -> None:
        """Write events until cancelled."""
        while True:
            event = await self._queue.get()
            try:
                correlated = self._correlator.correlate(event)
                if correlated is None:
                    self._count_drop("spam")
                else:
                    if self._limiter is not None and (wait := self._limiter.when()):
                        await self._sleep(wait)
                    await self._write(correlated)
            except Exception:
                logger.exception("an event could not be written: %s", event["reason"])
            finally:
                self._queue.task_done()

    async def flush(self) -> None:
        """Wait until everything that was recorded is written or given up; `run` must be running."""
        await self._queue.join()

    async def _write(self, correlated: Correlated) -> None:
        for tries in range(1, MAX_TRIES + 1):
            try:
                await self._send(correlated)
            except ApiError as error:
                # It would be refused again: the object's namespace is going, or we may not.
                self._count_drop("refused")
                logger.info("the server refused an event: %s", error)
                return
            except KubeConnectionError as error:
                logger.info("an event was not written (try %d): %s", tries, error)
            else:
                return
            if tries < MAX_TRIES:
                # The first wait is spread: many clients lose the same server at the same time.
                await self._sleep(RETRY_SECONDS * (self._rng() if tries == 1 else 1.0))
        self._count_drop("unreachable")

    async def _send(self, correlated: Correlated) -> None:
        event = correlated.event
        namespace = event["metadata"]["namespace"]
        if correlated.patch is not None:
            try:
                await self._client.patch(
                    EVENTS,
                    event["metadata"]["name"],
                    namespace=namespace,
                    patch=correlated.patch,
                    kind="strategic",
                )
            except NotFound:
                logger.debug("the event to count up has expired: making a new one")
            else:
                return
        await self._client.create(EVENTS, event, namespace=namespace)

    def _count_drop(self, why: str) -> None:
        if self._metrics:
            self._metrics.events_dropped.labels(why).inc()
