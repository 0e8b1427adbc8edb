"""What goes wrong, decided by a seed alone.

A decision depends on the seed, the method, the path and how many requests of that method and path
came before: not on the order in which requests of different objects happen to arrive. So a seed
that found a mistake finds it again.
"""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field
from enum import StrEnum

__all__ = ["DEFAULT_MIX", "Fault", "FaultPlan", "WatchPlan"]


class Fault(StrEnum):
    """What becomes of one request."""

    ERROR = "error"
    """500, and the server never saw the request."""
    THROTTLE = "throttle"
    """429 with ``Retry-After``, and the server never saw it."""
    HANG = "hang"
    """No answer for a while, then none at all; the server never saw it."""
    DROP = "drop"
    """The connection is reset before the server saw the request."""
    LOST = "lost"
    """The server did it, and the connection is reset before the answer."""
    CUT = "cut"
    """A watch ends in the middle of an event."""


DEFAULT_MIX: dict[Fault, int] = {
    Fault.ERROR: 3,
    Fault.THROTTLE: 2,
    Fault.HANG: 1,
    Fault.DROP: 2,
    Fault.LOST: 2,
}


@dataclass
class WatchPlan:
    """When one watch that was opened is cut."""

    rng: random.Random
    rate: float

    def cuts(self, events: int) -> bool:
        """Whether it ends within the next so many events."""
        return any(self.rng.random() < self.rate for _ in range(events))


@dataclass
class FaultPlan:
    """Which requests fail, and how."""

    seed: int
    rate: float = 0.0
    """Share of requests that fail; 0 passes everything on."""
    cut_rate: float | None = None
    """Share of the events at which a watch is cut; a tenth of ``rate`` if not given."""
    mix: dict[Fault, int] = field(default_factory=lambda: dict(DEFAULT_MIX))
    """How often each kind is chosen, by weight."""
    hang_seconds: float = 1.0
    retry_after: int = 1
    _counts: Counter[str] = field(default_factory=Counter)

    def decide(self, method: str, path: str) -> Fault | None:
        """The fate of the next request of this method and path."""
        rng = self._next(f"{method} {path}")
        if rng.random() >= self.rate:
            return None
        return rng.choices(list(self.mix), weights=list(self.mix.values()))[0]

    def watch(self, path: str) -> WatchPlan:
        """The fate of a watch that is about to be opened."""
        rate = self.rate / 10 if self.cut_rate is None else self.cut_rate
        return WatchPlan(self._next(f"events {path}"), rate)

    def _next(self, what: str) -> random.Random:
        self._counts[what] += 1
        return random.Random(f"{self.seed} {what} {self._counts[what]}")
