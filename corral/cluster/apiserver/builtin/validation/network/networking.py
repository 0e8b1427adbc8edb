"""NetworkPolicies, Ingresses, IngressClasses, IPAddresses and ServiceCIDRs."""

from __future__ import annotations

from collections.abc import Set

from corral.cluster.apiserver.builtin.validation.fields.addresses import (
    check_cidr,
    check_strict_cidr,
    check_strict_ip,
    is_ip,
    parse_cidr,
)
from corral.cluster.apiserver.builtin.validation.fields.errors import IMMUTABLE, Errors
from corral.cluster.apiserver.builtin.validation.fields.names import (
    Messages,
    dns_label,
    dns_subdomain,
    path_segment,
    port_name,
    port_number,
    wildcard_subdomain,
)
from corral.cluster.apiserver.builtin.validation.fields.prefixes import check_domain_prefixed_path
from corral.cluster.apiserver.builtin.validation.fields.rules import Kinds, Rules
from corral.cluster.apiserver.builtin.validation.fields.selectors import check_selector
from corral.cluster.apiserver.builtin.validation.network.services import check_load_balancer
from corral.kube.types import Obj

__all__ = ["KINDS"]

_PROTOCOLS = ("TCP", "UDP", "SCTP")
_INGRESS_CLASS = "kubernetes.io/ingress.class"
_GROUP = "networking.k8s.io"


def _check_policy_port(errs: Errors, port: Obj, path: str) -> None:
    protocol, number, end = port.get("protocol"), port.get("port"), port.get("endPort")
    if protocol is not None and protocol not in _PROTOCOLS:
        errs.not_supported(f"{path}.protocol", protocol, _PROTOCOLS)
    where = f"{path}.endPort"
    if number is None:
        if end is not None:
            errs.invalid(where, end, "may not be specified when `port` is not specified")
    elif isinstance(number, str):
        if end is not None:
            errs.invalid(where, end, "may not be specified when `port` is non-numeric")
        errs.format(f"{path}.port", number, port_name)
    else:
        errs.format(f"{path}.port", number, port_number)
        if end is not None:
            if end < number:
                errs.invalid(where, end, "must be greater than or equal to `port`")
            errs.format(where, end, port_number)


def _check_block(errs: Errors, block: Obj, path: str, known: Set[str]) -> None:
    cidr = block.get("cidr") or ""
    if not cidr:
        return
    check_cidr(errs, cidr, f"{path}.cidr", known)
    network = parse_cidr(cidr)
    if network is None:
        return
    for i, text in enumerate(block.get("except") or ()):
        where = f"{path}.except[{i}]"
        check_cidr(errs, text, where, known)
        hole = parse_cidr(text)
        if hole is None:
            continue
        inside = hole.version == network.version and hole.network_address in network
        if not inside or network.prefixlen >= hole.prefixlen:
            errs.invalid(where, text, "must be a strict subset of `cidr`")


def _check_peer(errs: Errors, peer: Obj, path: str, known: Set[str], late: Errors) -> None:
    count = 0
    for kind in ("podSelector", "namespaceSelector"):
        if peer.get(kind) is not None:
            count += 1
            check_selector(errs, peer[kind], f"{path}.{kind}")
    block = peer.get("ipBlock")
    if block is not None:
        count += 1
        _check_block(errs, block, f"{path}.ipBlock", known)
        if not block.get("cidr"):
            late.required(f"{path}.ipBlock.cidr")
    if count == 0:
        errs.required(path, "must specify a peer")
    elif count > 1 and block is not None:
        errs.forbidden(path, "may not specify both ipBlock and another peer")


def _check_policy(errs: Errors, spec: Obj, known: Set[str]) -> None:
    late = Errors()
    check_selector(errs, spec.get("podSelector"), "spec.podSelector")
    for direction, peers in (("ingress", "from"), ("egress", "to")):
        for i, rule in enumerate(spec.get(direction) or ()):
            path = f"spec.{direction}[{i}]"
            for j, port in enumerate(rule.get("ports") or ()):
                _check_policy_port(errs, port, f"{path}.ports[{j}]")
            for j, peer in enumerate(rule.get(peers) or ()):
                _check_peer(errs, peer, f"{path}.{peers}[{j}]", known, late)
    types = spec.get("policyTypes") or []
    if len(types) > 2:
        errs.invalid("spec.policyTypes", types, "may not specify more than two policyTypes")
    else:
        for i, kind in enumerate(types):
            if kind not in ("Ingress", "Egress"):
                errs.not_supported(f"spec.policyTypes[{i}]", kind, ("Ingress", "Egress"))
    errs.extend(late)


def validate_network_policy(errs: Errors, obj: Obj) -> None:
    _check_policy(errs, obj.get("spec") or {}, frozenset())


def _blocks(spec: Obj) -> set[str]:
    out: set[str] = set()
    for direction, peers in (("ingress", "from"), ("egress", "to")):
        for rule in spec.get(direction) or ():
            for peer in rule.get(peers) or ():
                if block := peer.get("ipBlock"):
                    out.update((block.get("cidr") or "", *(block.get("except") or ())))
    return out


def validate_network_policy_update(errs: Errors, new: Obj, old: Obj) -> None:
    _check_policy(errs, new.get("spec") or {}, _blocks(old.get("spec") or {}))


def _check_backend(errs: Errors, backend: Obj, path: str) -> None:
    resource, service = backend.get("resource"), backend.get("service")
    if resource is not None and service is not None:
        errs.invalid(path, "", "cannot set both resource and service backends")
    elif resource is not None:
        _check_reference(errs, resource, f"{path}.resource")
    elif service is not None:
        name = service.get("name") or ""
        if not name:
            errs.required(f"{path}.service.name")
        else:
            errs.format(f"{path}.service.name", name, dns_label)
        port = service.get("port") or {}
        named, number = port.get("name") or "", port.get("number") or 0
        if named and number:
            errs.invalid(path, "", "cannot set both port name & port number")
        elif named:
            errs.format(f"{path}.service.port.name", named, port_name)
        elif number:
            errs.format(f"{path}.service.port.number", number, port_number)
        else:
            errs.required(path, "port name or number is required")
    else:
        errs.invalid(path, "", "resource or service backend is required")


def _check_reference(errs: Errors, ref: Obj, path: str, *, needed: bool = True) -> None:
    group = ref.get("apiGroup")
    if group is not None:
        errs.format(f"{path}.apiGroup", group, dns_subdomain)
    for name in ("kind", "name"):
        value = ref.get(name) or ""
        if value:
            errs.format(f"{path}.{name}", value, path_segment)
        elif needed:
            errs.required(f"{path}.{name}")


def _check_path(errs: Errors, item: Obj, path: str) -> None:
    kind, target = item.get("pathType"), item.get("path") or ""
    if kind is None:
        errs.required(f"{path}.pathType", "pathType must be specified")
        return
    where = f"{path}.path"
    if kind in ("Exact", "Prefix"):
        if not target.startswith("/"):
            errs.invalid(where, target, "must be an absolute path")
        for part in ("//", "/./", "/../", "%2f", "%2F"):
            if part in target:
                errs.invalid(where, target, f"must not contain '{part}'")
        for end in ("/..", "/."):
            if target.endswith(end):
                errs.invalid(where, target, f"cannot end with '{end}'")
    elif kind == "ImplementationSpecific":
        if target and not target.startswith("/"):
            errs.invalid(where, target, "must be an absolute path")
    else:
        errs.not_supported(f"{path}.pathType", kind, ("Exact", "ImplementationSpecific", "Prefix"))
    _check_backend(errs, item.get("backend") or {}, f"{path}.backend")


def _host(host: str) -> Messages:
    return wildcard_subdomain(host) if "*" in host else dns_subdomain(host)


def _check_rule(errs: Errors, rule: Obj, path: str) -> None:
    if host := rule.get("host"):
        if is_ip(host):
            errs.invalid(f"{path}.host", host, "must be a DNS name, not an IP address")
        errs.format(f"{path}.host", host, _host)
    http = rule.get("http")
    if http is None:
        return
    paths = http.get("paths") or ()
    if not paths:
        errs.required(f"{path}.http.paths")
    for i, item in enumerate(paths):
        _check_path(errs, item, f"{path}.http.paths[{i}]")


def _check_ingress(errs: Errors, spec: Obj) -> None:
    rules, backend = spec.get("rules") or (), spec.get("defaultBackend")
    if not rules and backend is None:
        why = "either `defaultBackend` or `rules` must be specified"
        errs.invalid("spec", spec.get("rules"), why)
    if backend is not None:
        _check_backend(errs, backend, "spec.defaultBackend")
    for i, rule in enumerate(rules):
        _check_rule(errs, rule, f"spec.rules[{i}]")
    for i, tls in enumerate(spec.get("tls") or ()):
        for j, host in enumerate(tls.get("hosts") or ()):
            errs.format(f"spec.tls[{i}].hosts[{j}]", host, _host)
        if secret := tls.get("secretName"):
            errs.format(f"spec.tls[{i}].secretName", secret, dns_subdomain)
    name = spec.get("ingressClassName")
    if name is not None:
        errs.format("spec.ingressClassName", name, dns_subdomain)


def validate_ingress(errs: Errors, obj: Obj) -> None:
    spec = obj.get("spec") or {}
    _check_ingress(errs, spec)
    annotated = ((obj.get("metadata") or {}).get("annotations") or {}).get(_INGRESS_CLASS)
    name = spec.get("ingressClassName")
    if annotated is not None and name is not None and annotated != name:
        why = "must match `ingressClassName` when both are specified"
        errs.invalid(f"annotations.{_INGRESS_CLASS}", annotated, why)


def validate_ingress_update(errs: Errors, new: Obj, old: Obj) -> None:
    _check_ingress(errs, new.get("spec") or {})


def validate_ingress_status(errs: Errors, new: Obj, old: Obj) -> None:
    after = (new.get("status") or {}).get("loadBalancer") or {}
    before = (old.get("status") or {}).get("loadBalancer") or {}
    check_load_balancer(errs, after, before, ip_mode=False)


def _check_class(errs: Errors, spec: Obj) -> None:
    controller = spec.get("controller") or ""
    if len(controller) > 250:
        errs.too_long("spec.controller", 250)
    check_domain_prefixed_path(errs, controller, "spec.controller")
    params, path = spec.get("parameters"), "spec.parameters"
    if params is None:
        return
    _check_reference(errs, params, path, needed=False)
    scope, namespace = params.get("scope"), params.get("namespace")
    if scope is None:
        errs.required(f"{path}.scope")
    elif scope not in ("Cluster", "Namespace"):
        errs.not_supported(f"{path}.scope", scope, ("Cluster", "Namespace"))
    elif scope == "Namespace":
        if namespace is None:
            errs.required(f"{path}.namespace", "`parameters.scope` is set to 'Namespace'")
        else:
            errs.format(f"{path}.namespace", namespace, dns_label)
    elif namespace is not None:
        errs.forbidden(f"{path}.namespace", "`parameters.scope` is set to 'Cluster'")
    for name in ("kind", "name"):
        if not params.get(name):
            errs.required(f"{path}.{name}")


def validate_ingress_class(errs: Errors, obj: Obj) -> None:
    _check_class(errs, obj.get("spec") or {})


def validate_ingress_class_update(errs: Errors, new: Obj, old: Obj) -> None:
    after, before = new.get("spec") or {}, old.get("spec") or {}
    errs.immutable("spec.controller", after.get("controller"), before.get("controller"))
    _check_class(errs, after)


def ip_address_name(name: str, is_prefix: bool = False) -> Messages:
    """The name of an IPAddress is the address, in canonical form."""
    errs = Errors()
    check_strict_ip(errs, name, "")
    lead = "Invalid value: "
    return [e.body[len(lead) :].partition(": ")[2] for e in errs]


def validate_ip_address(errs: Errors, obj: Obj) -> None:
    ref, path = (obj.get("spec") or {}).get("parentRef"), "spec.parentRef"
    if ref is None:
        errs.required(path)
        return
    if group := ref.get("group"):
        errs.format(f"{path}.group", group, dns_subdomain)
    for name in ("resource", "name", "namespace"):
        if value := ref.get(name):
            errs.format(f"{path}.{name}", value, path_segment)
    for name in ("resource", "name"):
        if not ref.get(name):
            errs.required(f"{path}.{name}")


def validate_ip_address_update(errs: Errors, new: Obj, old: Obj) -> None:
    after, before = (o.get("spec") or {} for o in (new, old))
    errs.immutable_beta("spec.parentRef", after.get("parentRef"), before.get("parentRef"))


def validate_service_cidr(errs: Errors, obj: Obj) -> None:
    cidrs, path = (obj.get("spec") or {}).get("cidrs") or [], "spec.cidrs"
    if not cidrs:
        errs.required(path, "at least one CIDR required")
        return
    if len(cidrs) > 2:
        errs.invalid(path, {"CIDRs": cidrs}, "may only hold up to 2 values")
        return
    for i, cidr in enumerate(cidrs):
        check_strict_cidr(errs, cidr, f"{path}[{i}]")
    blocks = [parse_cidr(c) for c in cidrs]
    if len(blocks) == 2 and blocks[0] and blocks[1] and blocks[0].version == blocks[1].version:
        why = (
            "may specify no more than one IP for each IP family, i.e 192.168.0.0/24 and "
            "2001:db8::/64"
        )
        errs.invalid(path, cidrs, why)


def validate_service_cidr_update(errs: Errors, new: Obj, old: Obj) -> None:
    after = (new.get("spec") or {}).get("cidrs") or []
    before = (old.get("spec") or {}).get("cidrs") or []
    if len(after) == len(before) or (len(before) == 1 and len(after) == 2):
        for i, cidr in enumerate(before):
            if after[i] != cidr:
                errs.invalid(f"spec.cidrs[{i}]", after[i], IMMUTABLE)
        if len(after) > len(before):
            validate_service_cidr(errs, new)
    else:
        errs.invalid("spec.cidrs", after, IMMUTABLE)


KINDS: Kinds = {
    (_GROUP, "NetworkPolicy"): Rules(validate_network_policy, validate_network_policy_update),
    (_GROUP, "Ingress"): Rules(validate_ingress, validate_ingress_update, validate_ingress_status),
    (_GROUP, "IngressClass"): Rules(
        validate_ingress_class, validate_ingress_class_update, namespaced=False),
    (_GROUP, "IPAddress"): Rules(
        validate_ip_address, validate_ip_address_update, name=ip_address_name, namespaced=False),
    (_GROUP, "ServiceCIDR"): Rules(
        validate_service_cidr, validate_service_cidr_update, namespaced=False),
}  # fmt: skip
