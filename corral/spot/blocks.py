"""What is not asked again for a while: a zone out of stock, a region out of quota, an account.

Spot and on-demand machines have stocks and quotas of their own. A block ends by itself. Each
refusal in a row doubles the next block, up to a limit; a machine that was given ends all blocks
that it would have been under.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Final, Self

from corral.spot.errors import InvalidTrace
from corral.spot.markets import HOUR, Place

__all__ = ["Blocks", "Refusal"]


class Refusal(StrEnum):
    """Why no machine was given; each blocks as much as it says something about."""

    STOCK_OUT = "StockOut"
    """No capacity: this machine type in this zone."""
    QUOTA = "Quota"
    """Our limit is reached: the region."""
    ACCOUNT = "Account"
    """We may not: the whole cloud."""


_FIRST_S: Final = {
    Refusal.STOCK_OUT: 300.0,
    Refusal.QUOTA: 1800.0,
    Refusal.ACCOUNT: HOUR,
}
_LONGEST_S: Final = {
    Refusal.STOCK_OUT: 1200.0,
    Refusal.QUOTA: 6 * HOUR,
    Refusal.ACCOUNT: 24 * HOUR,
}


class Blocks:
    """Blocks by what they are about; times are given by the caller."""

    def __init__(self) -> None:
        self._until: dict[str, float] = {}
        self._in_a_row: dict[str, int] = {}

    def refuse(
        self, place: Place, now: float, why: Refusal, *, spot: bool = True, scale: float = 1.0
    ) -> float:
        """Block what a refusal is about; the result is until when.

        ``scale`` shortens the block where asking again costs little.
        """
        key = _key(place, why, spot=spot)
        times = self._in_a_row[key] = self._in_a_row.get(key, 0) + 1
        length = scale * min(_FIRST_S[why] * 2.0 ** min(times - 1, 16), _LONGEST_S[why])
        before = min(self._until.get(key, 0.0), now + _LONGEST_S[why])  # whatever a clock said then
        self._until[key] = max(before, now + length)
        return self._until[key]

    def give(self, place: Place, *, spot: bool = True) -> None:
        """A machine was given: nothing about this place is blocked."""
        for why in Refusal:
            key = _key(place, why, spot=spot)
            self._until.pop(key, None)
            self._in_a_row.pop(key, None)

    def until(self, place: Place, *, spot: bool = True) -> float:
        """When the place may be asked again; in the past where it is not blocked."""
        if not self._until:
            return 0.0
        return max(self._until.get(_key(place, why, spot=spot), 0.0) for why in Refusal)

    def blocked(self, place: Place, now: float, *, spot: bool = True) -> bool:
        """A block that would last longer than any is of a clock that was wrong: it counts not."""
        return any(
            now < self._until.get(_key(place, why, spot=spot), 0.0) <= now + longest
            for why, longest in _LONGEST_S.items()
        )

    def as_object(self) -> dict[str, Any]:
        """The blocks as an object for JSON, as they are kept."""
        return {
            key: [until, self._in_a_row.get(key, 0)] for key, until in sorted(self._until.items())
        }

    @classmethod
    def of_object(cls, obj: Mapping[str, Any]) -> Self:
        """What `as_object` wrote.

        Raises:
            InvalidTrace: it did not.
        """
        blocks = cls()
        try:
            for key, (until, times) in obj.items():
                blocks._until[str(key)] = float(until)
                blocks._in_a_row[str(key)] = int(times)
        except (AttributeError, TypeError, ValueError) as error:
            raise InvalidTrace(f"these are no blocks: {error}") from None
        return blocks


def _key(place: Place, why: Refusal, *, spot: bool) -> str:
    model = "spot" if spot else "on-demand"
    if why is Refusal.STOCK_OUT:
        return f"stock/{model}/{place}"
    if why is Refusal.QUOTA:
        return f"quota/{model}/{place.cloud}/{place.region}"
    return f"account/{place.cloud}"
