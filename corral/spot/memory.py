"""Everything that placement has learnt, shared by all jobs and kept between runs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Self

from corral.spot.blocks import Blocks, Refusal
from corral.spot.errors import InvalidTrace
from corral.spot.hazard import HazardHistory, HazardSettings
from corral.spot.markets import Offer
from corral.spot.prices import PriceHistory

__all__ = ["Memory"]


class Memory:
    """Losses, answers, prices and blocks; told in the order of time."""

    def __init__(self, settings: HazardSettings | None = None) -> None:
        self.hazard = HazardHistory(settings)
        self.prices = PriceHistory()
        self.blocks = Blocks()

    def hazard_of(self, offer: Offer, now: float) -> float:
        """Losses per hour; machines on demand are not taken."""
        if not offer.spot:
            return 0.0
        return self.hazard.rate(offer.place, now, published=offer.published_hazard)

    def priced(self, offers: Iterable[Offer], now: float) -> None:
        """These are the prices now."""
        for offer in offers:
            if offer.spot:
                self.prices.observe(offer.place, now, offer.price)

    def given(self, offer: Offer, now: float) -> None:
        """The machine that was asked for was given."""
        self.blocks.give(offer.place, spot=offer.spot)
        if offer.spot:
            self.hazard.answered(offer.place, now, given=True)

    def refused(self, offer: Offer, now: float, why: Refusal, *, scale: float = 1.0) -> None:
        """It was not; ``scale`` is that of `Blocks.refuse`."""
        self.blocks.refuse(offer.place, now, why, spot=offer.spot, scale=scale)
        if offer.spot and why is Refusal.STOCK_OUT:
            self.hazard.answered(offer.place, now, given=False)

    def ran(self, offer: Offer, seconds: float, now: float) -> None:
        """A machine was up for so long until now, since it was last told of."""
        if offer.spot:
            self.hazard.ran(offer.place, seconds, now, published=offer.published_hazard)

    def lost(self, offer: Offer, now: float) -> None:
        """Count one machine that was taken."""
        if offer.spot:
            self.hazard.lost(offer.place, now)

    def as_object(self) -> dict[str, Any]:
        """The memory as an object for JSON, as it is kept."""
        return {
            "hazard": self.hazard.as_object(),
            "prices": self.prices.as_object(),
            "blocks": self.blocks.as_object(),
        }

    @classmethod
    def of_object(cls, obj: Mapping[str, Any], settings: HazardSettings | None = None) -> Self:
        """What `as_object` wrote.

        Raises:
            InvalidTrace: it did not.
        """
        memory = cls(settings)
        parts = [obj.get(name) or {} for name in ("hazard", "prices", "blocks")]
        if not all(isinstance(part, Mapping) for part in parts):
            raise InvalidTrace("this is no memory: hazard, prices and blocks must be objects")
        memory.hazard = HazardHistory.of_object(parts[0], settings)
        memory.prices = PriceHistory.of_object(parts[1])
        memory.blocks = Blocks.of_object(parts[2])
        return memory
