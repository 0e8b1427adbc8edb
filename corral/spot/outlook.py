"""What work will cost hour by hour: the cheapest machines that will probably be had.

A job with time to spare runs in the cheap hours of what is left until its deadline (`ceiling`).
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, inf

from corral.spot.estimate import Estimate
from corral.spot.memory import Memory

__all__ = ["ceiling", "outlook"]

_FEW = 8
"""How many places are looked at; the others would hardly be used."""
_LONGEST_HOURS = 72


def outlook(
    memory: Memory, spot: Sequence[Estimate], *, now: float, hours: int, time_price: float = 0.0
) -> list[float]:
    """Expected cost of a second of work in each of the next hours, now's included.

    Places are tried from the cheapest on; each is had as often as it was had lately.
    """
    few = sorted(spot, key=lambda found: found.rate_with(time_price))[:_FEW]
    given = [memory.hazard.given(found.offer.place, now) for found in few]
    hours = max(1, min(hours, _LONGEST_HOURS))
    rows = [_rates(memory, found, now, hours, time_price) for found in few]
    return [_expected(sorted(zip(hour, given, strict=True))) for hour in zip(*rows, strict=True)]


def _rates(
    memory: Memory, found: Estimate, now: float, hours: int, time_price: float
) -> list[float]:
    offer, time = found.offer, time_price / found.pace
    prices = memory.prices.ahead(offer.place, hours, now=now, price=offer.price)
    return [found.rate_at(price) + time for price in prices]


def _expected(rates: Sequence[tuple[float, float]]) -> float:
    """The mean of the first that is given; one of them is in the end."""
    total = share = 0.0
    left = 1.0
    for rate, given in rates:
        total += left * given * rate
        share += left * given
        left *= 1 - given
    return total / share if share else inf


def ceiling(costs: Sequence[float], *, hours: float) -> float:
    """What a second of work may cost if the cheapest ``hours`` of those to come are used."""
    wanted = ceil(hours)
    if wanted >= len(costs):
        return inf
    return sorted(costs)[max(wanted, 1) - 1]
