"""Where a copy runs next: what is known of the job and of machines, given to `corral.spot`. Pure.

The same `decide` runs in the simulator. A machine is chosen for each copy by itself; all copies
have the progress of the one that is ahead, as each of them can go on from its checkpoints.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Final

from corral.api.spot.rules import duration_seconds
from corral.clouds.base import Hazard, Price
from corral.families.spot.jobs.reports import measured_save
from corral.families.spot.jobs.storage import storage_type
from corral.families.spot.jobs.view import World
from corral.families.spot.placement.offers import offers, places
from corral.families.spot.settings import SpotSettings
from corral.kube.types import Obj
from corral.runtime.pods.states import moment
from corral.spot import (
    Decision,
    Home,
    Memory,
    Offer,
    Place,
    PlannerSettings,
    Progress,
    Refusal,
    View,
    Workload,
    decide,
)

__all__ = ["Choice", "Market", "offer_of", "refusal_for", "save_seconds", "workload_of"]

SPOT: Final = "Spot"
ON_DEMAND: Final = "OnDemand"
_HOMES: Final = {"gcs": "gcp", "s3": "aws", "azure": "azure"}
_HERE: Final = ("local", "pvc")
_DAY: Final = 86_400.0
_NOMINAL: Final = {True: 1.0, False: 3.0}
"""Prices where nobody tells any: spot machines cost a third, and that is all that is known."""
_LOCAL_BOOT_S: Final = 3.0
_STAGE_S: Final = 2.0
_REFUSALS: Final = {
    "StockOut": Refusal.STOCK_OUT,
    "QuotaExceeded": Refusal.QUOTA,
    "AccountRefused": Refusal.ACCOUNT,
    # neither helps to ask again for soon, there
    "BadRequest": Refusal.STOCK_OUT,
    "NotJoined": Refusal.STOCK_OUT,
}


def refusal_for(reason: str) -> Refusal | None:
    """What a reason in a machine's status blocks."""
    return _REFUSALS.get(reason)


@dataclass(frozen=True, slots=True)
class Choice:
    """A machine to ask for."""

    vm: str
    """The SpotInstanceVM that it comes from."""
    offer: Offer
    priced: bool
    """Whether its price is one that somebody told."""

    def as_placement(self, instance: str, replica: int, now: str) -> Obj:
        """The wish, as it is written to the job's status."""
        place = self.offer.place
        wish: Obj = {
            "instance": instance,
            "vm": self.vm,
            "replica": replica,
            "cloud": place.cloud,
            "region": place.region,
            "zone": place.zone,
            "machineType": place.machine_type,
            "provisioningModel": SPOT if self.offer.spot else ON_DEMAND,
            "startTime": now,
        }
        return {**wish, "pricePerHour": self.offer.price} if self.priced else wish


class Market:
    """The machines that a job may be placed on, now."""

    def __init__(self, world: World) -> None:
        self.choices: list[Choice] = []
        for name in world.spec.vm_names:
            if name in world.vms:
                self.choices += _told(world, name)
        if not self.choices:
            for name in world.spec.vm_names:
                if name in world.vms:
                    self.choices += _nominal(world, name)

    @property
    def offers(self) -> list[Offer]:
        return [choice.offer for choice in self.choices]

    @property
    def told(self) -> list[Offer]:
        """Those whose price somebody told."""
        return [choice.offer for choice in self.choices if choice.priced]

    def find(self, offer: Offer) -> Choice | None:
        return next(
            (c for c in self.choices if _same(c.offer, offer.place, offer.spot)),
            None,
        )

    def on_demand_price(self, machine_type: str, cloud: str) -> float | None:
        """What a machine of a type costs on demand, where it is cheapest; none: nobody tells."""
        prices = [
            choice.offer.price
            for choice in self.choices
            if choice.priced
            and not choice.offer.spot
            and choice.offer.place.machine_type == machine_type
            and choice.offer.place.cloud == cloud
        ]
        return min(prices, default=None)

    def decide(
        self,
        world: World,
        memory: Memory,
        settings: SpotSettings,
        *,
        now: float,
        running: Offer | None = None,
        without: Collection[tuple[str, str]] = (),
    ) -> Decision:
        """The next step of one copy; not in the zones ``without``, each with its cloud.

        Raises:
            NoOffers: there is no machine that could be asked for.
        """
        view = View(
            now=now,
            workload=workload_of(world, settings),
            progress=progress_of(world, settings, now=now),
            offers=[o for o in self.offers if (o.place.cloud, o.place.zone) not in without],
            running=running,
        )
        return decide(view, memory, _planner(world))


def offer_of(placement: Obj, market: Market) -> Offer:
    """The machine of a placement as an offer, at its price of now."""
    place = Place(
        cloud=str(placement.get("cloud") or "external"),
        region=str(placement.get("region") or "unknown"),
        zone=str(placement.get("zone") or "unknown"),
        machine_type=str(placement.get("machineType") or "unknown"),
    )
    spot = placement.get("provisioningModel") != ON_DEMAND
    known = next((c.offer for c in market.choices if _same(c.offer, place, spot)), None)
    if known is not None:
        return known
    return Offer(place, float(placement.get("pricePerHour") or _NOMINAL[spot]), spot=spot)


def _same(offer: Offer, place: Place, spot: bool) -> bool:
    return offer.place == place and offer.spot is spot


def _told(world: World, name: str) -> list[Choice]:
    """Machines whose price the clouds tell."""
    vm = world.vms[name]
    prices: dict[str, list[Price]] = {}
    hazards: dict[str, list[Hazard]] = {}
    for each in (vm.get("status") or {}).get("offers") or ():
        where = {"machine_type": each["machineType"], "zone": each["zone"]}
        spot = each.get("provisioningModel") != ON_DEMAND
        price = Price(spot=spot, per_hour=float(each["pricePerHour"]), **where)
        prices.setdefault(each["cloud"], []).append(price)
        if each.get("hazardPerHour") is not None:
            hazard = Hazard(per_hour=float(each["hazardPerHour"]), source="cloud", **where)
            hazards.setdefault(each["cloud"], []).append(hazard)
    found = offers(world.kinds[name], world.spec.placement, prices=prices, hazards=hazards)
    return [Choice(name, offer, priced=True) for offer in found]


def _nominal(world: World, name: str) -> list[Choice]:
    spec = world.kinds[name]
    prices: dict[str, list[Price]] = {}
    for place in places(spec):
        for spot, price in _NOMINAL.items():
            told = Price(
                machine_type=place.machine_type, zone=place.zone, spot=spot, per_hour=price
            )
            prices.setdefault(place.cloud, []).append(told)
    found = offers(spec, world.spec.placement, prices=prices, hazards={})
    return [Choice(name, offer, priced=False) for offer in found]


# --- the job, as placement sees it ---------------------------------------------------------------


def workload_of(world: World, settings: SpotSettings) -> Workload:
    """Its work, its checkpoints and its deadline; figures of the spec until there are others."""
    placement = world.spec.placement
    where = storage_type(world.job)
    kinds = [world.kinds[name] for name in world.spec.vm_names if name in world.kinds]
    here = [place for kind in kinds for place in places(kind)]
    cloud = _HOMES.get(where) or (here[0].cloud if here else "")
    region = next((place.region for place in here if place.cloud == cloud), "")
    size = placement.checkpoint_gib
    work = Workload(
        work_s=float(placement.expected_seconds or _DAY),
        home=Home(cloud, region),
        deadline=moment(placement.deadline),
        checkpoint_gib=float(size if size is not None else 0.0 if where in _HERE else 20.0),
        stage_s=_STAGE_S,
        boot_s=settings.boot_s,
    )
    if here and all(place.cloud == "local" for place in here):
        return replace(work, boot_s=_LOCAL_BOOT_S, start_s=_LOCAL_BOOT_S)
    return work


def progress_of(world: World, settings: SpotSettings, *, now: float) -> Progress:
    """How far it is: by its reports, else by the time that it has trained."""
    status: Obj = world.job.get("status") or {}
    work = float(world.spec.placement.expected_seconds or _DAY)
    told = status.get("progress") or {}
    if told.get("percent") is not None:
        done = work * float(told["percent"]) / 100
        saved = work * float(told.get("savedPercent") or 0.0) / 100
        return Progress(done_s=done, saved_s=min(saved, done))
    cost = status.get("cost") or {}
    trained = float(cost.get("machineSeconds") or 0.0) / max(world.spec.replicas, 1)
    done = max(min(trained - float(cost.get("lostWorkSeconds") or 0.0), work * 0.99), 0.0)
    last = moment(status.get("lastCheckpointTime"))
    saved = max(done - (now - last), 0.0) if last is not None else 0.0
    return Progress(done_s=done, saved_s=min(saved, done))


def save_seconds(world: World, placement: Obj, settings: SpotSettings) -> float:
    """About how long a checkpoint takes on a machine until it is safe."""
    measured = measured_save(world)
    if measured is not None:
        return measured
    work = workload_of(world, settings)
    place = Place(
        str(placement.get("cloud") or ""),
        str(placement.get("region") or ""),
        str(placement.get("zone") or ""),
        str(placement.get("machineType") or ""),
    )
    return work.stage_s + work.upload_s(place)


def _planner(world: World) -> PlannerSettings:
    fixed = duration_seconds(world.spec.checkpoint_config.checkpoint_interval)
    return PlannerSettings(interval_s=fixed)
