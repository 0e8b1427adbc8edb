"""The older Endpoints object of a service: all of its addresses in one object, up to 1000."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from corral.cluster.workloads.endpoints.addresses import (
    address_types,
    endpoint_ports,
    has_address,
    pod_addresses,
)
from corral.cluster.workloads.endpoints.slices import HEADLESS, TRIGGER_TIME
from corral.cluster.workloads.pods import is_deleting, is_ready
from corral.kube.types import Obj

__all__ = ["endpoints_object"]

MANAGED_BY: Final = "endpoints.kubernetes.io/managed-by"
OVER_CAPACITY: Final = "endpoints.kubernetes.io/over-capacity"
_MOST: Final = 1000


def endpoints_object(
    service: Obj, pods: Iterable[Obj], current: Obj | None, *, trigger_time: str | None = None
) -> Obj | None:
    """The object to create (``current`` is None) or replace; None when nothing changes."""
    subsets, cut = _capped(_subsets(service, pods))
    labels = {k: v for k, v in (service["metadata"].get("labels") or {}).items() if k != HEADLESS}
    if service["spec"].get("clusterIP") in (None, "", "None"):
        labels[HEADLESS] = ""
    labels[MANAGED_BY] = "endpoint-controller"
    owner = service["metadata"]
    fresh = {"metadata": {"name": owner["name"], "namespace": owner.get("namespace", "")}}
    base = current or fresh
    annotations = dict(base["metadata"].get("annotations") or {})
    capped = annotations.get(OVER_CAPACITY) == "truncated"
    same = current is not None and (current.get("subsets") or []) == subsets
    if same and (base["metadata"].get("labels") or {}) == labels and capped == cut:
        return None
    for key, value in ((TRIGGER_TIME, trigger_time), (OVER_CAPACITY, "truncated" if cut else None)):
        annotations.pop(key, None)
        if value is not None:
            annotations[key] = value
    meta = {**base["metadata"], "labels": labels, "annotations": annotations}
    if not annotations:
        del meta["annotations"]
    found: Obj = {"apiVersion": "v1", "kind": "Endpoints", "metadata": meta}
    return {**found, "subsets": subsets} if subsets else found


def _address(service: Obj, pod: Obj) -> Obj | None:
    kind = (service["spec"].get("ipFamilies") or address_types(service))[0]
    addresses = pod_addresses(pod, kind)
    if not addresses:
        return None
    meta, spec = pod["metadata"], pod.get("spec") or {}
    found: Obj = {
        "ip": addresses[0],
        "targetRef": {
            "kind": "Pod",
            "namespace": meta.get("namespace", ""),
            "name": meta["name"],
            "uid": meta.get("uid", ""),
        },
    }
    if spec.get("nodeName"):
        found["nodeName"] = spec["nodeName"]
    if spec.get("hostname") and spec.get("subdomain") == service["metadata"]["name"]:
        found["hostname"] = spec["hostname"]
    return found


def _subsets(service: Obj, pods: Iterable[Obj]) -> list[Obj]:
    """One subset for all ports that the same pods have."""
    spec = service["spec"]
    published = bool(spec.get("publishNotReadyAddresses"))
    by_port: dict[tuple[tuple[str, Any], ...], list[tuple[Obj, bool]]] = {}
    for pod in pods:
        if not has_address(pod) or (is_deleting(pod) and not published):
            continue
        address = _address(service, pod)
        if address is None:
            continue
        ports = [tuple(sorted(port.items())) for port in endpoint_ports(service, pod)]
        if not spec.get("ports") and spec.get("clusterIP") == "None":
            ports = [()]
        for port in ports:
            by_port.setdefault(port, []).append((address, published or is_ready(pod)))
    groups: list[tuple[list[tuple[Obj, bool]], list[Obj]]] = []
    for key, entries in by_port.items():
        port_object = [{k: v for k, v in key if v != ""}] if key else []
        for known, ports_of in groups:
            if known == entries:
                ports_of += port_object
                break
        else:
            groups.append((entries, port_object))
    return [_subset(entries, ports_of) for entries, ports_of in groups]


def _subset(entries: list[tuple[Obj, bool]], ports: list[Obj]) -> Obj:
    found: Obj = {
        "addresses": [address for address, ready in entries if ready],
        "notReadyAddresses": [address for address, ready in entries if not ready],
        "ports": ports,
    }
    return {key: value for key, value in found.items() if value}


def _capped(subsets: list[Obj]) -> tuple[list[Obj], bool]:
    """At most 1000 addresses; the ready ones stay first."""
    count = sum(len(s.get(f) or ()) for s in subsets for f in ("addresses", "notReadyAddresses"))
    if count <= _MOST:
        return subsets, False
    room = _MOST
    kept = [dict(subset) for subset in subsets]
    for name in ("addresses", "notReadyAddresses"):
        for subset in kept:
            addresses = (subset.pop(name, None) or [])[:room]
            room -= len(addresses)
            if addresses:
                subset[name] = addresses
    return [s for s in kept if "addresses" in s or "notReadyAddresses" in s], True
