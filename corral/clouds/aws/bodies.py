"""EC2's shapes: what is sent to make an instance, and instances, prices as they come back. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from email.mime.multipart import MIMEMultipart
from email.mime.text import MIMEText
from typing import Any, Final

from corral.clouds.base import Hazard, Price, State, Vm, VmRequest, labels_of

__all__ = ["Place", "advisor_hazards", "prices_of", "region_of", "run_arguments", "vm_of"]

_NAME_TAG: Final = "Name"
_STATES: Final = {
    "pending": State.PENDING,
    "running": State.RUNNING,
    "shutting-down": State.STOPPING,
    "stopping": State.STOPPING,
    "stopped": State.TERMINATED,
    "terminated": State.TERMINATED,
}
_TAKEN: Final = frozenset(
    {"Server.SpotInstanceTermination", "Server.SpotInstanceShutdown", "Server.SpotInstanceStop"}
)
_MONTH_H: Final = 30 * 24
_PERCENT: Final = (2.5, 7.5, 12.5, 17.5, 25.0)
"""The middle of each range of the spot advisor; the last one is open."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """What every instance of ours is made in."""

    subnets: Mapping[str, str] = field(default_factory=dict)
    """By zone; a zone without one takes the default subnet."""
    security_groups: Sequence[str] = ()
    key_name: str = ""
    root_device: str = "/dev/xvda"
    external_ip: bool = False


def region_of(zone: str) -> str:
    """The region of a zone, such as ``us-east-1`` of ``us-east-1a``."""
    return zone.rstrip("abcdefghijklmnopqrstuvwxyz") or zone


def run_arguments(request: VmRequest, place: Place) -> dict[str, Any]:
    """Of a RunInstances for exactly one instance."""
    tags = [{"Key": key, "Value": value} for key, value in sorted(labels_of(request).items())]
    tags.append({"Key": _NAME_TAG, "Value": request.name})
    arguments: dict[str, Any] = {
        "ClientToken": request.request_id,
        "MinCount": 1,
        "MaxCount": 1,
        "ImageId": request.image,
        "InstanceType": request.machine_type,
        "Placement": {"AvailabilityZone": request.zone},
        "BlockDeviceMappings": [
            {
                "DeviceName": place.root_device,
                "Ebs": {
                    "DeleteOnTermination": True,
                    "VolumeSize": request.disk_gb,
                    "VolumeType": request.disk_type or "gp3",
                },
            }
        ],
        # pods are one hop further than the machine
        "MetadataOptions": {"HttpTokens": "required", "HttpPutResponseHopLimit": 2},
        "InstanceInitiatedShutdownBehavior": "terminate",
        "NetworkInterfaces": [_interface(request, place)],
        "TagSpecifications": [
            {"ResourceType": "instance", "Tags": tags},
            {"ResourceType": "volume", "Tags": tags},
        ],
    }
    if request.spot:
        options: dict[str, Any] = {
            "SpotInstanceType": "one-time",
            "InstanceInterruptionBehavior": "terminate",
        }
        if request.max_price is not None:
            options["MaxPrice"] = f"{request.max_price:.6f}"
        arguments["InstanceMarketOptions"] = {"MarketType": "spot", "SpotOptions": options}
    if user_data := _user_data(request):
        arguments["UserData"] = user_data
    if place.key_name:
        arguments["KeyName"] = place.key_name
    if request.service_account:
        arguments["IamInstanceProfile"] = {"Arn": request.service_account}
    return arguments


def _interface(request: VmRequest, place: Place) -> dict[str, Any]:
    interface: dict[str, Any] = {
        "DeviceIndex": 0,
        "DeleteOnTermination": True,
        "AssociatePublicIpAddress": place.external_ip,
    }
    if request.zone in place.subnets:
        interface["SubnetId"] = place.subnets[request.zone]
    if place.security_groups:
        interface["Groups"] = list(place.security_groups)
    return interface


def _user_data(request: VmRequest) -> str:
    """The script alone, or with the key of the SSH user, as cloud-init takes several parts."""
    if not request.ssh_public_key:
        return request.startup_script
    config = "#cloud-config\nssh_authorized_keys:\n"
    config += f"  - {request.ssh_public_key.strip()}\n"
    # the same request must have the same bytes, or its client token is refused
    message = MIMEMultipart(boundary=f"corral-{request.request_id}")
    message.attach(MIMEText(config, "cloud-config"))
    if request.startup_script:
        message.attach(MIMEText(request.startup_script, "x-shellscript"))
    return message.as_string()


def vm_of(instance: Mapping[str, Any]) -> Vm:
    """An Instance as a VM."""
    tags = {str(tag["Key"]): str(tag["Value"]) for tag in instance.get("Tags") or ()}
    raw = str((instance.get("State") or {}).get("Name", ""))
    state = _STATES.get(raw, State.PENDING)
    launched = instance.get("LaunchTime")
    reason = str((instance.get("StateReason") or {}).get("Code", ""))
    over = state in (State.STOPPING, State.TERMINATED)
    return Vm(
        name=tags.pop(_NAME_TAG, ""),
        zone=str((instance.get("Placement") or {}).get("AvailabilityZone", "")),
        id=str(instance["InstanceId"]),
        machine_type=str(instance.get("InstanceType", "")),
        state=state,
        raw_state=raw,
        spot=instance.get("InstanceLifecycle") == "spot",
        preempted=reason in _TAKEN if over else None,
        internal_ip=str(instance.get("PrivateIpAddress") or ""),
        external_ip=str(instance.get("PublicIpAddress") or ""),
        created=launched.timestamp() if isinstance(launched, datetime) else None,
        labels=tags,
    )


def prices_of(history: Iterable[Mapping[str, Any]]) -> list[Price]:
    """The newest spot price of each type and zone."""
    newest: dict[tuple[str, str], Price] = {}
    for item in history:
        price = Price(
            machine_type=str(item["InstanceType"]),
            zone=str(item["AvailabilityZone"]),
            spot=True,
            per_hour=float(item["SpotPrice"]),
            at=item["Timestamp"].timestamp(),
        )
        key = (price.machine_type, price.zone)
        if key not in newest or (price.at or 0) > (newest[key].at or 0):
            newest[key] = price
    return list(newest.values())


def advisor_hazards(
    advisor: Mapping[str, Any], machine_types: Iterable[str], regions: Iterable[str]
) -> list[Hazard]:
    """From the spot advisor: how many of a hundred instances were taken in the last month."""
    found = []
    for region in regions:
        rows = ((advisor.get("spot_advisor") or {}).get(region) or {}).get("Linux") or {}
        for kind in machine_types:
            rank = (rows.get(kind) or {}).get("r")
            if isinstance(rank, int) and 0 <= rank < len(_PERCENT):
                rate = -math.log1p(-_PERCENT[rank] / 100) / _MONTH_H
                found.append(
                    Hazard(machine_type=kind, zone=region, per_hour=rate, source="aws advisor")
                )
    return found
