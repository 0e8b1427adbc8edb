"""Endpoints and EndpointSlices."""

from __future__ import annotations

from corral.cluster.apiserver.builtin.validation.fields import check, names
from corral.cluster.apiserver.builtin.validation.fields.addresses import (
    check_endpoint_ip,
    check_ip,
    check_strict_ip,
)
from corral.cluster.apiserver.builtin.validation.fields.errors import Errors, same
from corral.cluster.apiserver.builtin.validation.fields.meta import check_labels
from corral.cluster.apiserver.builtin.validation.fields.prefixes import check_fqdn
from corral.cluster.apiserver.builtin.validation.fields.rules import (
    Kinds,
    Rules,
    changes,
    fixed,
    whole,
)
from corral.kube.types import Obj

__all__ = ["KINDS"]

_PROTOCOL = check.choice("SCTP", "TCP", "UDP")

# -- endpoints -------------------------------------------------------------------------------------

_ADDRESS = check.struct(
    check.always("ip", check_ip),
    check.optional("hostname", check.LABEL),
    check.pointer("nodeName", check.SUBDOMAIN),
    check.always("ip", check_endpoint_ip),
)
_PORT = check.struct(
    check.always("port", check.PORT, 0),
    check.needed("protocol", _PROTOCOL),
    check.pointer("appProtocol", check.QUALIFIED),
)
_NAMED_PORT = check.struct(check.needed("name", check.LABEL), _PORT)
_ONLY_PORT = check.struct(check.optional("name", check.LABEL), _PORT)


def _check_subset(errs: Errors, subset: Obj, path: str) -> None:
    if not subset.get("addresses") and not subset.get("notReadyAddresses"):
        errs.required(path, "must specify `addresses` or `notReadyAddresses`")
    check.always("addresses notReadyAddresses", check.each(_ADDRESS), ())(errs, subset, path)
    several = len(subset.get("ports") or ()) > 1
    check.items("ports", _NAMED_PORT if several else _ONLY_PORT)(errs, subset, path)


_ENDPOINTS = whole(check.items("subsets", _check_subset))


def _check_changed(errs: Errors, new: Obj, old: Obj) -> None:
    if not same(new.get("subsets"), old.get("subsets")):
        _ENDPOINTS(errs, new)


# -- slices ----------------------------------------------------------------------------------------


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
            rule = names.label_value if kind == "forZones" else names.dns_subdomain
            errs.format(where, name, rule)


_KIND = check.choice("FQDN", "IPv4", "IPv6")
_ENDPOINT = check.struct(
    check.pointer("nodeName", check.SUBDOMAIN),
    check.optional("deprecatedTopology", check.struct(check.fewer(16), check_labels)),
    check.pointer("hostname", check.LABEL),
    check.optional("hints", _check_hints),
)
_SOME_ADDRESSES = check.needed("addresses", check.fewer(100))


def _check_endpoint(errs: Errors, endpoint: Obj, kind: str, path: str) -> None:
    for i, text in enumerate(endpoint.get("addresses") or ()):
        _check_slice_address(errs, text, kind, f"{path}.addresses", i)
    _ENDPOINT(errs, endpoint, path)


_SLICE_PORT = check.struct(
    check.given("protocol", _PROTOCOL), check.pointer("appProtocol", check.QUALIFIED)
)


def _check_slice_ports(errs: Errors, ports: list[Obj]) -> None:
    if len(ports) > 20000:
        errs.too_many("ports", len(ports), 20000)
        return
    seen: set[str] = set()
    for i, port in enumerate(ports):
        name = port.get("name") or ""
        if name:
            errs.format(f"ports[{i}].name", name, names.dns_label)
        if name in seen:
            errs.duplicate(f"ports[{i}].name", name)
        seen.add(name)
        _SLICE_PORT(errs, port, f"ports[{i}]")


def _check_slice(errs: Errors, obj: Obj, old: Obj | None = None) -> None:
    kind, endpoints = obj.get("addressType") or "", obj.get("endpoints") or ()
    _check_slice_ports(errs, obj.get("ports") or [])
    changed = old is None or not same(endpoints, old.get("endpoints"))
    if changed and len(endpoints) > 1000:
        errs.too_many("endpoints", len(endpoints), 1000)
    elif changed:
        for i, endpoint in enumerate(endpoints):
            _check_endpoint(errs, endpoint, kind, f"endpoints[{i}]")
    check.needed("addressType", _KIND)(errs, obj, "")
    if changed and len(endpoints) <= 1000:
        check.items("endpoints", _SOME_ADDRESSES)(errs, obj, "")


KINDS: Kinds = {
    ("", "Endpoints"): Rules(_ENDPOINTS, _check_changed),
    ("discovery.k8s.io", "EndpointSlice"): Rules(
        _check_slice, changes(_check_slice, fixed("", "addressType", beta=True))),
}  # fmt: skip
