"""How likely a machine is lost, and had: our own history with decay over published rates.

The rate of a place is a Gamma posterior: losses seen over hours seen, both fading with a half-life
of days, and the provider's published rate as hours that count as seen from the start. Losses come
in bursts and hit a region together, so the rate is multiplied by how much worse than expected the
region has been in the last hours. Whether capacity is given is a fading count of answers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from corral.spot.errors import InvalidTrace
from corral.spot.markets import HOUR, Place

__all__ = ["Fading", "HazardHistory", "HazardSettings"]


@dataclass(frozen=True, slots=True)
class HazardSettings:
    """How much what counts, and for how long."""

    default_rate: float = 0.15
    """Losses per hour where nobody publishes any."""
    prior_hours: float = 12.0
    """How many hours of our own a published rate is worth."""
    default_hours: float = 4.0
    """The same of the default rate."""
    half_life_s: float = 7 * 24 * HOUR
    """Of losses and hours of a place."""
    burst_half_life_s: float = 3 * HOUR
    """Of what a region has been like lately."""
    burst_weight: float = 1.0
    """Losses that must be expected or seen before a region's last hours count half."""
    burst_limit: float = 6.0
    answer_half_life_s: float = 6 * HOUR
    """Of answers to requests for capacity."""
    prior_given: float = 2.0
    prior_refused: float = 0.7


class Fading:
    """A sum that halves every half-life."""

    __slots__ = ("at", "half_life", "value")

    def __init__(self, half_life: float, value: float = 0.0, at: float = 0.0) -> None:
        self.half_life = half_life
        self.value = value
        self.at = at

    def now(self, now: float) -> float:
        """What it is at a time."""
        age = now - self.at
        if age <= 0 or not self.value:
            return self.value
        return float(self.value * 0.5 ** (age / self.half_life))

    def add(self, amount: float, now: float) -> None:
        self.value = self.now(now) + amount
        self.at = max(now, self.at)


class HazardHistory:
    """What was seen; the caller tells it, in the order of time."""

    def __init__(self, settings: HazardSettings | None = None) -> None:
        self.settings = settings or HazardSettings()
        self._sums: dict[tuple[str, str], Fading] = {}

    # --- telling ---------------------------------------------------------------------------------

    def ran(self, place: Place, seconds: float, now: float, *, published: float | None) -> None:
        """A machine was up for so long until now."""
        hours = seconds / HOUR
        self._sum("hours", place).add(hours, now)
        self._burst("expected", place).add(hours * self._slow(place, published, now), now)

    def lost(self, place: Place, now: float) -> None:
        """Count one machine that was taken."""
        self._sum("losses", place).add(1.0, now)
        self._burst("observed", place).add(1.0, now)

    def answered(self, place: Place, now: float, *, given: bool) -> None:
        """A request for a machine was answered."""
        self._sum("given" if given else "refused", place).add(1.0, now)

    # --- asking ----------------------------------------------------------------------------------

    def rate(self, place: Place, now: float, *, published: float | None = None) -> float:
        """Losses per hour to expect."""
        return self._slow(place, published, now) * self.burst(place, now)

    def burst(self, place: Place, now: float) -> float:
        """How much worse, or better, than expected its region has been lately."""
        weight, limit = self.settings.burst_weight, self.settings.burst_limit
        observed = self._burst("observed", place).now(now)
        expected = self._burst("expected", place).now(now)
        return min(max((observed + weight) / (expected + weight), 1 / limit), limit)

    def given(self, place: Place, now: float) -> float:
        """How likely a request is answered with a machine."""
        given = self._sum("given", place).now(now) + self.settings.prior_given
        refused = self._sum("refused", place).now(now) + self.settings.prior_refused
        return given / (given + refused)

    def observed(self, place: Place, now: float) -> tuple[float, float]:
        """Fading losses and hours of our own."""
        return self._sum("losses", place).now(now), self._sum("hours", place).now(now)

    def places(self) -> list[Place]:
        """Those that something is known of."""
        found = {text for what, text in self._sums if what in ("hours", "losses", "refused")}
        return sorted(Place.parse(text) for text in found)

    # --- keeping ---------------------------------------------------------------------------------

    def as_object(self) -> dict[str, Any]:
        """The rates as an object for JSON, as they are kept."""
        out: dict[str, Any] = {}
        for (what, where), fading in sorted(self._sums.items()):
            if fading.value:
                out.setdefault(what, {})[where] = [fading.value, fading.at]
        return out

    @classmethod
    def of_object(cls, obj: Mapping[str, Any], settings: HazardSettings | None = None) -> Self:
        """What `as_object` wrote.

        Raises:
            InvalidTrace: it did not.
        """
        history = cls(settings)
        try:
            for what, rows in obj.items():
                for where, (value, at) in rows.items():
                    fading = history._named(str(what), str(where))
                    fading.value, fading.at = float(value), float(at)
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise InvalidTrace(f"this is no hazard history: {error}") from None
        return history

    # --- inside ----------------------------------------------------------------------------------

    def _slow(self, place: Place, published: float | None, now: float) -> float:
        known = self.settings
        losses, hours = self.observed(place, now)
        prior = known.default_hours if published is None else known.prior_hours
        rate = known.default_rate if published is None else published
        return (losses + rate * prior) / (hours + prior)

    def _sum(self, what: str, place: Place) -> Fading:
        return self._named(what, str(place))

    def _burst(self, what: str, place: Place) -> Fading:
        return self._named(what, f"{place.cloud}/{place.region}")

    def _named(self, what: str, where: str) -> Fading:
        found = self._sums.get((what, where))
        if found is None:
            known = self.settings
            half_life = {
                "hours": known.half_life_s,
                "losses": known.half_life_s,
                "given": known.answer_half_life_s,
                "refused": known.answer_half_life_s,
                "expected": known.burst_half_life_s,
                "observed": known.burst_half_life_s,
            }[what]
            found = self._sums[what, where] = Fading(half_life)
        return found
