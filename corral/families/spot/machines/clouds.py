"""What is done at clouds for one machine: each piece gives what is then to be written down."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Final

from corral.api.spot.spec import Placement
from corral.api.spot.vm import SpotInstanceVMSpec
from corral.clouds.base import CloudProvider, Hazard, Price
from corral.clouds.errors import CloudError, Transient
from corral.families.spot.machines import entries
from corral.families.spot.machines.entries import Change
from corral.families.spot.machines.joining import Joiner, public_key
from corral.families.spot.machines.nodes import MachineNodes
from corral.families.spot.machines.notices import Listeners
from corral.families.spot.machines.providers import Providers
from corral.families.spot.machines.requests import cloud_zone, ref_of, request_for
from corral.families.spot.placement.offers import offers, places
from corral.kube.types import Obj
from corral.runtime.conditions import set_condition
from corral.runtime.keys import format_time
from corral.runtime.pods.states import moment
from corral.runtime.sightings import Sightings
from corral.spot import Offer

__all__ = ["AVAILABLE", "Asked", "MachineClouds"]

AVAILABLE: Final = "Available"
"""The condition that says whether clouds answer."""
_UNSEEN_S: Final = {"aws": 60.0}
"""How long a cloud may not know a machine that it has just made."""


@dataclass(frozen=True, slots=True)
class Asked:
    """For whom something is done."""

    namespace: str
    spec: SpotInstanceVMSpec
    generation: int = 0


class MachineClouds:
    """Asks clouds on behalf of SpotInstanceVMs."""

    def __init__(
        self,
        providers: Providers,
        nodes: MachineNodes,
        joiner: Joiner,
        listeners: Listeners,
        *,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._providers = providers
        self._nodes = nodes
        self._joiner = joiner
        self._listeners = listeners
        self._wall = wall
        self._sightings = Sightings()

    async def _open(self, asked: Asked, entry: Obj) -> CloudProvider:
        reference = entry.get("credentialsSecretRef")
        found = await self._providers.open(entry["cloud"], asked.spec, reference, asked.namespace)
        self._listeners.listen(found, await self._providers.owner())
        return found

    async def create(self, asked: Asked, entry: Obj) -> Change:
        """Have the machine made, or find it. Raises Transient, ApiError."""
        try:
            provider = await self._open(asked, entry)
            key = await self._joiner.private_key(asked.spec, asked.namespace)
            if entry["cloud"] != "local":
                await self._joiner.check(asked.spec, asked.namespace)
            request = request_for(
                entry,
                asked.spec,
                owner=await self._providers.owner(),
                namespace=asked.namespace,
                ssh_public_key=public_key(key) if key else "",
            )
            vm = await provider.create(request)
        except Transient:
            raise
        except CloudError as error:
            return await self._refused(asked, entry, error)
        return partial(entries.created, vm=vm, now=self._wall())

    async def _refused(self, asked: Asked, entry: Obj, error: CloudError) -> Change:
        """What a refusal means. Raises CloudError, ApiError.

        The machine may be there all the same: made by an earlier request, whose answer was lost
        or came when nobody was there to write it down.
        """
        refused = partial(entries.refused, error=error, now=self._wall())
        try:
            provider = await self._open(asked, entry)
            vm = await provider.get(ref_of(entry))
        except Transient:
            raise
        except CloudError:
            return refused  # nobody tells; should there be one, it is swept
        if vm is None or vm.request_id != entry.get("requestID"):
            return refused
        if vm.alive:
            return partial(entries.created, vm=vm, now=self._wall())
        await provider.delete(vm.ref)
        return refused

    async def look(self, asked: Asked, entry: Obj) -> Change | None:
        """See what it is now. Raises CloudError, ApiError."""
        provider = await self._open(asked, entry)
        vm = await provider.get(ref_of(entry))
        if vm is not None and vm.request_id != entry.get("requestID"):
            vm = None  # somebody else's, under the same name
        made = moment(entry.get("creationTime")) or 0.0
        unseen = _UNSEEN_S.get(entry["cloud"], 0.0)
        if vm is None and self._sightings.left(made, unseen, now=self._wall()) > 0:
            return None
        return partial(entries.seen, vm=vm, now=self._wall())

    async def join(self, asked: Asked, entry: Obj) -> Change | None:
        """Make it a node over SSH. Raises CloudError, ApiError."""
        provider = await self._open(asked, entry)
        host_keys = await provider.host_keys(ref_of(entry))
        return await self._joiner.join(asked.spec, asked.namespace, entry, host_keys)

    async def remove(self, asked: Asked, entry: Obj) -> Change:
        """See that nothing is left of it. Raises CloudError, ApiError."""
        provider = await self._open(asked, entry)
        if entry.get("state") == entries.TERMINATED:
            # it is dead: what ran there can begin elsewhere while the rest is cleared away
            await self._nodes.remove(entry["name"])
        vm = await provider.get(ref_of(entry))
        if vm is not None and vm.request_id == entry.get("requestID"):
            await provider.delete(vm.ref)
        await self._nodes.remove(entry["name"])
        return partial(entries.removed, now=self._wall())

    # --- prices ----------------------------------------------------------------------------------

    async def offers(
        self, asked: Asked, references: Sequence[Obj | None], known: Sequence[Obj]
    ) -> Change:
        """What machines cost now; of clouds that do not say, what they said last. Raises ApiError.

        ``references`` are the Secrets of jobs that use these machines: one account's prices are
        as good as another's.
        """
        prices: dict[str, Sequence[Price]] = {}
        hazards: dict[str, Sequence[Hazard]] = {}
        silent: dict[str, CloudError] = {}
        for cloud in asked.spec.clouds:
            error: CloudError | None = None
            for reference in references:
                try:
                    provider = await self._providers.open(
                        cloud, asked.spec, reference, asked.namespace
                    )
                    self._listeners.listen(provider, await self._providers.owner())
                    prices[cloud], hazards[cloud] = await _facts(provider, asked.spec, cloud)
                except CloudError as failure:
                    error = failure
                else:
                    error = None
                    break
            if error is not None:
                silent[cloud] = error
        found = offers(asked.spec, Placement(), prices=prices, hazards=hazards)
        said = [_offer(each) for each in found]
        said += [each for each in known if each.get("cloud") in silent]
        return partial(self._priced, said=said, silent=silent, generation=asked.generation)

    def _priced(
        self, status: Obj, said: list[Obj], silent: dict[str, CloudError], generation: int
    ) -> None:
        status["offers"] = said
        words = "; ".join(f"{cloud}: {error}" for cloud, error in silent.items())
        set_condition(
            status.setdefault("conditions", []),
            AVAILABLE,
            status="False" if silent else "True",
            reason=type(next(iter(silent.values()))).__name__ if silent else "CloudsAnswer",
            message=words[:1000],
            now=format_time(self._wall()),
            observed_generation=generation,
        )


async def _facts(
    provider: CloudProvider, spec: SpotInstanceVMSpec, cloud: str
) -> tuple[Sequence[Price], Sequence[Hazard]]:
    here = [place for place in places(spec) if place.cloud == cloud]
    zones = list(dict.fromkeys(cloud_zone(cloud, place.region, place.zone) for place in here))
    types = list(dict.fromkeys(place.machine_type for place in here))
    hazards: Sequence[Hazard] = ()
    with suppress(CloudError):  # not every account may ask; what was learnt does as well
        hazards = await provider.hazards(types, zones)
    return await provider.prices(types, zones), hazards


def _offer(offer: Offer) -> Obj:

    found: Obj = {
        "cloud": offer.place.cloud,
        "region": offer.place.region,
        "zone": offer.place.zone,
        "machineType": offer.place.machine_type,
        "provisioningModel": "Spot" if offer.spot else "OnDemand",
        "pricePerHour": offer.price,
    }
    if offer.published_hazard is not None:
        found["hazardPerHour"] = offer.published_hazard
    return found
