"""GCP's shapes: what is sent to make a VM, and VMs, errors, prices as they come back. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from corral.clouds import codes
from corral.clouds.base import OWNER_LABEL, Hazard, Price, State, Vm, VmRequest, labels_of
from corral.clouds.errors import CloudError
from corral.clouds.rest import Answer

__all__ = [
    "Network",
    "capacity_body",
    "hazard_of_uptime",
    "history_body",
    "history_hazard",
    "history_price",
    "insert_body",
    "operation_error",
    "owner_filter",
    "refusal",
    "region_of",
    "vm_of",
]

_SCOPE: Final = "https://www.googleapis.com/auth/cloud-platform"
_STATES: Final = {
    "PROVISIONING": State.PENDING,
    "STAGING": State.PENDING,
    "REPAIRING": State.PENDING,
    "PENDING": State.PENDING,
    "RUNNING": State.RUNNING,
    "PENDING_STOP": State.STOPPING,
    "STOPPING": State.STOPPING,
    "SUSPENDING": State.STOPPING,
    "SUSPENDED": State.TERMINATED,
    "STOPPED": State.TERMINATED,
    "TERMINATED": State.TERMINATED,
    "DEPROVISIONING": State.TERMINATED,
}


@dataclass(frozen=True, slots=True)
class Network:
    """The network that VMs are connected to."""

    network: str = "global/networks/default"
    subnetwork: str = ""
    external_ip: bool = False


def region_of(zone: str) -> str:
    """The region of a zone, such as ``us-central1`` of ``us-central1-a``."""
    return zone.rpartition("-")[0] or zone


def insert_body(request: VmRequest, network: Network) -> dict[str, Any]:
    """The Instance of an instances.insert."""
    zone = request.zone
    body: dict[str, Any] = {
        "name": request.name,
        "machineType": f"zones/{zone}/machineTypes/{request.machine_type}",
        "scheduling": _scheduling(request),
        "disks": [_disk(request)],
        "networkInterfaces": [_interface(network)],
        "metadata": {"items": _metadata(request)},
        "labels": labels_of(request),
    }
    if request.gpu is not None:
        accelerator = f"zones/{zone}/acceleratorTypes/{request.gpu.type}"
        body["guestAccelerators"] = [
            {"acceleratorType": accelerator, "acceleratorCount": request.gpu.count}
        ]
    if request.network_tags:
        body["tags"] = {"items": list(request.network_tags)}
    if request.service_account:
        body["serviceAccounts"] = [{"email": request.service_account, "scopes": [_SCOPE]}]
    return body


def _scheduling(request: VmRequest) -> dict[str, Any]:
    if request.spot:
        scheduling: dict[str, Any] = {
            "provisioningModel": "SPOT",
            "instanceTerminationAction": "DELETE",
            "preemptible": True,
            "automaticRestart": False,
            "onHostMaintenance": "TERMINATE",
        }
        if request.notice_s is not None:
            scheduling["preemptionNoticeDuration"] = {"seconds": str(request.notice_s)}
    else:
        moves = request.gpu is None  # VMs with accelerators cannot be moved while they run
        scheduling = {
            "provisioningModel": "STANDARD",
            "automaticRestart": True,
            "onHostMaintenance": "MIGRATE" if moves else "TERMINATE",
        }
    if request.max_run_s is not None:
        scheduling["maxRunDuration"] = {"seconds": str(request.max_run_s)}
        scheduling["instanceTerminationAction"] = "DELETE"
    return scheduling


def _disk(request: VmRequest) -> dict[str, Any]:
    kind = request.disk_type or "pd-standard"
    return {
        "boot": True,
        "autoDelete": True,
        "initializeParams": {
            "sourceImage": request.image,
            "diskSizeGb": str(request.disk_gb),
            "diskType": f"zones/{request.zone}/diskTypes/{kind}",
        },
    }


def _interface(network: Network) -> dict[str, Any]:
    interface: dict[str, Any] = {}
    if network.network:
        interface["network"] = network.network
    if network.subnetwork:
        interface["subnetwork"] = network.subnetwork
    if network.external_ip:
        interface["accessConfigs"] = [{"type": "ONE_TO_ONE_NAT", "name": "External NAT"}]
    return interface


def _metadata(request: VmRequest) -> list[dict[str, str]]:
    # the guest publishes its SSH host keys there, so that they can be checked
    items = [{"key": "enable-guest-attributes", "value": "TRUE"}]
    if request.startup_script:
        items.append({"key": "startup-script", "value": request.startup_script})
    if request.ssh_public_key:
        line = f"{request.ssh_user}:{request.ssh_public_key.strip()}"
        items += [
            {"key": "ssh-keys", "value": line},
            {"key": "block-project-ssh-keys", "value": "TRUE"},
        ]
    return items


def owner_filter(owner: str) -> str:
    return f"labels.{OWNER_LABEL}={owner}"


def vm_of(instance: Mapping[str, Any]) -> Vm:
    """An Instance as a VM."""
    interfaces = instance.get("networkInterfaces") or [{}]
    access = interfaces[0].get("accessConfigs") or [{}]
    raw = str(instance.get("status", ""))
    scheduling = instance.get("scheduling") or {}
    created = instance.get("creationTimestamp")
    return Vm(
        name=str(instance["name"]),
        zone=_last(instance.get("zone")),
        id=str(instance.get("id", "")),
        machine_type=_last(instance.get("machineType")),
        state=_STATES.get(raw, State.PENDING),
        raw_state=raw,
        spot=scheduling.get("provisioningModel") == "SPOT" or bool(scheduling.get("preemptible")),
        internal_ip=str(interfaces[0].get("networkIP", "")),
        external_ip=str(access[0].get("natIP", "")),
        created=datetime.fromisoformat(created).timestamp() if created else None,
        labels=dict(instance.get("labels") or {}),
    )


def _last(link: Any) -> str:
    return str(link or "").rpartition("/")[2]


# -- errors ----------------------------------------------------------------------------------------


def refusal(answer: Answer) -> CloudError:
    """The error of an HTTP answer that says no."""
    error = answer.body.get("error")
    if not isinstance(error, Mapping):
        words = str(error or answer.body.get("text") or f"HTTP {answer.status}")
        return codes.error_for(codes.GCP, "", words, status=answer.status)
    reasons = [str(each.get("reason", "")) for each in error.get("errors") or ()]
    return _worst(
        [*reasons, str(error.get("status", ""))],
        str(error.get("message", "")),
        answer.status,
        answer.retry_after,
    )


def operation_error(operation: Mapping[str, Any]) -> CloudError | None:
    """The error of an operation that is done; None when it succeeded."""
    errors: Sequence[Mapping[str, Any]] = (operation.get("error") or {}).get("errors") or ()
    if not errors:
        return None
    words = "; ".join(str(each.get("message", "")) for each in errors)
    status = int(operation.get("httpErrorStatusCode") or 0)
    return _worst([str(each.get("code", "")) for each in errors], words, status, None)


def _worst(found: Sequence[str], words: str, status: int, retry_after: float | None) -> CloudError:
    """By the first code that says anything; several are told, the first known is the cause."""
    known = [code for code in found if code in codes.GCP or code.startswith("IP_SPACE_EXHAUSTED")]
    code = (known or [code for code in found if code] or [""])[0]
    return codes.error_for(codes.GCP, code, words, status=status, retry_after=retry_after)


# -- advice: what GCP publishes about prices and preemptions ---------------------------------------


def history_body(machine_type: str, zone: str) -> dict[str, Any]:
    """The body of a request for advice.capacityHistory."""
    return {
        "instanceProperties": {
            "machineType": machine_type,
            "scheduling": {"provisioningModel": "SPOT"},
        },
        "locationPolicy": {"location": f"zones/{zone}"},
        "types": ["PREEMPTION", "PRICE"],
    }


def capacity_body(machine_type: str, zone: str) -> dict[str, Any]:
    """Of an advice.capacity, for one VM."""
    return {
        "instanceProperties": {"scheduling": {"provisioningModel": "SPOT"}},
        "instanceFlexibilityPolicy": {
            "instanceSelections": {"wanted": {"machineTypes": [machine_type]}}
        },
        "distributionPolicy": {
            "targetShape": "ANY_SINGLE_ZONE",
            "zones": [{"zone": f"zones/{zone}"}],
        },
        "size": 1,
    }


def history_price(body: Mapping[str, Any], machine_type: str, zone: str) -> Price | None:
    """The newest price that is told."""
    records = [each for each in body.get("priceHistory") or () if each.get("listPrice")]
    if not records:
        return None
    newest = max(records, key=lambda each: _start(each))
    money = newest["listPrice"]
    return Price(
        machine_type=machine_type,
        zone=zone,
        spot=True,
        per_hour=int(money.get("units") or 0) + int(money.get("nanos") or 0) / 1e9,
        currency=str(money.get("currencyCode") or "USD"),
        at=_start(newest),
    )


def history_hazard(body: Mapping[str, Any], machine_type: str, zone: str) -> Hazard | None:
    """From the share of stopped VMs that were preempted.

    That share is no rate; taken as the chance to be preempted within the interval it is an upper
    bound for VMs that run at least that long. Only used where no uptime is published.
    """
    rates = []
    for each in body.get("preemptionHistory") or ():
        share = min(max(float(each.get("preemptionRate") or 0.0), 0.0), 0.999)
        hours = (_end(each) - _start(each)) / 3600
        if hours > 0:
            rates.append((_start(each), -math.log1p(-share) / hours))
    if not rates:
        return None
    return Hazard(
        machine_type=machine_type,
        zone=zone,
        per_hour=sum(rate for _, rate in rates) / len(rates),
        source="gcp capacityHistory",
        at=max(start for start, _ in rates),
    )


def hazard_of_uptime(body: Mapping[str, Any], machine_type: str, zone: str) -> Hazard | None:
    """From the uptime that GCP expects for such a VM."""
    for each in body.get("recommendations") or ():
        text = str((each.get("scores") or {}).get("estimatedUptime") or "")
        seconds = float(text.removesuffix("s")) if text.endswith("s") else 0.0
        if seconds > 0:
            return Hazard(
                machine_type=machine_type,
                zone=zone,
                per_hour=3600 / seconds,
                source="gcp capacity advice",
            )
    return None


def _start(record: Mapping[str, Any]) -> float:
    return datetime.fromisoformat(record["interval"]["startTime"]).timestamp()


def _end(record: Mapping[str, Any]) -> float:
    return datetime.fromisoformat(record["interval"]["endTime"]).timestamp()
