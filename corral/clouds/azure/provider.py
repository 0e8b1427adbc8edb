"""Azure virtual machines by the Resource Manager's REST API.

One VM for one request id: it is made only where none of that name is, and one that is there is
ours only if it carries the request's tag. Its disk, interface and address are made and deleted
with it. Azure keeps a VM whose making failed; such a remnant is removed before the error is told.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from corral.clouds import polling
from corral.clouds.azure import bodies
from corral.clouds.base import OWNER_LABEL, Hazard, Notice, Price, Vm, VmRef, VmRequest, checked
from corral.clouds.consoles import host_keys_of
from corral.clouds.errors import BadRequest, CloudError, Scope, StockOut, Transient
from corral.clouds.rest import Answer, Patience, RestClient, StaticToken, TokenSource
from corral.egress.policy import EgressPolicy

__all__ = ["ENDPOINT", "PRICES", "AzureProvider", "AzureSettings"]

ENDPOINT: Final = "https://management.azure.com"
PRICES: Final = "https://prices.azure.com"
_COMPUTE_API: Final = {"api-version": "2026-04-01"}
_NETWORK_API: Final = {"api-version": "2024-05-01"}
_GRAPH_API: Final = {"api-version": "2022-10-01"}
_RETAIL_API: Final = {"api-version": "2023-01-01-preview"}


@dataclass(frozen=True, slots=True, kw_only=True)
class AzureSettings:
    """Where and as whom one resource group of Azure is used."""

    subscription: str
    resource_group: str
    place: bodies.Place
    endpoint: str = ENDPOINT
    prices_endpoint: str = PRICES
    patience: Patience = field(default_factory=Patience)
    look_s: float = 15.0
    """Between two looks from outside."""
    egress: EgressPolicy = field(default_factory=EgressPolicy)
    """What may be called of what credentials name."""


class AzureProvider:
    """Spot and regular VMs of one resource group, which should be ours alone."""

    name = "azure"

    def __init__(
        self,
        settings: AzureSettings,
        tokens: TokenSource,
        *,
        rng: random.Random | None = None,
        clock: Callable[[], float] = time.time,
        pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._settings = settings
        self._clock = clock
        self._pause = pause
        chance = rng or random.Random()
        patience = settings.patience
        self._rest = RestClient(
            settings.endpoint, tokens, patience, chance, pause, _hopeful, settings.egress
        )
        self._retail = RestClient(
            settings.prices_endpoint, StaticToken(""), patience, chance, pause
        )
        group = f"/subscriptions/{settings.subscription}/resourceGroups/{settings.resource_group}"
        self._vms = f"{group}/providers/Microsoft.Compute/virtualMachines"
        self._interfaces = f"{group}/providers/Microsoft.Network/networkInterfaces"
        self._addresses = f"{group}/providers/Microsoft.Network/publicIPAddresses"

    # -- VMs -------------------------------------------------------------------------------------

    async def create(self, request: VmRequest) -> Vm:
        body = bodies.create_body(checked(request), self._settings.place)
        path = f"{self._vms}/{request.name}"
        absent = {"If-None-Match": "*"}
        answer = await self._rest.call("PUT", path, params=_COMPUTE_API, body=body, headers=absent)
        try:
            if answer.status not in (409, 412):
                await self._finish(_good(answer))
        except Transient:
            raise  # it may yet succeed: the next attempt finds out
        except CloudError:
            await self._remove_remnant(request)
            raise
        vm = await self._settled(request, answer)
        return await self._with_addresses(vm)

    async def _settled(self, request: VmRequest, answer: Answer) -> Vm:
        """The VM when Azure has decided about it. Raises CloudError."""
        until = self._clock() + self._settings.patience.operation_s
        while True:
            body = await self._body(request.name)
            if body is None:
                raise self._vanished(request, answer)
            vm = bodies.vm_of(body)
            if vm.request_id != request.request_id:
                raise BadRequest(
                    f"there is a VM {request.name} that this request did not make: "
                    "choose another name or delete it",
                    code="PreconditionFailed",
                )
            if vm.raw_state in ("Failed", "Canceled"):
                await self._remove_remnant(request)
                raise bodies.failure_of(body)
            if vm.raw_state not in ("Creating", "Updating"):
                return vm
            if self._clock() >= until:
                raise Transient(f"Azure is still making {request.name}: ask again")
            await self._pause(self._settings.patience.poll_s)

    @staticmethod
    def _vanished(request: VmRequest, answer: Answer) -> CloudError:
        if answer.status in (409, 412):
            return (
                bodies.refusal(answer)
                if answer.status == 409
                else Transient(f"VM {request.name} is just being deleted: ask again")
            )
        return StockOut(f"VM {request.name} was evicted at once", scope=Scope.ZONE)

    async def _remove_remnant(self, request: VmRequest) -> None:
        vm = await self._read(request.name)
        if vm is not None and vm.request_id == request.request_id:
            await self.delete(vm.ref)

    async def delete(self, ref: VmRef) -> None:
        params = {**_COMPUTE_API, "forceDeletion": "true"}
        answer = await self._rest.call("DELETE", f"{self._vms}/{ref.name}", params=params)
        if answer.status != 404:
            await self._finish(_good(answer))

    async def get(self, ref: VmRef) -> Vm | None:
        vm = await self._read(ref.name)
        return None if vm is None else await self._with_addresses(vm)

    async def _read(self, name: str) -> Vm | None:
        body = await self._body(name)
        return None if body is None else bodies.vm_of(body)

    async def _body(self, name: str) -> Mapping[str, Any] | None:
        params = {**_COMPUTE_API, "$expand": "instanceView"}
        answer = await self._rest.call("GET", f"{self._vms}/{name}", params=params)
        return None if answer.status == 404 else _good(answer).body

    async def _with_addresses(self, vm: Vm) -> Vm:
        path = f"{self._interfaces}/{vm.name}-nic"
        answer = await self._rest.call("GET", path, params=_NETWORK_API)
        if answer.status == 404:
            return vm
        configurations = (_good(answer).body.get("properties") or {}).get("ipConfigurations")
        properties = ((configurations or [{}])[0]).get("properties") or {}
        external = ""
        if self._settings.place.public_ip:
            found = await self._rest.call(
                "GET", f"{self._addresses}/{vm.name}-ip", params=_NETWORK_API
            )
            external = str((found.body.get("properties") or {}).get("ipAddress", ""))
        internal = str(properties.get("privateIPAddress", ""))
        return replace(vm, internal_ip=internal, external_ip=external)

    async def list(self, owner: str) -> Sequence[Vm]:
        found: list[Vm] = []
        path, params = self._vms, {**_COMPUTE_API, "$expand": "instanceView"}
        while path:
            body = _good(await self._rest.call("GET", path, params=params)).body
            found += [bodies.vm_of(each) for each in body.get("value") or ()]
            path, params = str(body.get("nextLink") or ""), {}
        return [vm for vm in found if vm.labels.get(OWNER_LABEL) == owner]

    async def _finish(self, answer: Answer) -> None:
        """Wait for an asynchronous operation, if it is one. Raises CloudError."""
        link = answer.headers.get("azure-asyncoperation", "")
        until = self._clock() + self._settings.patience.operation_s
        while link:
            state = _good(await self._rest.call("GET", link))
            status = str(state.body.get("status", ""))
            if status == "Succeeded":
                return
            if status in ("Failed", "Canceled"):
                raise bodies.operation_error(state.body)
            if self._clock() >= until:
                raise Transient("Azure has not finished within the time allowed: ask again")
            await self._pause(min(state.retry_after or 60.0, self._settings.patience.poll_s))

    # -- what is told about them -----------------------------------------------------------------

    def notices(self, owner: str) -> AsyncIterator[Notice]:
        return polling.watch(
            lambda: self.list(owner),
            _nothing,
            interval=self._settings.look_s,
            clock=self._clock,
            pause=self._pause,
        )

    async def preempt(self, ref: VmRef) -> None:
        """Have Azure evict a spot VM: a drill."""
        path = f"{self._vms}/{ref.name}/simulateEviction"
        _good(await self._rest.call("POST", path, params=_COMPUTE_API))

    async def prices(self, machine_types: Sequence[str], zones: Sequence[str]) -> Sequence[Price]:
        items: list[Mapping[str, Any]] = []
        for region in dict.fromkeys(bodies.split_zone(zone)[0] for zone in zones):
            path = "/api/retail/prices"
            condition = bodies.price_filter(machine_types, region)
            params: dict[str, str] = {**_RETAIL_API, "$filter": condition}
            while path:
                body = _good(await self._retail.call("GET", path, params=params)).body
                items += body.get("Items") or ()
                path, params = str(body.get("NextPageLink") or ""), {}
        return bodies.prices_of(items)

    async def hazards(self, machine_types: Sequence[str], zones: Sequence[str]) -> Sequence[Hazard]:
        regions = list(dict.fromkeys(bodies.split_zone(zone)[0] for zone in zones))
        query = {
            "subscriptions": [self._settings.subscription],
            "query": bodies.evictions_query(machine_types, regions),
        }
        path = "/providers/Microsoft.ResourceGraph/resources"
        answer = _good(await self._rest.call("POST", path, params=_GRAPH_API, body=query))
        return bodies.eviction_hazards(answer.body.get("data") or (), machine_types)

    async def host_keys(self, ref: VmRef) -> Sequence[str]:
        """As cloud-init writes them to the serial console."""
        path = f"{self._vms}/{ref.name}/retrieveBootDiagnosticsData"
        answer = await self._rest.call("POST", path, params=_COMPUTE_API)
        if answer.status in (404, 409):
            return ()
        url = str(_good(answer).body.get("serialConsoleLogBlobUri", ""))
        return host_keys_of(await self._rest.fetch_text(url)) if url else ()

    async def close(self) -> None:
        await self._rest.close()
        await self._retail.close()


async def _nothing() -> frozenset[str]:
    return frozenset()


def _hopeful(answer: Answer) -> bool:
    """A conflict is not: it is a VM that is there already, or on its way."""
    if answer.ok or answer.status in (404, 409, 412):
        return False
    return isinstance(bodies.refusal(answer), Transient)


def _good(answer: Answer) -> Answer:
    """The answer, if it is one. Raises CloudError."""
    if answer.ok:
        return answer
    raise bodies.refusal(answer)
