"""How long to wait before a list and watch is begun again. No I/O."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass

__all__ = ["Backoff", "BackoffSettings"]


@dataclass(frozen=True, slots=True)
class BackoffSettings:
    """Waits in seconds: ``first · factor^n`` up to ``cap``, stretched by up to ``jitter``."""

    first: float = 0.8
    factor: float = 2.0
    cap: float = 30.0
    jitter: float = 1.0
    """A wait is multiplied by a random number between 1 and 1 + this."""
    reset_after: float = 120.0
    """Seconds without a failure after which the waits begin anew."""


class Backoff:
    """The waits of one loop."""

    def __init__(
        self,
        settings: BackoffSettings | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
        rng: Callable[[], float] = random.random,
    ) -> None:
        self._settings = settings or BackoffSettings()
        self._clock = clock
        self._rng = rng
        self._failures = 0
        self._last = clock()

    def next(self) -> float:
        """Count a failure; the seconds to wait now."""
        settings, now = self._settings, self._clock()
        if now - self._last > settings.reset_after:
            self._failures = 0
        self._last = now
        # Beyond a few dozen doublings the cap holds anyway and the power would overflow.
        wait = settings.first * settings.factor ** min(self._failures, 64)
        self._failures += 1
        return min(wait, settings.cap) * (1 + settings.jitter * self._rng())
