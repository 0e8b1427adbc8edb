"""What placement chooses from, made of what was asked for and what clouds say. Pure.

A SpotInstanceVM names zones and machine types; providers know prices and hazards of some of them,
by zone or by region. What has no price is not offered: nobody could say what it would cost.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, TypeVar

from corral.api.spot.spec import Placement
from corral.api.spot.vm import SpotInstanceVMSpec
from corral.clouds.base import Hazard, Price
from corral.clouds.errors import AccountRefused, CloudError, QuotaExceeded, StockOut
from corral.spot import Offer, Place, Refusal

__all__ = ["offers", "places", "refusal_of"]

_NOTICE_S: Final = {"gcp": 30.0, "aws": 120.0, "azure": 30.0}
_Fact = TypeVar("_Fact", Price, Hazard)


def places(spec: SpotInstanceVMSpec) -> list[Place]:
    """Every zone with every machine type of every cloud, in the order in which they are named."""
    found: list[Place] = []
    if (gcp := spec.gcp) is not None:
        pairs = gcp.places(gcp.zone, gcp.machine_type)
        found += [Place("gcp", zone.rpartition("-")[0] or zone, zone, kind) for zone, kind in pairs]
    if (aws := spec.aws) is not None:
        pairs = aws.places(aws.zone, aws.machine_type)
        found += [Place("aws", aws.region, zone, kind) for zone, kind in pairs]
    if (azure := spec.azure) is not None:
        region = azure.region
        pairs = azure.places(azure.zone or region, azure.machine_type)
        found += [Place("azure", region, zone, kind) for zone, kind in pairs]
    if (local := spec.local) is not None:
        pairs = local.places(local.zone, local.machine_type)
        found += [Place("local", "local", zone, kind) for zone, kind in pairs]
    return found


def offers(
    spec: SpotInstanceVMSpec,
    placement: Placement,
    *,
    prices: Mapping[str, Sequence[Price]],
    hazards: Mapping[str, Sequence[Hazard]],
    speeds: Mapping[str, float] | None = None,
) -> list[Offer]:
    """What may be asked for, spot machines first.

    Args:
        spec: The machines.
        placement: Whether machines on demand may be used.
        prices: Of each cloud.
        hazards: Of each cloud.
        speeds: Of machine types, against each other; 1 for those that were not measured.
    """
    found = []
    for spot in (True, False):
        if placement.on_demand == ("Always" if spot else "Never"):
            continue
        for place in places(spec):
            known = [price for price in prices.get(place.cloud, ()) if price.spot is spot]
            price = _about(place, known)
            hazard = _about(place, hazards.get(place.cloud, ())) if spot else None
            if price is not None:
                offer = Offer(
                    place=place,
                    price=price.per_hour,
                    spot=spot,
                    speed=(speeds or {}).get(place.machine_type, 1.0),
                    notice_s=_notice(spec, place.cloud),
                    published_hazard=hazard.per_hour if hazard is not None else None,
                )
                found.append(offer)
    return found


def _about(place: Place, facts: Iterable[_Fact]) -> _Fact | None:
    """What is known of a zone, or else of its region; of several the newest."""
    ours = [fact for fact in facts if fact.machine_type == place.machine_type]
    for where in (place.zone, place.region):
        found = [fact for fact in ours if fact.zone == where]
        if found:
            return max(found, key=lambda fact: fact.at or 0.0)
    return None


def _notice(spec: SpotInstanceVMSpec, cloud: str) -> float:
    if cloud == "local" and spec.local is not None:
        return float(spec.local.notice_seconds)
    return _NOTICE_S.get(cloud, 0.0)


def refusal_of(error: CloudError) -> Refusal | None:
    """What an error blocks; none where it says nothing about a place."""
    if isinstance(error, StockOut):
        return Refusal.STOCK_OUT
    if isinstance(error, QuotaExceeded):
        return Refusal.QUOTA
    return Refusal.ACCOUNT if isinstance(error, AccountRefused) else None
