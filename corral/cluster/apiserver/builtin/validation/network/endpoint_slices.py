"""EndpointSlices."""

from __future__ import annotations

from corral.cluster.apiserver.builtin.validation.fields.addresses import (
    check_endpoint_ip,
    check_ip,
    check_strict_ip,
)
from corral.cluster.apiserver.builtin.validation.fields.errors import Errors, same
from corral.cluster.apiserver.builtin.validation.fields.meta import check_labels
from corral.cluster.apiserver.builtin.validation.fields.names import (
    dns_label,
    dns_subdomain,
    label_value,
    qualified_name,
)
from corral.cluster.apiserver.builtin.validation.fields.prefixes import check_fqdn
from corral.cluster.apiserver.builtin.validation.fields.rules import Kinds, Rules
from corral.kube.types import Obj

__all__ = ["KINDS"]

_PROTOCOLS = ("SCTP", "TCP", "UDP")


def _check_slice_address(errs: Errors, text: str, kind: str, path: str, index: int) -> None:
    where = f"{path}[{index}]"
    if kind == "FQDN":
        check_fqdn(errs, text, where)
        return
    if kind not in ("IPv4", "IPv6"):
        return
    before = len(errs)
    found = (check_ip if kind == "IPv4" else check_strict_ip)(errs, text, where)
    if len(errs) > before or found is None:
        return
    if f"IPv{found.version}" != kind:
        errs.invalid(path, text, f"must be an {kind} address")
    check_endpoint_ip(errs, text, where)


def _check_hints(errs: Errors, hints: Obj, path: str) -> None:
    for kind in ("forZones", "forNodes"):
        items = hints.get(kind) or ()
        if len(items) > 8:
            errs.too_many(f"{path}.{kind}", len(items), 8)
            return
        seen: set[str] = set()
        for i, item in enumerate(items):
            name, where = item.get("name") or "", f"{path}.{kind}[{i}].name"
            if name in seen:
                errs.duplicate(where, name)
            seen.add(name)
            rule = label_value if kind == "forZones" else dns_subdomain
            errs.format(where, name, rule)


def _check_endpoint(errs: Errors, endpoint: Obj, kind: str, path: str, late: Errors) -> None:
    addresses = endpoint.get("addresses") or ()
    where = f"{path}.addresses"
    if not addresses:
        late.required(where)
    elif len(addresses) > 100:
        late.too_many(where, len(addresses), 100)
    for i, text in enumerate(addresses):
        _check_slice_address(errs, text, kind, where, i)
    node = endpoint.get("nodeName")
    if node is not None:
        errs.format(f"{path}.nodeName", node, dns_subdomain)
    topology = endpoint.get("deprecatedTopology") or {}
    if len(topology) > 16:
        errs.too_many(f"{path}.deprecatedTopology", len(topology), 16)
    check_labels(errs, topology, f"{path}.deprecatedTopology")
    host = endpoint.get("hostname")
    if host is not None:
        errs.format(f"{path}.hostname", host, dns_label)
    if hints := endpoint.get("hints"):
        _check_hints(errs, hints, f"{path}.hints")


def _check_slice_ports(errs: Errors, ports: list[Obj]) -> None:
    if len(ports) > 20000:
        errs.too_many("ports", len(ports), 20000)
        return
    seen: set[str] = set()
    for i, port in enumerate(ports):
        name, protocol = port.get("name") or "", port.get("protocol")
        if name:
            errs.format(f"ports[{i}].name", name, dns_label)
        if name in seen:
            errs.duplicate(f"ports[{i}].name", name)
        seen.add(name)
        if protocol is None:
            errs.required(f"ports[{i}].protocol")
        elif protocol not in _PROTOCOLS:
            errs.not_supported(f"ports[{i}].protocol", protocol, _PROTOCOLS)
        app = port.get("appProtocol")
        if app is not None:
            errs.format(f"ports[{i}].appProtocol", app, qualified_name)


def _check_slice(errs: Errors, obj: Obj, old: Obj | None) -> None:
    kind = obj.get("addressType") or ""
    late = Errors()
    if not kind:
        late.required("addressType")
    elif kind not in ("IPv4", "IPv6", "FQDN"):
        late.not_supported("addressType", kind, ("FQDN", "IPv4", "IPv6"))
    _check_slice_ports(errs, obj.get("ports") or [])
    endpoints = obj.get("endpoints") or ()
    if old is None or not same(endpoints, old.get("endpoints")):
        if len(endpoints) > 1000:
            errs.too_many("endpoints", len(endpoints), 1000)
        else:
            for i, endpoint in enumerate(endpoints):
                _check_endpoint(errs, endpoint, kind, f"endpoints[{i}]", late)
    errs.extend(late)


def validate_endpoint_slice(errs: Errors, obj: Obj) -> None:
    _check_slice(errs, obj, None)


def validate_endpoint_slice_update(errs: Errors, new: Obj, old: Obj) -> None:
    _check_slice(errs, new, old)
    errs.immutable_beta("addressType", new.get("addressType"), old.get("addressType"))


KINDS: Kinds = {
    ("discovery.k8s.io", "EndpointSlice"): Rules(
        validate_endpoint_slice, validate_endpoint_slice_update),
}  # fmt: skip
