"""What spot machines will cost: the price of now, fading into what this hour of the day is like."""

from __future__ import annotations

from collections.abc import Mapping
from math import exp
from typing import Any, Final, Self

from corral.spot.errors import InvalidTrace
from corral.spot.markets import HOUR, Place

__all__ = ["PriceHistory"]

_HOURS: Final = 24
_WEIGHT: Final = 0.35
"""Of the newest day in the mean of an hour of the day."""
_MEMORY_S: Final = 5 * HOUR
"""How long a price that is not like its hour stays so."""
_LONGEST: Final = 96
_KEPT: Final = [exp(-(step + 0.5) * HOUR / _MEMORY_S) for step in range(_LONGEST)]
"""What is left of it in the middle of each hour to come."""


class PriceHistory:
    """Prices by place and hour of the day (UTC); providers publish them, so they cost nothing."""

    def __init__(self) -> None:
        self._profiles: dict[Place, list[float | None]] = {}
        self._last: dict[Place, tuple[float, float]] = {}

    def observe(self, place: Place, at: float, price: float) -> None:
        """A price that was seen; in the order of time, at best every hour."""
        profile = self._profiles.setdefault(place, [None] * _HOURS)
        before = self._last.get(place)
        hour = int(at // HOUR) % _HOURS
        old = profile[hour]
        if old is None:
            profile[hour] = price
        elif before is None or int(before[0] // HOUR) != int(at // HOUR):
            profile[hour] = old + _WEIGHT * (price - old)
        self._last[place] = (at, price)

    def forecast(self, place: Place, at: float, *, now: float, price: float) -> float:
        """What it will cost at a time, if it costs ``price`` now."""
        profile = self._profiles.get(place)
        if profile is None:
            return price
        usual, usual_now = profile[int(at // HOUR) % _HOURS], profile[int(now // HOUR) % _HOURS]
        if usual is None or usual_now is None:
            return price
        kept = exp(-max(at - now, 0.0) / _MEMORY_S)
        return max(usual + (price - usual_now) * kept, 0.0)

    def ahead(self, place: Place, hours: int, *, now: float, price: float) -> list[float]:
        """The forecasts for the middle of each of the next hours."""
        profile = self._profiles.get(place)
        usual_now = profile[int(now // HOUR) % _HOURS] if profile is not None else None
        if profile is None or usual_now is None:
            return [price] * hours
        first, off, out = int((now + HOUR / 2) // HOUR), price - usual_now, []
        for step in range(hours):
            usual = profile[(first + step) % _HOURS]
            out.append(
                price if usual is None else max(usual + off * _KEPT[min(step, _LONGEST - 1)], 0.0)
            )
        return out

    def mean(self, place: Place, seconds: float, *, now: float, price: float) -> float:
        """The mean forecast over a stay, at most a day."""
        steps = max(1, min(_HOURS, round(seconds / HOUR)))
        return sum(self.ahead(place, steps, now=now, price=price)) / steps

    def as_object(self) -> dict[str, Any]:
        """The prices as an object for JSON, as they are kept."""
        return {
            str(place): {"hours": profile, "last": list(self._last[place])}
            for place, profile in sorted(self._profiles.items())
        }

    @classmethod
    def of_object(cls, obj: Mapping[str, Any]) -> Self:
        """What `as_object` wrote.

        Raises:
            InvalidTrace: it did not.
        """
        history = cls()
        try:
            for text, row in obj.items():
                place, hours = Place.parse(text), list(row["hours"])
                if len(hours) != _HOURS:
                    raise ValueError(f"{text} has {len(hours)} hours, not {_HOURS}")
                history._profiles[place] = [None if h is None else float(h) for h in hours]
                at, price = row["last"]
                history._last[place] = (float(at), float(price))
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise InvalidTrace(f"this is no price history: {error}") from None
        return history
