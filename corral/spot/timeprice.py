"""What a second is worth to a job with a deadline.

A cheap machine that is slow uses time up that must be bought back with dear, fast ones. Among
machines of a cost and a time per work, the cheapest mixture that is in time lies between two
neighbours of the lower convex hull; what the faster costs more, per second that it saves, is the
price of time. With that price added to every second, the cheapest machine is the right one of the
mixture.
"""

from __future__ import annotations

from collections.abc import Iterable

__all__ = ["price_of_time"]


def price_of_time(machines: Iterable[tuple[float, float]], *, allowed: float) -> float:
    """Cost of a second, 0 where the cheapest machine is fast enough.

    Args:
        machines: Seconds and cost per second of work, of each.
        allowed: Seconds per second of work that are left on the average.
    """
    points = sorted(machines, key=lambda point: (point[1], point[0]))
    if not points:
        return 0.0
    time, cost = points[0]
    price = 0.0
    while time > allowed:
        faster = [(t, c) for t, c in points if t < time - 1e-12]
        if not faster:
            return price
        slopes = ((max(c - cost, 0.0) / (time - t), t, c) for t, c in faster)
        price, time, cost = min(slopes)
    return price
