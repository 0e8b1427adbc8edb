"""What a cloud is asked for, from what a SpotInstanceVM says. Pure."""

from __future__ import annotations

import re
from typing import Any, Final

from corral.api.spot.vm import (
    AwsMachine,
    AzureMachine,
    GcpMachine,
    LocalMachine,
    Machine,
    SpotInstanceVMSpec,
)
from corral.clouds.base import Gpu, VmRef, VmRequest
from corral.clouds.errors import BadRequest
from corral.kube.types import Obj

__all__ = [
    "NAMESPACE_LABEL",
    "account_of",
    "cloud_zone",
    "machine_of",
    "options_of",
    "ref_of",
    "request_for",
]

NAMESPACE_LABEL: Final = "corral-namespace"
"""On machines: the namespace of their jobs."""
_WORD: Final = re.compile(r"[^a-z0-9_-]")


def machine_of(spec: SpotInstanceVMSpec, cloud: str) -> Machine:
    """What is said about machines of a cloud. Raises BadRequest."""
    found = {"gcp": spec.gcp, "aws": spec.aws, "azure": spec.azure, "local": spec.local}.get(cloud)
    if found is None:
        raise BadRequest(f"the SpotInstanceVM has no machines of {cloud or 'a cloud without name'}")
    return found


def options_of(machine: Machine) -> dict[str, Any]:
    """How the cloud's account is opened (`corral.clouds.opening`)."""
    found: dict[str, Any]
    if isinstance(machine, GcpMachine):
        found = {
            "project": machine.project,
            "network": machine.network,
            "subnetwork": machine.subnetwork,
        }
    elif isinstance(machine, AwsMachine):
        found = {
            "region": machine.region,
            "subnets": machine.subnets,
            "securityGroups": machine.security_groups,
            "keyName": machine.key_name,
        }
    elif isinstance(machine, AzureMachine):
        found = {
            "subscription": machine.subscription,
            "resourceGroup": machine.resource_group,
            "subnet": machine.subnet_id,
            "securityGroup": machine.security_group_id,
        }
    else:
        return {}
    given = {name: value for name, value in found.items() if value is not None}
    return {**given, "externalIP": machine.external_ip}


def account_of(machine: Machine) -> str:
    """Whose machines they are to the cloud, as the object says; empty: whoever the keys are."""
    if isinstance(machine, GcpMachine):
        return machine.project or ""
    return (machine.subscription or "") if isinstance(machine, AzureMachine) else ""


def cloud_zone(cloud: str, region: str, zone: str) -> str:
    """A zone in the cloud's own word: Azure counts them in each region."""
    return f"{region}-{zone}" if cloud == "azure" and zone.isdigit() else zone


def ref_of(entry: Obj) -> VmRef:
    """Which machine an entry is about."""
    zone = cloud_zone(entry["cloud"], entry.get("region") or "", entry.get("zone") or "")
    return VmRef(entry["name"], zone, entry.get("instanceID") or "")


def request_for(
    entry: Obj,
    spec: SpotInstanceVMSpec,
    *,
    owner: str,
    namespace: str,
    ssh_public_key: str = "",
) -> VmRequest:
    """What makes the machine of an entry. Raises BadRequest."""
    machine = machine_of(spec, entry["cloud"])
    gpu = spec.gpu
    return VmRequest(
        name=entry["name"],
        request_id=entry["requestID"],
        owner=owner,
        zone=ref_of(entry).zone,
        machine_type=entry["machineType"],
        image=machine.image or spec.vm_image or "",
        spot=entry.get("provisioningModel") != "OnDemand",
        gpu=Gpu(gpu.type, gpu.count) if gpu is not None else None,
        disk_gb=machine.disk_size_gb,
        disk_type=getattr(machine, "disk_type", ""),
        labels={NAMESPACE_LABEL: _word(namespace), "corral-job": _word(entry.get("job") or "")},
        network_tags=tuple(machine.network_tags or ()) if isinstance(machine, GcpMachine) else (),
        service_account=_account(machine),
        startup_script=spec.startup_script or "",
        ssh_user=spec.ssh.user if spec.ssh is not None else "",
        ssh_public_key=ssh_public_key,
    )


def _account(machine: Machine) -> str:
    if isinstance(machine, GcpMachine):
        return machine.service_account or ""
    if isinstance(machine, AwsMachine):
        return machine.instance_profile or ""
    if isinstance(machine, AzureMachine):
        return machine.identity or ""
    assert isinstance(machine, LocalMachine)
    return ""


def _word(text: str) -> str:
    """As clouds take labels; for people only."""
    return _WORD.sub("-", text.lower())[:63]
