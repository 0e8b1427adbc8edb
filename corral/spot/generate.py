"""Traces of public shape: made from a model and a seed, not measured.

Nine regions of three clouds, two or three zones each, two machine types. What stays with a market
(how scarce, how dear, how risky it is) is drawn once; what happens in it is drawn over time. Shapes
differ in what moves:

``scarce``   Capacity comes and goes zone by zone, hours up and hours down, and whole regions fail
             together; prices hardly move. So do published availability probes of large GPUs look.
``diurnal``  Prices and risk follow the working day of the region and float in between, as where
             prices are a market's.
``bursty``   Calm for a day or two, then a region takes machines back in a burst of hours.

Published rates are the true mean rate with an error of half its size, as advisories are coarse.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import cos, exp, pi, sqrt
from random import Random
from typing import Final

from corral.spot.errors import UnknownRule
from corral.spot.markets import HOUR, Place
from corral.spot.trace import Loss, Market, Trace

__all__ = ["SHAPES", "generate"]

_REGIONS: Final = (
    ("aws", "us-east-1", -5, 3, 1.00),
    ("aws", "us-west-2", -8, 3, 1.00),
    ("aws", "eu-west-1", 0, 2, 1.08),
    ("gcp", "us-central1", -6, 3, 0.98),
    ("gcp", "europe-west4", 1, 2, 1.06),
    ("gcp", "asia-east1", 8, 2, 1.12),
    ("azure", "eastus", -5, 3, 1.00),
    ("azure", "westeurope", 1, 2, 1.10),
    ("azure", "southcentralus", -6, 2, 0.97),
)
"""Cloud, region, hours from UTC, zones, price level."""
_TYPES: Final = (("8xA100", 0.48, 30.0), ("8xH100", 1.0, 62.0))
"""Machine type, speed, price per hour on demand."""
_NOTICE_S: Final = {"aws": 120.0, "gcp": 30.0, "azure": 30.0}
_UNTOLD: Final = 0.1
"""Share of losses that no notice comes before."""
HISTORY_S: Final = 72 * HOUR
"""How much of the prices before time 0 providers publish."""

_Spans = list[tuple[float, float]]


@dataclass(frozen=True, slots=True)
class _Span:
    start: float
    end: float

    @property
    def steps(self) -> list[float]:
        count = int((self.end - self.start) / HOUR)
        return [self.start + HOUR * number for number in range(count)]


@dataclass(frozen=True, slots=True)
class _Made:
    """What a shape makes of one market."""

    prices: list[tuple[float, float]]
    down: _Spans
    """When nothing is given, and what is there is taken."""
    reclaims: list[float]
    """When machines are taken although others are given."""


_Region = dict[str, _Spans]
"""What hits a region as a whole: ``outages`` or ``bursts``."""


def generate(shape: str, seed: int, *, hours: float = 240.0) -> Trace:
    """A trace of a shape.

    Raises:
        UnknownRule: there is no such shape.
    """
    make = _SHAPES.get(shape)
    if make is None:
        raise UnknownRule(f"there is no shape {shape!r}: use {', '.join(SHAPES)}")
    rng = Random(f"{shape}/{seed}")
    span = _Span(-HISTORY_S, hours * HOUR)
    markets = []
    for cloud, region, offset, zones, level in _REGIONS:
        shared = _region(shape, rng, span)
        for name, speed, full in _TYPES:
            discount = rng.uniform(0.28, 0.5)
            for zone in range(zones):
                place = Place(
                    cloud, region, f"{region}{'-' if cloud != 'aws' else ''}{'abc'[zone]}", name
                )
                base = full * level * discount * rng.uniform(0.9, 1.15)
                made = make(rng, span, base, offset, shared)
                markets.append(_market(rng, place, made, span, speed=speed, full=full * level))
    return Trace(f"{shape}-{seed}", span.start, span.end, tuple(markets))


def _region(shape: str, rng: Random, span: _Span) -> _Region:
    if shape == "scarce":
        return {"outages": _alternate(rng, span, up=40 * HOUR, down=3 * HOUR, spread=0.8)}
    if shape == "bursty":
        return {"bursts": _alternate(rng, span, up=36 * HOUR, down=4 * HOUR, spread=0.5)}
    return {}


def _scarce(rng: Random, span: _Span, base: float, offset: int, region: _Region) -> _Made:
    up, down = rng.lognormvariate(2.1, 0.8) * HOUR, rng.lognormvariate(0.7, 0.7) * HOUR
    own = _alternate(rng, span, up=up, down=down, spread=0.9)
    reclaims = _poisson(rng, span, lambda _: 0.02)
    return _Made(
        _floating(rng, span, base, 0.04, 48.0), _union([*own, *region["outages"]]), reclaims
    )


def _diurnal(rng: Random, span: _Span, base: float, offset: int, region: _Region) -> _Made:
    swing, risk = rng.uniform(0.1, 0.5), rng.lognormvariate(-2.9, 0.6)

    def day(at: float) -> float:
        """From -1 in the region's night to 1 in its afternoon."""
        return -cos(2 * pi * (at / HOUR + offset - 3) / 24)

    prices = _floating(rng, span, base, 0.15, 8.0)
    prices = [(at, price * (1 + swing * day(at))) for at, price in prices]
    reclaims = _poisson(rng, span, lambda at: risk * exp(1.2 * day(at)))
    down = [
        (at, at + rng.lognormvariate(-0.5, 0.7) * HOUR) for at in reclaims if rng.random() < 0.4
    ]
    return _Made(prices, _union(down), reclaims)


def _bursty(rng: Random, span: _Span, base: float, offset: int, region: _Region) -> _Made:
    bursts, hit = region["bursts"], rng.uniform(0.3, 1.2)

    def risk(at: float) -> float:
        return hit if any(start <= at < end for start, end in bursts) else 0.012

    reclaims = _poisson(rng, span, risk)
    down = [
        (at, at + rng.lognormvariate(-0.3, 0.8) * HOUR) for at in reclaims if rng.random() < 0.6
    ]
    return _Made(_floating(rng, span, base, 0.06, 24.0), _union(down), reclaims)


_SHAPES: Final[dict[str, Callable[[Random, _Span, float, int, _Region], _Made]]] = {
    "scarce": _scarce,
    "diurnal": _diurnal,
    "bursty": _bursty,
}
SHAPES: Final = tuple(_SHAPES)


def _market(
    rng: Random, place: Place, made: _Made, span: _Span, *, speed: float, full: float
) -> Market:
    up = _complement(made.down, span)
    ends = [end for _, end in up if end < span.end]
    times = sorted({*ends, *(at for at in made.reclaims if _inside(up, at))})
    notice = _NOTICE_S[place.cloud]
    losses = tuple(Loss(at, 0.0 if rng.random() < _UNTOLD else notice) for at in times)
    hours_up = sum(end - start for start, end in up) / HOUR
    true = len(times) / hours_up if hours_up else 1.0
    return Market(
        place=place,
        on_demand_price=round(full, 4),
        speed=speed,
        notice_s=notice,
        published_hazard=round(true * rng.lognormvariate(0.0, 0.5), 5),
        prices=tuple((at, round(price, 4)) for at, price in made.prices),
        available=tuple(up),
        losses=losses,
    )


def _floating(
    rng: Random, span: _Span, base: float, spread: float, hours: float
) -> list[tuple[float, float]]:
    """Hourly prices around a mean that they are drawn back to within ``hours``."""
    kept, level, out = exp(-1 / hours), rng.gauss(0.0, spread), []
    for at in span.steps:
        level = level * kept + rng.gauss(0.0, spread) * sqrt(1 - kept * kept)
        out.append((at, base * exp(level)))
    return out


def _alternate(rng: Random, span: _Span, *, up: float, down: float, spread: float) -> _Spans:
    """The times down of something that is up and down in turns; the ends down are heavy-tailed."""
    out: _Spans = []
    at = span.start + rng.expovariate(1 / up) * rng.random()
    while at < span.end:
        length = down * rng.lognormvariate(-spread * spread / 2, spread)
        out.append((at, at + length))
        at += length + rng.expovariate(1 / up)
    return out


def _poisson(rng: Random, span: _Span, rate: Callable[[float], float]) -> list[float]:
    """Events of an hourly rate that changes, by thinning."""
    most = max(rate(at) for at in span.steps)
    out: list[float] = []
    at = span.start
    while True:
        at += rng.expovariate(most) * HOUR
        if at >= span.end:
            return out
        if rng.random() * most < rate(at):
            out.append(at)


def _union(spans: _Spans) -> _Spans:
    out: _Spans = []
    for start, end in sorted(spans):
        if out and start <= out[-1][1]:
            out[-1] = (out[-1][0], max(out[-1][1], end))
        else:
            out.append((start, end))
    return out


def _complement(down: _Spans, span: _Span) -> _Spans:
    out: _Spans = []
    at = span.start
    for start, end in down:
        if start > at:
            out.append((at, min(start, span.end)))
        at = max(at, end)
    if at < span.end:
        out.append((at, span.end))
    return [(start, end) for start, end in out if end > start]


def _inside(spans: _Spans, at: float) -> bool:
    return any(start <= at < end for start, end in spans)
