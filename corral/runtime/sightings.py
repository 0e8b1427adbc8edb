"""Times that a wrong clock wrote, and since when they are known. No I/O.

Who waits until some time after one that a clock two years ahead has written waits for two years,
though the clock has long been right again. Such a time says nothing about when it was written; nor
is it over, as it may be of a moment ago. So what is waited for is counted from when this process
first saw it. That holds as well while the own clock is the one that is wrong: all times lie ahead
then, and nothing is given up for it.
"""

from __future__ import annotations

from typing import Final

__all__ = ["SKEW_S", "Sightings"]

SKEW_S: Final = 300.0
"""Seconds by which clocks that are right may be apart."""
_KNOWN: Final = 10_000
"""Times that are remembered; of more, those that were seen first are seen anew."""


class Sightings:
    """Of one controller.

    Times are known by their value: what a wrong clock wrote in one and the same second counts as
    seen together.
    """

    def __init__(self) -> None:
        self._first: dict[float, float] = {}
        """Every key lies ahead of its value."""

    def since(self, at: float, *, now: float) -> float:
        """A time that is past, for one that should be: itself, or when it was first seen."""
        if at - now <= SKEW_S:
            self._first.pop(at, None)
            return at
        if at not in self._first and len(self._first) >= _KNOWN:
            del self._first[next(iter(self._first))]
        first = self._first[at] = min(self._first.get(at, now), now)
        return first

    def left(self, at: float, wait: float, *, now: float) -> float:
        """Seconds that are left of a wait that began at a time; 0 or less when it is over."""
        return self.since(at, now=now) + wait - now
