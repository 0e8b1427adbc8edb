"""How many requests one pod may send, and how much of them is in memory at a time. No I/O."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from corral.operator.reports.errors import TooMany
from corral.runtime.queues.limiters import BucketLimiter

__all__ = ["BodyLimits", "PodLimits"]

MAX_PODS = 20_000
"""Remembered at a time; the ones that were silent longest are forgotten, which allows them more."""


class PodLimits:
    """A token bucket for each pod."""

    def __init__(
        self, per_second: float = 20.0, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._rate = per_second
        self._clock = clock
        self._pods: dict[str, BucketLimiter] = {}

    def take(self, uid: str) -> None:
        """Count a request of a pod.

        Raises:
            TooMany: it has sent too many.
        """
        bucket = self._pods.pop(uid, None)
        if bucket is None:
            burst = max(1, round(self._rate))
            bucket = BucketLimiter(self._rate, burst, clock=self._clock)
        self._pods[uid] = bucket  # the newest is the last
        if len(self._pods) > MAX_PODS:
            del self._pods[next(iter(self._pods))]
        if not bucket.try_take():
            raise TooMany(f"a pod may send {self._rate:g} requests a second")


class BodyLimits:
    """The bytes of bodies that are read or worked on, by namespace."""

    PER_NAMESPACE = 64 << 20
    IN_ALL = 512 << 20

    def __init__(self, *, per_namespace: int = PER_NAMESPACE, in_all: int = IN_ALL) -> None:
        self._per_namespace, self._in_all = per_namespace, in_all
        self._held: Counter[str] = Counter()

    @contextmanager
    def room(self, namespace: str, size: int) -> Iterator[None]:
        """Hold room for a body.

        Raises:
            TooMany: the namespace has its share in memory already, or all have.
        """
        held = self._held[namespace] + size
        if held > self._per_namespace or self._held.total() + size > self._in_all:
            raise TooMany(
                f"namespace {namespace} has {held - size} bytes of requests under way: "
                "send this one again when they are done"
            )
        self._held[namespace] = held
        try:
            yield
        finally:
            self._held[namespace] -= size
            if not self._held[namespace]:
                del self._held[namespace]
