"""How long a failing key has to wait for its next try. No I/O; times come from a clock.

`ExponentialLimiter` doubles per key, `BucketLimiter` bounds all keys together, `MaxLimiter` takes
the longest wait of several.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable
from typing import Protocol

__all__ = ["BucketLimiter", "ExponentialLimiter", "MaxLimiter", "RateLimiter", "default_limiter"]


class RateLimiter(Protocol):
    """Counts the tries of a key and says how long it has to wait."""

    def when(self, key: Hashable) -> float:
        """Count a try; seconds until it may happen."""

    def forget(self, key: Hashable) -> None:
        """The key is fine: its count begins anew."""

    def retries(self, key: Hashable) -> int:
        """Tries since the key was forgotten."""


class ExponentialLimiter:
    """``base · 2^n`` seconds for the n-th try of a key, up to a cap."""

    def __init__(self, base: float = 0.005, cap: float = 1000.0) -> None:
        self._base = base
        self._cap = cap
        self._failures: dict[Hashable, int] = {}

    def when(self, key: Hashable) -> float:
        count = self._failures.get(key, 0)
        self._failures[key] = count + 1
        # The exponent is bounded because a float has no 2^1024.
        return min(float(self._base * 2.0 ** min(count, 256)), self._cap)

    def forget(self, key: Hashable) -> None:
        self._failures.pop(key, None)

    def retries(self, key: Hashable) -> int:
        return self._failures.get(key, 0)


class BucketLimiter:
    """A token bucket over all keys: ``qps`` on average, ``burst`` at once."""

    def __init__(
        self, qps: float = 10.0, burst: int = 100, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._qps = qps
        self._burst = float(burst)
        self._clock = clock
        self._tokens = float(burst)
        self._last = clock()

    def when(self, key: Hashable = None) -> float:
        """Reserve a token; seconds until it is there."""
        self._refill()
        self._tokens -= 1
        return max(0.0, -self._tokens / self._qps)

    def try_take(self) -> bool:
        """Take a token only if there is one now."""
        self._refill()
        if self._tokens < 1:
            return False
        self._tokens -= 1
        return True

    def forget(self, key: Hashable) -> None:
        """Nothing is known of single keys."""

    def retries(self, key: Hashable) -> int:
        return 0

    def _refill(self) -> None:
        now = self._clock()
        self._tokens = min(self._burst, self._tokens + (now - self._last) * self._qps)
        self._last = now


class MaxLimiter:
    """The longest wait of several limiters."""

    def __init__(self, *limiters: RateLimiter) -> None:
        self._limiters = limiters

    def when(self, key: Hashable) -> float:
        return max(limiter.when(key) for limiter in self._limiters)

    def forget(self, key: Hashable) -> None:
        for limiter in self._limiters:
            limiter.forget(key)

    def retries(self, key: Hashable) -> int:
        return max(limiter.retries(key) for limiter in self._limiters)


def default_limiter(*, clock: Callable[[], float] = time.monotonic) -> RateLimiter:
    """client-go's default: 5 ms · 2^n up to 1000 s, and 10 a second with bursts of 100."""
    return MaxLimiter(ExponentialLimiter(), BucketLimiter(clock=clock))
