"""Google Compute Engine by its REST API.

One VM for one request id: the API itself drops a repeated ``requestId``, and where it no longer
remembers, a VM of that name is ours only if it carries the request's label.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from corral.clouds import polling
from corral.clouds.base import Hazard, Notice, Price, Vm, VmRef, VmRequest, checked, listed
from corral.clouds.errors import (
    AccountRefused,
    BadRequest,
    CloudError,
    Scope,
    StockOut,
    Transient,
)
from corral.clouds.gcp import bodies
from corral.clouds.rest import Answer, Patience, RestClient, TokenSource
from corral.egress.policy import EgressPolicy

__all__ = ["ENDPOINT", "GcpProvider", "GcpSettings"]

ENDPOINT: Final = "https://compute.googleapis.com"
_PREEMPTED: Final = "compute.instances.preempted"
_PAGE: Final = "500"


@dataclass(frozen=True, slots=True, kw_only=True)
class GcpSettings:
    """Where and as whom one project of Google Cloud is used."""

    project: str
    endpoint: str = ENDPOINT
    network: bodies.Network = field(default_factory=bodies.Network)
    patience: Patience = field(default_factory=Patience)
    look_s: float = 15.0
    """Between two looks from outside."""
    on_demand: Mapping[str, float] = field(default_factory=dict)
    """What standard VMs cost an hour, by machine type; GCP's advice is about spot VMs only."""
    egress: EgressPolicy = field(default_factory=EgressPolicy)
    """What may be called of what credentials name."""


class GcpProvider:
    """Spot and standard VMs of one project."""

    name = "gcp"

    def __init__(
        self,
        settings: GcpSettings,
        tokens: TokenSource,
        *,
        rng: random.Random | None = None,
        clock: Callable[[], float] = time.time,
        pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._settings = settings
        self._clock = clock
        self._pause = pause
        self._rest = RestClient(
            settings.endpoint,
            tokens,
            settings.patience,
            rng or random.Random(),
            pause,
            _hopeful,
            settings.egress,
        )
        self._root = f"/compute/v1/projects/{settings.project}"

    # -- VMs -------------------------------------------------------------------------------------

    async def create(self, request: VmRequest) -> Vm:
        checked(request)
        instances = f"{self._root}/zones/{request.zone}/instances"
        answer = await self._rest.call(
            "POST",
            instances,
            params={"requestId": request.request_id},
            body=bodies.insert_body(request, self._settings.network),
        )
        if answer.status == 409 and bodies.refusal(answer).code == "alreadyExists":
            return await self._mine(request, answer)
        operation = await self._finish(_good(answer), request.zone)
        error = bodies.operation_error(operation)
        if error is not None and error.code in ("RESOURCE_ALREADY_EXISTS", "alreadyExists"):
            return await self._mine(request, answer)
        if error is not None:
            raise error
        vm = await self.get(VmRef(request.name, request.zone))
        if vm is None:
            raise StockOut(f"VM {request.name} was taken at once", scope=Scope.ZONE)
        return vm

    async def _mine(self, request: VmRequest, refused: Answer) -> Vm:
        """The VM that has the name already, if this request made it."""
        vm = await self.get(VmRef(request.name, request.zone))
        if vm is None:
            raise Transient(f"VM {request.name} is just being deleted: ask again") from None
        if vm.request_id != request.request_id:
            raise BadRequest(
                f"there is a VM {request.name} in {request.zone} that this request did not make: "
                "choose another name or delete it",
                code="alreadyExists",
            ) from (None if refused.ok else bodies.refusal(refused))
        return vm

    async def delete(self, ref: VmRef) -> None:
        path = f"{self._root}/zones/{ref.zone}/instances/{ref.name}"
        answer = await self._rest.call("DELETE", path)
        if answer.status == 404:
            return
        operation = await self._finish(_good(answer), ref.zone)
        error = bodies.operation_error(operation)
        if error is not None and error.code not in ("RESOURCE_NOT_FOUND", "notFound"):
            raise error

    async def get(self, ref: VmRef) -> Vm | None:
        path = f"{self._root}/zones/{ref.zone}/instances/{ref.name}"
        answer = await self._rest.call("GET", path)
        return None if answer.status == 404 else bodies.vm_of(_good(answer).body)

    async def list(self, owner: str) -> Sequence[Vm]:
        found: list[Vm] = []
        async for scope in self._aggregated("instances", bodies.owner_filter(owner)):
            found += [bodies.vm_of(each) for each in scope.get("instances") or ()]
        return found

    async def _aggregated(self, what: str, condition: str) -> AsyncIterator[Mapping[str, Any]]:
        """What there is in every zone. Raises when a zone cannot be seen: a part is not all."""
        params = {"filter": condition, "maxResults": _PAGE, "returnPartialSuccess": "false"}
        while True:
            answer = _good(
                await self._rest.call("GET", f"{self._root}/aggregated/{what}", params=params)
            )
            if answer.body.get("unreachables"):
                raise Transient(f"GCP cannot see {answer.body['unreachables']} now")
            for scope in (answer.body.get("items") or {}).values():
                yield scope
            token = answer.body.get("nextPageToken")
            if not token:
                return
            params = {**params, "pageToken": str(token)}

    async def _finish(self, answer: Answer, zone: str) -> Mapping[str, Any]:
        """Wait for an operation; GCP's own waiting may end early."""
        operation = answer.body
        until = self._clock() + self._settings.patience.operation_s
        while operation.get("status") != "DONE":
            if self._clock() >= until:
                raise Transient(
                    f"GCP has not finished {operation.get('name')} within "
                    f"{self._settings.patience.operation_s:g} s: ask again"
                )
            path = f"{self._root}/zones/{zone}/operations/{operation['name']}/wait"
            operation = _good(await self._rest.call("POST", path)).body
            if operation.get("status") != "DONE":
                await self._pause(self._settings.patience.poll_s)
        return operation

    # -- what is told about them -----------------------------------------------------------------

    def notices(self, owner: str) -> AsyncIterator[Notice]:
        return polling.watch(
            lambda: self.list(owner),
            self._taken,
            interval=self._settings.look_s,
            clock=self._clock,
            pause=self._pause,
        )

    async def _taken(self) -> frozenset[str]:
        """Names of VMs that were preempted, as far back as GCP keeps operations."""
        names: set[str] = set()
        async for scope in self._aggregated("operations", f'operationType="{_PREEMPTED}"'):
            for each in scope.get("operations") or ():
                names.add(str(each.get("targetLink", "")).rpartition("/")[2])
        return frozenset(names)

    async def preempt(self, ref: VmRef) -> None:
        """Have GCP treat a spot VM as if it were taken: a drill."""
        path = f"{self._root}/zones/{ref.zone}/instances/{ref.name}/simulateMaintenanceEvent"
        _good(await self._rest.call("POST", path))

    async def prices(self, machine_types: Sequence[str], zones: Sequence[str]) -> Sequence[Price]:
        found = []
        for kind, zone, body in await self._history(machine_types, zones):
            if (price := bodies.history_price(body, kind, zone)) is not None:
                found.append(price)
        return [*found, *listed(self._settings.on_demand, machine_types, zones)]

    async def hazards(self, machine_types: Sequence[str], zones: Sequence[str]) -> Sequence[Hazard]:
        found = []
        for kind, zone, body in await self._history(machine_types, zones):
            advice = await self._advice("capacity", zone, bodies.capacity_body(kind, zone))
            hazard = bodies.hazard_of_uptime(advice, kind, zone)
            hazard = hazard or bodies.history_hazard(body, kind, zone)
            if hazard is not None:
                found.append(hazard)
        return found

    async def _history(
        self, machine_types: Sequence[str], zones: Sequence[str]
    ) -> Sequence[tuple[str, str, Mapping[str, Any]]]:
        found = []
        for zone in zones:
            for kind in machine_types:
                body = bodies.history_body(kind, zone)
                found.append((kind, zone, await self._advice("capacityHistory", zone, body)))
        return found

    async def _advice(self, what: str, zone: str, body: Mapping[str, Any]) -> Mapping[str, Any]:
        """Empty where GCP has no advice about that, or none for this project."""
        path = f"{self._root}/regions/{bodies.region_of(zone)}/advice/{what}"
        answer = await self._rest.call("POST", path, body=body)
        try:
            return _good(answer).body
        except (BadRequest, AccountRefused):
            return {}

    async def host_keys(self, ref: VmRef) -> Sequence[str]:
        """As Google's guest agent publishes them in guest attributes."""
        path = f"{self._root}/zones/{ref.zone}/instances/{ref.name}/getGuestAttributes"
        answer = await self._rest.call("GET", path, params={"queryPath": "hostkeys/"})
        if answer.status == 404:
            return ()
        items = (_good(answer).body.get("queryValue") or {}).get("items") or ()
        return tuple(f"{each['key']} {each['value']}" for each in items)

    async def close(self) -> None:
        await self._rest.close()


def _hopeful(answer: Answer) -> bool:
    return not answer.ok and isinstance(bodies.refusal(answer), Transient)


def _good(answer: Answer) -> Answer:
    """The answer, if it is one. Raises CloudError."""
    if answer.ok:
        return answer
    error: CloudError = bodies.refusal(answer)
    raise error
