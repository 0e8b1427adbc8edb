"""How many requests one pod may send. No I/O."""

from __future__ import annotations

import time
from collections.abc import Callable

from corral.operator.reports.errors import TooMany
from corral.runtime.limiters import BucketLimiter

__all__ = ["PodLimits"]

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
