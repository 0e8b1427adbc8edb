"""Availability traces: what spot capacity cost, when it was there, and when it was taken.

A trace is replayed: every rule that is tried on it meets the same prices, refusals and losses. The
format is JSON and in docs/spot.md.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Self

from corral.spot.errors import InvalidTrace
from corral.spot.markets import NETWORK, Network, Offer, Place

__all__ = ["FORMAT", "Loss", "Market", "Trace"]

FORMAT: Final = "corral.spot.trace/v1"


@dataclass(frozen=True, slots=True)
class Loss:
    """All machines of a place are taken at a time."""

    at: float
    notice_s: float
    """How long before that they were told; 0 if not at all."""


@dataclass(frozen=True, slots=True)
class Market:
    """A place over time; times are in order."""

    place: Place
    on_demand_price: float
    speed: float
    notice_s: float
    """Seconds of notice that the provider promises."""
    published_hazard: float | None
    prices: tuple[tuple[float, float], ...]
    """From when on, and how much per hour."""
    available: tuple[tuple[float, float], ...]
    """From when until when machines are given."""
    losses: tuple[Loss, ...]
    _price_times: tuple[float, ...] = field(init=False, repr=False, compare=False)
    _starts: tuple[float, ...] = field(init=False, repr=False, compare=False)
    _loss_times: tuple[float, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_price_times", tuple(at for at, _ in self.prices))
        object.__setattr__(self, "_starts", tuple(start for start, _ in self.available))
        object.__setattr__(self, "_loss_times", tuple(loss.at for loss in self.losses))

    def price(self, now: float) -> float:
        return self.prices[max(bisect_right(self._price_times, now) - 1, 0)][1]

    def gives(self, now: float) -> bool:
        """Whether a request is answered with a machine."""
        found = bisect_right(self._starts, now) - 1
        return found >= 0 and now < self.available[found][1]

    def next_loss(self, now: float) -> Loss | None:
        """When a machine that is given now will be taken."""
        found = bisect_right(self._loss_times, now)
        return self.losses[found] if found < len(self.losses) else None

    def spot(self, now: float) -> Offer:
        return Offer(
            self.place,
            self.price(now),
            speed=self.speed,
            notice_s=self.notice_s,
            published_hazard=self.published_hazard,
        )

    def on_demand(self) -> Offer:
        return Offer(self.place, self.on_demand_price, spot=False, speed=self.speed)


@dataclass(frozen=True, slots=True)
class Trace:
    """Markets from some time before 0, for their prices, until ``end``."""

    name: str
    start: float
    end: float
    markets: tuple[Market, ...]
    network: Network = NETWORK
    _by_place: dict[Place, Market] = field(init=False, repr=False, compare=False)
    _on_demand: tuple[Offer, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_by_place", {found.place: found for found in self.markets})
        first: dict[tuple[str, str, str], Market] = {}
        for found in self.markets:
            place = found.place
            first.setdefault((place.cloud, place.region, place.machine_type), found)
        object.__setattr__(self, "_on_demand", tuple(f.on_demand() for f in first.values()))

    def market(self, place: Place) -> Market:
        return self._by_place[place]

    def offers(self, now: float) -> list[Offer]:
        """All spot machines, and in each region each machine type on demand."""
        return [*(found.spot(now) for found in self.markets), *self._on_demand]

    # --- JSON ------------------------------------------------------------------------------------

    def as_object(self) -> dict[str, Any]:
        return {
            "format": FORMAT,
            "name": self.name,
            "start": self.start,
            "end": self.end,
            "markets": [_market_object(found) for found in self.markets],
        }

    @classmethod
    def of_object(cls, obj: Mapping[str, Any], network: Network | None = None) -> Self:
        """Read a trace.

        Raises:
            InvalidTrace: it is none; the message says which market and why.
        """
        if obj.get("format") != FORMAT:
            raise InvalidTrace(f"the trace's format is {obj.get('format')!r}, not {FORMAT!r}")
        rows = obj.get("markets")
        if not isinstance(rows, Sequence) or not rows:
            raise InvalidTrace("the trace has no markets")
        markets = tuple(_read_market(row, number) for number, row in enumerate(rows))
        places = [found.place for found in markets]
        twice = next((place for place in places if places.count(place) > 1), None)
        if twice is not None:
            raise InvalidTrace(f"{twice} is in the trace twice: join the two markets")
        try:
            start, end = float(obj.get("start", 0.0)), float(obj["end"])
        except (KeyError, TypeError, ValueError):
            raise InvalidTrace("the trace needs an end, in seconds") from None
        return cls(str(obj.get("name") or "trace"), start, end, markets, network or NETWORK)


def _market_object(found: Market) -> dict[str, Any]:
    out: dict[str, Any] = {
        "place": str(found.place),
        "onDemandPrice": found.on_demand_price,
        "speed": found.speed,
        "noticeSeconds": found.notice_s,
        "prices": [list(pair) for pair in found.prices],
        "available": [list(pair) for pair in found.available],
        "losses": [[loss.at, loss.notice_s] for loss in found.losses],
    }
    if found.published_hazard is not None:
        out["publishedHazard"] = found.published_hazard
    return out


def _read_market(row: Any, number: int) -> Market:
    try:
        hazard = row.get("publishedHazard")
        found = Market(
            place=Place.parse(row["place"]),
            on_demand_price=float(row["onDemandPrice"]),
            speed=float(row.get("speed", 1.0)),
            notice_s=float(row.get("noticeSeconds", 30.0)),
            published_hazard=None if hazard is None else float(hazard),
            prices=tuple((float(at), float(price)) for at, price in row["prices"]),
            available=tuple((float(a), float(b)) for a, b in row["available"]),
            losses=tuple(Loss(float(at), float(notice)) for at, notice in row.get("losses", ())),
        )
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise InvalidTrace(f"market {number} of the trace cannot be read: {error!r}") from None
    problem = _problem(found)
    if problem:
        raise InvalidTrace(f"{found.place}: {problem}")
    return found


def _problem(found: Market) -> str:
    if not found.prices:
        return "there is no price"
    if found.speed <= 0 or found.on_demand_price < 0 or any(p < 0 for _, p in found.prices):
        return "speeds are above 0 and prices not below"
    times = [at for at, _ in found.prices]
    ends = [time for pair in found.available for time in pair]
    losses = [loss.at for loss in found.losses]
    if any(row != sorted(row) for row in (times, ends, losses)):
        return "prices, available and losses must be in the order of time"
    taken = set(losses)
    if any(end not in taken for _, end in found.available[:-1]):
        return "machines are lost where availability ends: put each end among the losses"
    return ""
