"""What placement chooses from."""

from __future__ import annotations

from typing import Any

import pytest

from corral.api.spot.kinds import SpotInstanceVM
from corral.api.spot.spec import Placement
from corral.api.spot.vm import SpotInstanceVMSpec
from corral.clouds.base import Hazard, Price
from corral.clouds.errors import AccountRefused, BadRequest, QuotaExceeded, StockOut, Transient
from corral.families.spot.placement.offers import offers, places, refusal_of
from corral.spot import Refusal


def machines(**spec: Any) -> SpotInstanceVMSpec:
    obj = {
        "apiVersion": SpotInstanceVM.resource().api_version,
        "kind": "SpotInstanceVM",
        "metadata": {"name": "gpu"},
        "spec": {"vmImage": "i", **spec},
    }
    return SpotInstanceVM.read(obj).spec


AWS = {"region": "r", "zone": "ra", "zones": ["rb"], "machineType": "m"}
GCP = {"project": "p", "zone": "us-central1-a", "machineType": "n1", "machineTypes": ["n2"]}


def price(zone: str, per_hour: float, *, spot: bool = True, at: float = 0.0) -> Price:
    return Price(machine_type="m", zone=zone, spot=spot, per_hour=per_hour, at=at)


def test_every_zone_with_every_type_of_every_cloud() -> None:
    azure = {
        "subscription": "s",
        "resourceGroup": "g",
        "region": "eastus",
        "machineType": "nc",
        "subnetID": "n",
    }
    found = places(machines(gcp=GCP, aws=AWS, azure=azure, local={}))
    assert [str(place) for place in found] == [
        "gcp/us-central1/us-central1-a/n1",
        "gcp/us-central1/us-central1-a/n2",
        "aws/r/ra/m",
        "aws/r/rb/m",
        "azure/eastus/eastus/nc",
        "local/local/local-a/local",
    ]


def test_a_zones_price_goes_before_its_regions_and_the_newest_counts() -> None:
    known = [price("r", 5.0), price("ra", 3.0), price("ra", 4.0, at=9.0)]
    rates = [Hazard(machine_type="m", zone="r", per_hour=0.2, source="s")]
    first, second = offers(
        machines(aws=AWS), Placement(), prices={"aws": known}, hazards={"aws": rates}
    )
    assert (first.place.zone, first.price, first.published_hazard) == ("ra", 4.0, 0.2)
    assert (second.place.zone, second.price) == ("rb", 5.0)
    assert first.notice_s == 120.0


def test_what_has_no_price_is_not_offered() -> None:
    found = offers(machines(aws=AWS), Placement(), prices={"aws": [price("rb", 5.0)]}, hazards={})
    assert [offer.place.zone for offer in found] == ["rb"]
    assert found[0].published_hazard is None


@pytest.mark.parametrize(
    ("when", "models"),
    [("Deadline", [True, False]), ("Never", [True]), ("Always", [False])],
)
def test_machines_on_demand_are_offered_where_they_may_be_used(
    when: Any, models: list[bool]
) -> None:
    known = [price("ra", 3.0), price("ra", 9.0, spot=False)]
    found = offers(
        machines(aws=AWS),
        Placement(on_demand=when),
        prices={"aws": known},
        hazards={},
        speeds={"m": 2.0},
    )
    assert [offer.spot for offer in found] == models
    assert {offer.speed for offer in found} == {2.0}


def test_the_notice_of_local_machines_is_theirs() -> None:
    known = [Price(machine_type="local", zone="local-a", spot=True, per_hour=1.0)]
    spec = machines(local={"noticeSeconds": 7})
    (found,) = offers(spec, Placement(), prices={"local": known}, hazards={})
    assert found.notice_s == 7.0


@pytest.mark.parametrize(
    ("error", "refusal"),
    [
        (StockOut, Refusal.STOCK_OUT),
        (QuotaExceeded, Refusal.QUOTA),
        (AccountRefused, Refusal.ACCOUNT),
        (Transient, None),
        (BadRequest, None),
    ],
)
def test_errors_block_what_they_are_about(error: Any, refusal: Refusal | None) -> None:
    assert refusal_of(error("no")) == refusal
