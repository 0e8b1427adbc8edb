"""ConfigMaps, Secrets, Namespaces, Nodes, quotas, limit ranges, Endpoints and Events."""

from __future__ import annotations

import base64
import binascii
from typing import Any

import orjson

from corral.cluster.apiserver.builtin.validation.fields.addresses import (
    check_cidr,
    check_endpoint_ip,
    check_ip,
    dual_stack,
)
from corral.cluster.apiserver.builtin.validation.fields.errors import Errors, same
from corral.cluster.apiserver.builtin.validation.fields.meta import check_finalizers
from corral.cluster.apiserver.builtin.validation.fields.names import (
    config_map_key,
    dns_label,
    dns_subdomain,
    name_is_label,
    port_number,
    qualified_name,
)
from corral.cluster.apiserver.builtin.validation.fields.rules import Kinds, Rules, again
from corral.cluster.apiserver.builtin.validation.pods.resources import check_amount
from corral.cluster.apiserver.builtin.validation.pods.scheduling import check_taints
from corral.kube.types import Obj

__all__ = ["KINDS"]

_MIB = 1024 * 1024
_IMMUTABLE_SET = "field is immutable when `immutable` is set"
_ACCOUNT_NAME = "kubernetes.io/service-account.name"


def _size(value: str) -> int:
    return len(value) if value.isascii() else len(value.encode())


def _decoded_size(value: str) -> int:
    return len(value) * 3 // 4 - value[-2:].count("=") if value else 0


def validate_config_map(errs: Errors, obj: Obj) -> None:
    data, binary = obj.get("data"), obj.get("binaryData")
    size = 0
    if data:
        for key, value in data.items():
            if found := config_map_key(key):
                errs.invalid_each(f"data[{key}]", key, found)
            if binary and key in binary:
                errs.invalid(f"data[{key}]", key, "duplicate of key present in binaryData")
            size += _size(value)
    if binary:
        for key, value in binary.items():
            if found := config_map_key(key):
                errs.invalid_each(f"binaryData[{key}]", key, found)
            size += _decoded_size(value)
    if size > _MIB:
        # The API reports this on an empty path, which it prints so.
        errs.too_long("[]", _MIB)


def _check_immutable(errs: Errors, new: Obj, old: Obj, *names: str) -> None:
    if not old.get("immutable"):
        return
    if not new.get("immutable"):
        errs.forbidden("immutable", _IMMUTABLE_SET)
    for name in names:
        if not same(new.get(name), old.get(name)):
            errs.forbidden(name, _IMMUTABLE_SET)


def validate_config_map_update(errs: Errors, new: Obj, old: Obj) -> None:
    _check_immutable(errs, new, old, "data", "binaryData")
    validate_config_map(errs, new)


_NEEDED = {
    "kubernetes.io/dockercfg": (".dockercfg",),
    "kubernetes.io/dockerconfigjson": (".dockerconfigjson",),
    "kubernetes.io/tls": ("tls.crt", "tls.key"),
}


def _json_problem(encoded: str) -> str:
    """Why the decoded value is no JSON object, in the words of the API's parser."""
    try:
        text = base64.b64decode(encoded)
        value = orjson.loads(text)
    except (binascii.Error, orjson.JSONDecodeError):
        return _syntax_problem(encoded)
    if isinstance(value, dict) or value is None:
        return ""
    kind = {str: "string", list: "array", bool: "bool"}.get(type(value), "number")
    return f"json: cannot unmarshal {kind} into Go value of type map[string]interface {{}}"


def _syntax_problem(encoded: str) -> str:
    text = base64.b64decode(encoded + "==").decode(errors="replace").strip()
    if not text or text[0] in '{["' or text in "truefalsenull":
        return "unexpected end of JSON input"
    return f"invalid character {text[0]!r} looking for beginning of value"


def validate_secret(errs: Errors, obj: Obj) -> None:
    data: dict[str, str] = obj.get("data") or {}
    size = 0
    for key, value in data.items():
        if found := config_map_key(key):
            errs.invalid_each(f"data[{key}]", key, found)
        size += _decoded_size(value)
    if size > _MIB:
        errs.too_long("data", _MIB)
    kind = obj.get("type") or ""
    for key in _NEEDED.get(kind, ()):
        if key not in data:
            errs.required(f"data[{key}]")
        elif key.startswith(".docker") and (why := _json_problem(data[key])):
            errs.invalid(f"data[{key}]", "<secret contents redacted>", why)
    if kind == "kubernetes.io/service-account-token":
        annotations = (obj.get("metadata") or {}).get("annotations") or {}
        if not annotations.get(_ACCOUNT_NAME):
            errs.required(f"metadata.annotations[{_ACCOUNT_NAME}]")
    elif kind == "kubernetes.io/basic-auth":
        if "username" not in data and "password" not in data:
            errs.required("data[username]")
            errs.required("data[password]")
    elif kind == "kubernetes.io/ssh-auth" and not data.get("ssh-privatekey"):
        errs.required("data[ssh-privatekey]")


def validate_secret_update(errs: Errors, new: Obj, old: Obj) -> None:
    errs.immutable("type", new.get("type") or "", old.get("type") or "")
    _check_immutable(errs, new, old, "data")
    validate_secret(errs, new)


def validate_namespace(errs: Errors, obj: Obj) -> None:
    finalizers = (obj.get("spec") or {}).get("finalizers") or []
    for name in finalizers:
        check_finalizers(errs, [name], "spec.finalizers")
        if "/" not in name and name not in ("kubernetes", "orphan", "foregroundDeletion"):
            why = "name is neither a standard finalizer name nor is it fully qualified"
            errs.invalid("spec.finalizers", name, why)


def validate_namespace_status(errs: Errors, new: Obj, old: Obj) -> None:
    phase = (new.get("status") or {}).get("phase") or ""
    if (new.get("metadata") or {}).get("deletionTimestamp") is None:
        if phase != "Active":
            why = "may only be 'Active' if `deletionTimestamp` is empty"
            errs.invalid("status.Phase", phase, why)
    elif phase != "Terminating":
        why = "may only be 'Terminating' if `deletionTimestamp` is not empty"
        errs.invalid("status.Phase", phase, why)


def _check_node_resources(errs: Errors, status: Obj) -> None:
    for kind in ("capacity", "allocatable"):
        for name, amount in (status.get(kind) or {}).items():
            check_amount(errs, name, amount, f"status.{kind}.{name}")


def validate_node(errs: Errors, obj: Obj) -> None:
    spec, status = obj.get("spec") or {}, obj.get("status") or {}
    if taints := spec.get("taints"):
        check_taints(errs, taints, "metadata.taints")
    _check_node_resources(errs, status)
    cidrs = spec.get("podCIDRs") or []
    for i, cidr in enumerate(cidrs):
        check_cidr(errs, cidr, f"spec.podCIDRs[{i}]")
    if len(cidrs) > 1 and (not dual_stack(cidrs) or len(cidrs) > 2):
        errs.invalid("spec.podCIDRs", cidrs, "may specify no more than one CIDR for each IP family")


def validate_node_update(errs: Errors, new: Obj, old: Obj) -> None:
    after, before = new.get("spec") or {}, old.get("spec") or {}
    status = new.get("status") or {}
    _check_node_resources(errs, status)
    seen: set[frozenset[tuple[str, Any]]] = set()
    for i, address in enumerate(status.get("addresses") or ()):
        key = frozenset(address.items())
        if key in seen:
            shown = {"Type": address.get("type"), "Address": address.get("address")}
            errs.duplicate(f"status.addresses[{i}]", shown)
        seen.add(key)
    cidrs, old_cidrs = after.get("podCIDRs") or [], before.get("podCIDRs") or []
    if old_cidrs and cidrs != old_cidrs:
        why = 'node updates may not change podCIDR except from "" to valid'
        errs.forbidden("spec.podCIDRs", why)
    provider, old_provider = after.get("providerID") or "", before.get("providerID") or ""
    if old_provider and provider != old_provider:
        why = (
            "field cannot be modified once set" if provider else "field cannot be cleared once set"
        )
        errs.invalid("spec.providerID", None, why)
    if taints := after.get("taints"):
        check_taints(errs, taints, "metadata.taints")


def _check_address(errs: Errors, address: Obj, path: str) -> None:
    ip = address.get("ip") or ""
    check_ip(errs, ip, f"{path}.ip")
    if name := address.get("hostname"):
        errs.format(f"{path}.hostname", name, dns_label)
    node = address.get("nodeName")
    if node is not None:
        errs.format(f"{path}.nodeName", node, dns_subdomain)
    check_endpoint_ip(errs, ip, f"{path}.ip")


def _check_endpoint_port(errs: Errors, port: Obj, path: str, need_name: bool) -> None:
    name = port.get("name") or ""
    if name:
        errs.format(f"{path}.name", name, dns_label)
    elif need_name:
        errs.required(f"{path}.name")
    number = port.get("port") or 0
    errs.format(f"{path}.port", number, port_number)
    errs.one_of(f"{path}.protocol", port.get("protocol"), ("SCTP", "TCP", "UDP"))
    protocol = port.get("appProtocol")
    if protocol is not None:
        errs.format(f"{path}.appProtocol", protocol, qualified_name)


def validate_endpoints(errs: Errors, obj: Obj) -> None:
    for i, subset in enumerate(obj.get("subsets") or ()):
        path = f"subsets[{i}]"
        if not subset.get("addresses") and not subset.get("notReadyAddresses"):
            errs.required(path, "must specify `addresses` or `notReadyAddresses`")
        for kind in ("addresses", "notReadyAddresses"):
            for j, address in enumerate(subset.get(kind) or ()):
                _check_address(errs, address, f"{path}.{kind}[{j}]")
        ports = subset.get("ports") or ()
        for j, port in enumerate(ports):
            _check_endpoint_port(errs, port, f"{path}.ports[{j}]", len(ports) > 1)


def validate_endpoints_update(errs: Errors, new: Obj, old: Obj) -> None:
    if not same(new.get("subsets"), old.get("subsets")):
        validate_endpoints(errs, new)


KINDS: Kinds = {
    ("", "Namespace"): Rules(
        validate_namespace, again(validate_namespace), validate_namespace_status,
        name_is_label, False),
    ("", "Node"): Rules(
        validate_node, validate_node_update, validate_node_update, namespaced=False),
    ("", "ConfigMap"): Rules(validate_config_map, validate_config_map_update),
    ("", "Secret"): Rules(validate_secret, validate_secret_update),
    ("", "ServiceAccount"): Rules(),
    ("", "Endpoints"): Rules(validate_endpoints, validate_endpoints_update),
}  # fmt: skip
