"""Azure's shapes: what is sent to make a VM, and VMs, errors, prices as they come back. Pure.

A zone of ours is Azure's region and zone together, ``westeurope-1``; a region alone leaves the
zone to Azure.
"""

from __future__ import annotations

import base64
import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from corral.clouds import codes
from corral.clouds.base import Hazard, Price, State, Vm, VmRequest, labels_of
from corral.clouds.errors import BadRequest, CloudError
from corral.clouds.rest import Answer

__all__ = [
    "Place",
    "create_body",
    "eviction_hazards",
    "evictions_query",
    "failure_of",
    "operation_error",
    "price_filter",
    "prices_of",
    "refusal",
    "split_zone",
    "vm_of",
]

_NETWORK_API: Final = "2022-11-01"
_ZONE: Final = re.compile(r"(?P<region>[a-z][a-z0-9]*)(-(?P<zone>[0-9]))?")
_POWER: Final = {
    "PowerState/running": State.RUNNING,
    "PowerState/starting": State.PENDING,
    "PowerState/stopping": State.STOPPING,
    "PowerState/deallocating": State.STOPPING,
    "PowerState/stopped": State.TERMINATED,
    "PowerState/deallocated": State.TERMINATED,
}
_PROVISIONING: Final = {
    "Creating": State.PENDING,
    "Updating": State.PENDING,
    "Succeeded": State.RUNNING,
    "Deleting": State.STOPPING,
    "Failed": State.TERMINATED,
    "Canceled": State.TERMINATED,
}


@dataclass(frozen=True, slots=True)
class Place:
    """What every VM of ours is made in."""

    subnet_id: str
    security_group_id: str = ""
    public_ip: bool = False


def split_zone(zone: str) -> tuple[str, str]:
    """Region, and zone within it or nothing. Raises BadRequest."""
    match = _ZONE.fullmatch(zone)
    if match is None:
        raise BadRequest(f"{zone!r} is no zone of Azure: write a region, or region-N")
    return match["region"], match["zone"] or ""


def create_body(request: VmRequest, place: Place) -> dict[str, Any]:
    """The VirtualMachine of a virtualMachines.createOrUpdate. Raises BadRequest."""
    region, zone = split_zone(request.zone)
    if not request.ssh_public_key:
        raise BadRequest("Azure makes no Linux VM without an SSH key: give sshUser and a key")
    properties: dict[str, Any] = {
        "hardwareProfile": {"vmSize": request.machine_type},
        "storageProfile": {
            "imageReference": _image(request.image),
            "osDisk": {
                "createOption": "FromImage",
                "deleteOption": "Delete",
                "diskSizeGB": request.disk_gb,
                "managedDisk": {"storageAccountType": request.disk_type or "Standard_LRS"},
            },
        },
        "osProfile": _system(request),
        "networkProfile": {
            "networkApiVersion": _NETWORK_API,
            "networkInterfaceConfigurations": [_interface(request, place)],
        },
        # the serial console's log is where the SSH host keys can be read
        "diagnosticsProfile": {"bootDiagnostics": {"enabled": True}},
    }
    if request.spot:
        properties["priority"] = "Spot"
        properties["evictionPolicy"] = "Delete"
        price = -1 if request.max_price is None else request.max_price
        properties["billingProfile"] = {"maxPrice": price}
    body: dict[str, Any] = {
        "location": region,
        "tags": labels_of(request),
        "properties": properties,
    }
    if zone:
        body["zones"] = [zone]
    if request.service_account:
        body["identity"] = {
            "type": "UserAssigned",
            "userAssignedIdentities": {request.service_account: {}},
        }
    return body


def _image(image: str) -> dict[str, str]:
    """A resource id, or publisher:offer:sku:version as Azure's own tools write it."""
    if image.startswith("/"):
        return {"id": image}
    parts = image.split(":")
    if len(parts) != 4 or not all(parts):
        raise BadRequest(
            f"{image!r} is no image of Azure: write a resource id or publisher:offer:sku:version"
        )
    return dict(zip(("publisher", "offer", "sku", "version"), parts, strict=True))


def _system(request: VmRequest) -> dict[str, Any]:
    user = request.ssh_user or "corral"
    system: dict[str, Any] = {
        "computerName": request.name,
        "adminUsername": user,
        "linuxConfiguration": {
            "disablePasswordAuthentication": True,
            "ssh": {
                "publicKeys": [
                    {
                        "path": f"/home/{user}/.ssh/authorized_keys",
                        "keyData": request.ssh_public_key.strip(),
                    }
                ]
            },
        },
    }
    if request.startup_script:
        system["customData"] = base64.b64encode(request.startup_script.encode()).decode()
    return system


def _interface(request: VmRequest, place: Place) -> dict[str, Any]:
    address: dict[str, Any] = {"primary": True, "subnet": {"id": place.subnet_id}}
    if place.public_ip:
        address["publicIPAddressConfiguration"] = {
            "name": f"{request.name}-ip",
            "sku": {"name": "Standard"},
            "properties": {"deleteOption": "Delete"},
        }
    properties: dict[str, Any] = {
        "primary": True,
        "deleteOption": "Delete",
        "ipConfigurations": [{"name": "main", "properties": address}],
    }
    if place.security_group_id:
        properties["networkSecurityGroup"] = {"id": place.security_group_id}
    return {"name": f"{request.name}-nic", "properties": properties}


def vm_of(body: Mapping[str, Any]) -> Vm:
    """A VirtualMachine as a VM; its power is known only with the instance view."""
    properties = body.get("properties") or {}
    provisioning = str(properties.get("provisioningState", ""))
    power = next(
        (
            str(each["code"])
            for each in (properties.get("instanceView") or {}).get("statuses") or ()
            if str(each.get("code", "")).startswith("PowerState/")
        ),
        "",
    )
    state = _PROVISIONING.get(provisioning, State.PENDING)
    if provisioning in ("Succeeded", "Updating") and power:
        state = _POWER.get(power, state)
    zones = body.get("zones") or ()
    created = properties.get("timeCreated")
    return Vm(
        name=str(body["name"]),
        zone=str(body.get("location", "")) + (f"-{zones[0]}" if zones else ""),
        id=str(properties.get("vmId") or body.get("id", "")),
        machine_type=str((properties.get("hardwareProfile") or {}).get("vmSize", "")),
        state=state,
        raw_state=power or provisioning,
        spot=properties.get("priority") == "Spot",
        created=datetime.fromisoformat(created).timestamp() if created else None,
        labels=dict(body.get("tags") or {}),
    )


# -- errors ----------------------------------------------------------------------------------------


def refusal(answer: Answer) -> CloudError:
    """The error of an HTTP answer that says no."""
    return _error(answer.body.get("error"), status=answer.status, retry_after=answer.retry_after)


def operation_error(body: Mapping[str, Any]) -> CloudError:
    """The error of an asynchronous operation that failed."""
    return _error(body.get("error"), status=0, retry_after=None)


def failure_of(body: Mapping[str, Any]) -> CloudError:
    """Why the making of a VM failed, as its instance view tells."""
    prefix = "ProvisioningState/failed/"
    view = (body.get("properties") or {}).get("instanceView") or {}
    for status in view.get("statuses") or ():
        code = str(status.get("code", ""))
        if code.startswith(prefix):
            words = str(status.get("message", ""))
            return codes.error_for(codes.AZURE, code.removeprefix(prefix), words)
    return codes.error_for(codes.AZURE, "", f"the making of {body.get('name')} had failed")


def _error(error: Any, *, status: int, retry_after: float | None) -> CloudError:
    if not isinstance(error, Mapping):
        words = str(error or f"HTTP {status}")
        return codes.error_for(codes.AZURE, "", words, status=status, retry_after=retry_after)
    found = list(_nested(error))
    known = [each for each in found if str(each.get("code", "")) in codes.AZURE]
    cause = (known or found)[0]
    return codes.error_for(
        codes.AZURE,
        str(cause.get("code", "")),
        str(cause.get("message", "")),
        status=status,
        retry_after=retry_after,
    )


def _nested(error: Mapping[str, Any]) -> Iterable[Mapping[str, Any]]:
    """An error, then its details: the cause may be anywhere."""
    yield error
    for detail in error.get("details") or ():
        yield from _nested(detail)


# -- prices and evictions --------------------------------------------------------------------------


def price_filter(machine_types: Iterable[str], region: str) -> str:
    """For the retail prices of these types, spot ones among them."""
    kinds = " or ".join(f"armSkuName eq '{kind}'" for kind in machine_types)
    return (
        "serviceName eq 'Virtual Machines' and priceType eq 'Consumption' "
        f"and armRegionName eq '{region}' and ({kinds})"
    )


def prices_of(items: Iterable[Mapping[str, Any]]) -> list[Price]:
    """The cheapest of each kind: Linux, an hour, neither low-priority nor Windows."""
    best: dict[tuple[str, str, bool], Price] = {}
    for item in items:
        sku, product = str(item.get("skuName", "")), str(item.get("productName", ""))
        if "Low Priority" in sku or "Windows" in product or item.get("unitOfMeasure") != "1 Hour":
            continue
        price = Price(
            machine_type=str(item["armSkuName"]),
            zone=str(item["armRegionName"]),
            spot=" Spot" in sku,
            per_hour=float(item["retailPrice"]),
            currency=str(item.get("currencyCode", "USD")),
            at=_time(item.get("effectiveStartDate")),
        )
        key = (price.machine_type, price.zone, price.spot)
        if key not in best or price.per_hour < best[key].per_hour:
            best[key] = price
    return list(best.values())


def _time(text: Any) -> float | None:
    return datetime.fromisoformat(str(text)).timestamp() if text else None


def evictions_query(machine_types: Iterable[str], regions: Iterable[str]) -> str:
    """For Resource Graph: how often spot VMs of these types were evicted."""
    kinds = ", ".join(f"'{kind.lower()}'" for kind in machine_types)
    places = ", ".join(f"'{region}'" for region in regions)
    return (
        "SpotResources | where type =~ 'microsoft.compute/skuspotevictionrate/location' "
        f"| where tolower(sku.name) in ({kinds}) and location in ({places}) "
        "| project skuName = tostring(sku.name), location, "
        "evictionRate = tostring(properties.evictionRate)"
    )


def eviction_hazards(
    rows: Iterable[Mapping[str, Any]], machine_types: Iterable[str]
) -> list[Hazard]:
    """Azure tells the chance to be evicted within an hour, as a range of percents."""
    names = {kind.lower(): kind for kind in machine_types}
    found = []
    for row in rows:
        numbers = [float(text) for text in re.findall(r"[0-9.]+", str(row.get("evictionRate")))]
        if not numbers:
            continue
        percent = sum(numbers) / len(numbers)
        sku = str(row["skuName"])
        found.append(
            Hazard(
                machine_type=names.get(sku.lower(), sku),
                zone=str(row["location"]),
                per_hour=-math.log1p(-min(percent / 100, 0.99)),
                source="azure SpotResources",
            )
        )
    return found
