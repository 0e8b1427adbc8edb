"""What a service says about a pod: its addresses, its ports, its conditions."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from ipaddress import ip_address
from typing import Final, Literal

from corral.cluster.workloads.pods import is_deleting, is_ready, is_terminal
from corral.kube.types import Obj

__all__ = [
    "AddressType",
    "address_types",
    "endpoint",
    "endpoint_ports",
    "has_address",
    "selected_pods",
]

AddressType = Literal["IPv4", "IPv6"]
_FAMILIES: Final[tuple[AddressType, ...]] = ("IPv4", "IPv6")
ZONE_LABEL: Final = "topology.kubernetes.io/zone"


def selected_pods(service: Obj, pods: Iterable[Obj]) -> list[Obj] | None:
    """The pods of a service, by name; None when it has no selector and others write its slices."""
    selector = service["spec"].get("selector")
    if not selector or service["spec"].get("type") == "ExternalName":
        return None
    namespace, wanted = service["metadata"].get("namespace", ""), selector.items()
    found = [
        pod
        for pod in pods
        if pod["metadata"].get("namespace", "") == namespace
        and wanted <= (pod["metadata"].get("labels") or {}).items()
    ]
    return sorted(found, key=lambda pod: str(pod["metadata"]["name"]))


def has_address(pod: Obj) -> bool:
    """The pod has an address and has not ended."""
    status = pod.get("status") or {}
    return not is_terminal(pod) and bool(status.get("podIP") or status.get("podIPs"))


@lru_cache(maxsize=4096)
def _normal(text: str) -> tuple[AddressType, str]:
    found = ip_address(text)
    return ("IPv6" if found.version == 6 else "IPv4"), str(found)


def address_types(service: Obj) -> tuple[AddressType, ...]:
    """The kinds of address a service has."""
    spec = service["spec"]
    families = tuple(kind for kind in _FAMILIES if kind in (spec.get("ipFamilies") or ()))
    if families:
        return families
    if spec.get("clusterIP") not in (None, "", "None"):
        return (_normal(spec["clusterIP"])[0],)
    return _FAMILIES


def pod_addresses(pod: Obj, kind: AddressType) -> list[str]:
    status = pod.get("status") or {}
    texts = [one.get("ip", "") for one in status.get("podIPs") or ()]
    if not texts and status.get("podIP"):
        texts = [status["podIP"]]
    found = [_normal(text) for text in texts if text]
    return sorted(address for which, address in found if which == kind)


def endpoint(pod: Obj, node: Obj | None, service: Obj, kind: AddressType) -> Obj:
    """One endpoint. Ready is what plain clients look at; serving and terminating tell why not."""
    meta, spec = pod["metadata"], pod.get("spec") or {}
    serving, terminating = is_ready(pod), is_deleting(pod)
    published = bool(service["spec"].get("publishNotReadyAddresses"))
    found: Obj = {
        "addresses": pod_addresses(pod, kind),
        "conditions": {
            "ready": published or (serving and not terminating),
            "serving": serving,
            "terminating": terminating,
        },
        "targetRef": {
            "kind": "Pod",
            "namespace": meta.get("namespace", ""),
            "name": meta["name"],
            "uid": meta.get("uid", ""),
        },
    }
    if spec.get("nodeName"):
        found["nodeName"] = spec["nodeName"]
    zone = ((node or {}).get("metadata", {}).get("labels") or {}).get(ZONE_LABEL)
    if zone:
        found["zone"] = zone
    if spec.get("hostname") and spec.get("subdomain") == service["metadata"]["name"]:
        found["hostname"] = spec["hostname"]
    return found


def _find_port(pod: Obj, port: Obj) -> int | None:
    """The number behind a service port on this pod; None when the pod has no port of the name."""
    target = port.get("targetPort", port["port"])
    if isinstance(target, int):
        return target
    spec = pod.get("spec") or {}
    sidecars = [c for c in spec.get("initContainers") or () if c.get("restartPolicy") == "Always"]
    for container in [*(spec.get("containers") or ()), *sidecars]:
        for one in container.get("ports") or ():
            same = (one.get("protocol") or "TCP") == (port.get("protocol") or "TCP")
            if one.get("name") == target and same:
                return int(one["containerPort"])
    return None


def endpoint_ports(service: Obj, pod: Obj) -> list[Obj]:
    """The service's ports as this pod has them."""
    found = []
    for port in service["spec"].get("ports") or ():
        number = _find_port(pod, port)
        if number is None:
            continue
        one: Obj = {
            "name": port.get("name", ""),
            "port": number,
            "protocol": port.get("protocol") or "TCP",
        }
        if port.get("appProtocol"):
            one["appProtocol"] = port["appProtocol"]
        found.append(one)
    return found
