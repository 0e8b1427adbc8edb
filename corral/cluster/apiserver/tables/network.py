"""Rows of services, the addresses behind them, and what routes to them."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any

from corral.cluster.apiserver.tables.cells import (
    NONE,
    UNKNOWN,
    Row,
    born,
    labels,
    selector,
    shortened,
)
from corral.kube.types import Obj

__all__ = ["ROWS"]

_DEFAULT_CLASS = "ingressclass.kubernetes.io/is-default-class"
_SHOWN = 3


def _service(obj: Obj, now: datetime) -> list[Any]:
    spec = obj.get("spec") or {}
    ips = spec.get("clusterIPs")
    return [
        obj["metadata"].get("name", ""),
        spec.get("type", ""),
        ips[0] if ips else NONE,
        _external(spec, obj.get("status") or {}),
        ",".join(_port(port) for port in spec.get("ports") or ()) or NONE,
        born(obj, now),
        labels(spec.get("selector")),
    ]


def _external(spec: Obj, status: Obj) -> str:
    """Where the service is reached from outside."""
    kind, ips = spec.get("type"), spec.get("externalIPs") or []
    if kind in ("ClusterIP", "NodePort"):
        return ",".join(ips) or NONE
    if kind == "LoadBalancer":
        balancer = _balancer(status)
        return ",".join([balancer, *ips] if balancer else ips) or "<pending>"
    return str(spec.get("externalName", "")) if kind == "ExternalName" else UNKNOWN


def _balancer(status: Obj) -> str:
    points = (status.get("loadBalancer") or {}).get("ingress") or ()
    found = {point.get("ip") or point.get("hostname") for point in points}
    return ",".join(sorted(text for text in found if text))


def _port(port: Obj) -> str:
    outside = f":{port['nodePort']}" if port.get("nodePort") else ""
    return f"{port.get('port', 0)}{outside}/{port.get('protocol', '')}"


def _endpoints(obj: Obj, now: datetime) -> list[Any]:
    subsets = obj.get("subsets")
    text = NONE
    if subsets:
        # Unlike other lists an empty one of subsets that exist shows nothing at all.
        found = [address for subset in subsets for address in _addresses(subset)]
        text = shortened(found) if found else ""
    return [obj["metadata"].get("name", ""), text, born(obj, now)]


def _addresses(subset: Obj) -> Iterator[str]:
    found = [address.get("ip", "") for address in subset.get("addresses") or ()]
    ports = subset.get("ports")
    if not ports:
        yield from found
    for port in ports or ():
        for ip in found:
            yield f"[{ip}]:{port['port']}" if ":" in ip else f"{ip}:{port['port']}"


def _endpoint_slice(obj: Obj, now: datetime) -> list[Any]:
    return [
        obj["metadata"].get("name", ""),
        obj.get("addressType", ""),
        shortened(_slice_port(port) for port in obj.get("ports") or ()),
        shortened(a for e in obj.get("endpoints") or () for a in e.get("addresses") or ()),
        born(obj, now),
    ]


def _slice_port(port: Obj) -> str:
    if (number := port.get("port")) is not None:
        return str(number)
    name = port.get("name")
    return "*" if name is None else str(name)


def _ingress(obj: Obj, now: datetime) -> list[Any]:
    spec = obj.get("spec") or {}
    name = spec.get("ingressClassName")
    return [
        obj["metadata"].get("name", ""),
        NONE if name is None else name,
        _hosts(spec.get("rules") or []),
        _balancer(obj.get("status") or {}),
        "80, 443" if spec.get("tls") else "80",
        born(obj, now),
    ]


def _hosts(rules: list[Obj]) -> str:
    """Three hosts at most; the rest is counted in rules, even those without a host."""
    shown: list[str] = []
    for rule in rules:
        if len(shown) == _SHOWN:
            return f"{','.join(shown)} + {len(rules) - _SHOWN} more..."
        if host := rule.get("host"):
            shown.append(host)
    return ",".join(shown) or "*"


def _ingress_class(obj: Obj, now: datetime) -> list[Any]:
    meta, spec = obj["metadata"], obj.get("spec") or {}
    name = meta.get("name", "")
    if (meta.get("annotations") or {}).get(_DEFAULT_CLASS) == "true":
        name += " (default)"
    parameters, text = spec.get("parameters"), NONE
    if parameters:
        group = parameters.get("apiGroup")
        kind = parameters["kind"] if group is None else f"{parameters['kind']}.{group}"
        text = f"{kind}/{parameters['name']}"
    return [name, spec.get("controller", ""), text, born(obj, now)]


def _network_policy(obj: Obj, now: datetime) -> list[Any]:
    pods = selector((obj.get("spec") or {}).get("podSelector"))
    return [obj["metadata"].get("name", ""), pods or NONE, born(obj, now)]


def _service_cidr(obj: Obj, now: datetime) -> list[Any]:
    cidrs = (obj.get("spec") or {}).get("cidrs") or ()
    return [obj["metadata"].get("name", ""), ",".join(cidrs), born(obj, now)]


def _ip_address(obj: Obj, now: datetime) -> list[Any]:
    """One cell more than there are columns: Kubernetes sends the age without announcing it."""
    parent, text = (obj.get("spec") or {}).get("parentRef"), NONE
    if parent:
        group = parent.get("group")
        resource = parent.get("resource", "")
        words = [f"{resource}.{group}".lower() if group else resource.lower()]
        if parent.get("namespace"):
            words.append(parent["namespace"])
        text = "/".join((*words, parent.get("name", "")))
    return [obj["metadata"].get("name", ""), text, born(obj, now)]


ROWS: dict[tuple[str, str], Row] = {
    ("", "Service"): _service,
    ("", "Endpoints"): _endpoints,
    ("discovery.k8s.io", "EndpointSlice"): _endpoint_slice,
    ("networking.k8s.io", "Ingress"): _ingress,
    ("networking.k8s.io", "IngressClass"): _ingress_class,
    ("networking.k8s.io", "NetworkPolicy"): _network_policy,
    ("networking.k8s.io", "ServiceCIDR"): _service_cidr,
    ("networking.k8s.io", "IPAddress"): _ip_address,
}
