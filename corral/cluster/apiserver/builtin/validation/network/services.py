"""Services: ports, addresses, traffic policies, and what each type allows."""

from __future__ import annotations

from corral.cluster.apiserver.builtin.validation.fields.addresses import (
    check_cidr,
    check_endpoint_ip,
    check_ip,
    dual_stack,
    is_ip,
    parse_ip,
)
from corral.cluster.apiserver.builtin.validation.fields.errors import Errors
from corral.cluster.apiserver.builtin.validation.fields.meta import check_labels
from corral.cluster.apiserver.builtin.validation.fields.names import (
    dns_label,
    dns_subdomain,
    name_is_label,
    port_number,
    qualified_name,
)
from corral.cluster.apiserver.builtin.validation.fields.rules import Kinds, Rules
from corral.cluster.apiserver.builtin.validation.pods.probes import check_port
from corral.kube.types import Obj

__all__ = ["KINDS", "check_load_balancer"]

PROTOCOLS = ("SCTP", "TCP", "UDP")
_TYPES = ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort")
_FAMILIES = ("IPv4", "IPv6")
_FAMILY_POLICIES = ("PreferDualStack", "RequireDualStack", "SingleStack")
_DISTRIBUTIONS = ("PreferClose", "PreferSameZone", "PreferSameNode")
_ONLY_LB = "may only be used when `type` is 'LoadBalancer'"
_RANGES = "service.beta.kubernetes.io/load-balancer-source-ranges"
_HINTS = "service.kubernetes.io/topology-aware-hints"
_MODE = "service.kubernetes.io/topology-mode"


def _headless(spec: Obj) -> bool:
    return bool((spec.get("clusterIPs") or ()) == ["None"])


def _check_type(errs: Errors, spec: Obj) -> None:
    kind = spec.get("type")
    if kind in ("LoadBalancer", "NodePort") and _headless(spec):
        errs.invalid("spec.clusterIPs[0]", "None", f"may not be set to 'None' for {kind} services")
    if kind != "ExternalName":
        return
    why = "may not be set for ExternalName services"
    for name in ("clusterIPs", "ipFamilies"):
        if spec.get(name):
            errs.forbidden(f"spec.{name}", why)
    if spec.get("ipFamilyPolicy") is not None:
        errs.forbidden("spec.ipFamilyPolicy", why)
    target = (spec.get("externalName") or "").removesuffix(".")
    if target:
        errs.format("spec.externalName", target, dns_subdomain)
    else:
        errs.required("spec.externalName")


def _check_port(errs: Errors, port: Obj, path: str, names: set[str], need_name: bool) -> None:
    name = port.get("name") or ""
    if name:
        if found := dns_label(name):
            errs.invalid_each(f"{path}.name", name, found)
        if name in names:
            errs.duplicate(f"{path}.name", name)
        names.add(name)
    elif need_name:
        errs.required(f"{path}.name")
    number = port.get("port") or 0
    if found := port_number(number):
        errs.invalid_each(f"{path}.port", number, found)
    if port.get("protocol") not in PROTOCOLS:
        errs.one_of(f"{path}.protocol", port.get("protocol"), PROTOCOLS)
    check_port(errs, port.get("targetPort", 0), f"{path}.targetPort")
    protocol = port.get("appProtocol")
    if protocol is not None:
        errs.format(f"{path}.appProtocol", protocol, qualified_name)


def _check_ports_unique(errs: Errors, spec: Obj, ports: list[Obj]) -> None:
    if spec.get("type") == "ClusterIP":
        for i, port in enumerate(ports):
            if port.get("nodePort"):
                why = "may not be used when `type` is 'ClusterIP'"
                errs.forbidden(f"spec.ports[{i}].nodePort", why)
    if len(ports) < 2:
        return
    nodes: set[tuple[str, int]] = set()
    for i, port in enumerate(ports):
        key = (port.get("protocol") or "", port.get("nodePort") or 0)
        if key[1] and key in nodes:
            errs.duplicate(f"spec.ports[{i}].nodePort", key[1])
        nodes.add(key)
    seen: set[tuple[str, int]] = set()
    for i, port in enumerate(ports):
        key = (port.get("protocol") or "", port.get("port") or 0)
        if key in seen:
            shown = {
                "Name": "",
                "Protocol": key[0],
                "AppProtocol": None,
                "Port": key[1],
                "TargetPort": 0,
                "NodePort": 0,
            }
            errs.duplicate(f"spec.ports[{i}]", shown)
        seen.add(key)


def _check_affinity(errs: Errors, spec: Obj) -> None:
    affinity, config = spec.get("sessionAffinity") or "", spec.get("sessionAffinityConfig")
    errs.one_of("spec.sessionAffinity", affinity, ("ClientIP", "None"))
    path = "spec.sessionAffinityConfig"
    if affinity == "None" and config is not None:
        errs.forbidden(path, "must not be set when session affinity is None")
    if affinity != "ClientIP":
        return
    why = "when session affinity type is ClientIP"
    if config is None:
        errs.required(path, why)
    elif config.get("clientIP") is None:
        errs.required(f"{path}.clientIP", why)
    elif (seconds := config["clientIP"].get("timeoutSeconds")) is None:
        errs.required(f"{path}.clientIP.timeoutSeconds", why)
    elif not 0 < seconds <= 86400:
        why = "must be greater than 0 and less than 86400"
        errs.invalid(f"{path}.clientIP.timeoutSeconds", seconds, why)


def _check_families(errs: Errors, spec: Obj) -> None:
    seen: set[str] = set()
    for i, family in enumerate(spec.get("ipFamilies") or ()):
        if family not in _FAMILIES:
            errs.not_supported(f"spec.ipFamilies[{i}]", family, _FAMILIES)
        if family in seen:
            errs.duplicate(f"spec.ipFamilies[{i}]", family)
        seen.add(family)
    policy = spec.get("ipFamilyPolicy")
    if policy is not None and policy not in _FAMILY_POLICIES:
        errs.not_supported("spec.ipFamilyPolicy", policy, _FAMILY_POLICIES)


def _check_cluster_ips(errs: Errors, spec: Obj, old: Obj) -> None:
    path = "spec.clusterIPs"
    first, ips = spec.get("clusterIP") or "", spec.get("clusterIPs") or []
    if first and not ips:
        errs.required(path)
    elif first and ips[0] != first:
        errs.invalid(path, ips, "first value must match `clusterIP`")
    elif not first and ips:
        errs.invalid(path, ips, "must be empty when `clusterIP` is not specified")
    _check_families(errs, spec)
    known, sound = frozenset(old.get("clusterIPs") or ()), True
    for i, ip in enumerate(ips):
        before = len(errs)
        if i == 0 and ip == "None":
            if len(ips) > 1:
                errs.invalid(path, ips, "'None' must be the first and only value")
        else:
            check_ip(errs, ip, f"{path}[{i}]", known)
        sound = sound and len(errs) == before
    if len(ips) > 2:
        errs.invalid(path, ips, "may only hold up to 2 values")
    if not sound:
        return
    if len(ips) > 1 and not dual_stack(ips):
        errs.invalid(path, ips, "may specify no more than one IP for each IP family")
    if not _headless(spec):
        for i, (ip, family) in enumerate(zip(ips, spec.get("ipFamilies") or (), strict=False)):
            found = parse_ip(ip)
            if found is not None and family in _FAMILIES and family != f"IPv{found.version}":
                why = f"expected an {family} value as indicated by `ipFamilies[{i}]`"
                errs.invalid(f"{path}[{i}]", ip, why)


def _check_source_ranges(errs: Errors, obj: Obj, spec: Obj, old: Obj) -> None:
    ranges, is_lb = spec.get("loadBalancerSourceRanges"), spec.get("type") == "LoadBalancer"
    annotations = (obj.get("metadata") or {}).get("annotations") or {}
    if ranges:
        path = "spec.LoadBalancerSourceRanges"
        if not is_lb:
            errs.forbidden(path, _ONLY_LB)
        known = {r.strip() for r in old.get("loadBalancerSourceRanges") or ()}
        for i, value in enumerate(ranges):
            check_cidr(errs, value.strip(), f"{path}[{i}]", known)
    elif _RANGES in annotations:
        path = f"metadata.annotations[{_RANGES}]"
        if not is_lb:
            errs.forbidden(path, _ONLY_LB)
        for value in filter(None, annotations[_RANGES].strip().split(",")):
            check_cidr(errs, value.strip(), path)


def _check_traffic(errs: Errors, spec: Obj) -> None:
    kind, policy = spec.get("type"), spec.get("externalTrafficPolicy") or ""
    external = kind in ("LoadBalancer", "NodePort") or (
        kind == "ClusterIP" and spec.get("externalIPs")
    )
    where = "spec.externalTrafficPolicy"
    if not external:
        if policy:
            errs.invalid(where, policy, "may only be set for externally-accessible services")
    else:
        errs.one_of(where, policy, ("Cluster", "Local"))
    port, where = spec.get("healthCheckNodePort") or 0, "spec.healthCheckNodePort"
    if kind != "LoadBalancer" or policy != "Local":
        if port:
            why = (
                "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is "
                "'Local'"
            )
            errs.invalid(where, port, why)
    elif not port:
        errs.required(where)
    else:
        errs.format(where, port, port_number)
    internal = spec.get("internalTrafficPolicy")
    if internal is None and kind in ("NodePort", "LoadBalancer", "ClusterIP"):
        errs.required("spec.internalTrafficPolicy")
    elif internal is not None and internal not in ("Cluster", "Local"):
        errs.not_supported("spec.internalTrafficPolicy", internal, ("Cluster", "Local"))
    spread = spec.get("trafficDistribution")
    if spread is not None and spread not in _DISTRIBUTIONS:
        errs.not_supported("spec.trafficDistribution", spread, _DISTRIBUTIONS)


def _check_lb_class(errs: Errors, spec: Obj) -> None:
    name = spec.get("loadBalancerClass")
    if name is None:
        return
    if spec.get("type") == "LoadBalancer":
        errs.format("spec.loadBalancerClass", name, qualified_name)
    else:
        errs.forbidden("spec.loadBalancerClass", _ONLY_LB)


def _check(errs: Errors, obj: Obj, old: Obj) -> None:
    spec = obj.get("spec") or {}
    annotations = (obj.get("metadata") or {}).get("annotations") or {}
    if _MODE in annotations and _HINTS in annotations and annotations[_MODE] != annotations[_HINTS]:
        why = f"must match annotations[{_HINTS}] when both are specified"
        errs.invalid(f"metadata.annotations[{_MODE}]", annotations[_MODE], why)
    ports = spec.get("ports") or []
    if not ports and not _headless(spec) and spec.get("type") != "ExternalName":
        errs.required("spec.ports")
    _check_type(errs, spec)
    names: set[str] = set()
    for i, port in enumerate(ports):
        _check_port(errs, port, f"spec.ports[{i}]", names, len(ports) > 1)
    if selector := spec.get("selector"):
        check_labels(errs, selector, "spec.selector")
    _check_affinity(errs, spec)
    known = frozenset(old.get("externalIPs") or ())
    for i, ip in enumerate(spec.get("externalIPs") or ()):
        before = len(errs)
        check_ip(errs, ip, f"spec.externalIPs[{i}]", known)
        if len(errs) == before:
            check_endpoint_ip(errs, ip, f"spec.externalIPs[{i}]")
    errs.one_of("spec.type", spec.get("type"), _TYPES)
    _check_ports_unique(errs, spec, ports)
    _check_source_ranges(errs, obj, spec, old)
    allocate, is_lb = spec.get("allocateLoadBalancerNodePorts"), spec.get("type") == "LoadBalancer"
    if allocate is not None and not is_lb:
        errs.forbidden("spec.allocateLoadBalancerNodePorts", _ONLY_LB)
    if allocate is None and is_lb:
        errs.required("allocateLoadBalancerNodePorts")
    _check_lb_class(errs, spec)
    _check_traffic(errs, spec)


def _stopped_by_addresses(errs: Errors, spec: Obj, old: Obj) -> bool:
    """Addresses are looked at before anything else is: what is wrong there stands alone."""
    found = Errors()
    if spec.get("type") != "ExternalName":
        _check_cluster_ips(found, spec, old)
    if found:
        errs[:] = found
    return bool(found)


def validate_service(errs: Errors, obj: Obj) -> None:
    if not _stopped_by_addresses(errs, obj.get("spec") or {}, {}):
        _check(errs, obj, {})


def _check_ip_changes(errs: Errors, new: Obj, old: Obj) -> None:
    after, before = new.get("clusterIPs") or [], old.get("clusterIPs") or []
    if _headless(old) and _headless(new):
        return
    fixed = "may not change once set"
    if len(after) == len(before):
        for i, ip in enumerate(before):
            if after[i] != ip:
                errs.invalid(f"spec.clusterIPs[{i}]", after, fixed)
        return
    if len(before) > len(after) and not after:
        errs.invalid("spec.clusterIPs[0]", None, "primary clusterIP can not be unset")
    if before and after and after[0] != before[0]:
        errs.invalid("spec.clusterIPs[0]", after, fixed)
    if len(before) > len(after) == 1 and new.get("ipFamilyPolicy") != "SingleStack":
        why = "must be set to 'SingleStack' when releasing the secondary clusterIP"
        errs.invalid("spec.ipFamilyPolicy", new.get("ipFamilyPolicy"), why)


def _check_family_changes(errs: Errors, new: Obj, old: Obj) -> None:
    after, before = new.get("ipFamilies") or [], old.get("ipFamilies") or []
    if _headless(new) or _headless(old):
        return
    fixed, path = "may not change once set", "spec.ipFamilies[0]"
    if len(after) == len(before):
        for i, family in enumerate(before):
            if after[i] != family:
                errs.invalid(path, after, fixed)
        return
    ips = new.get("clusterIPs") or []
    if len(before) > len(after) and not ips:
        errs.invalid(path, after or None, "primary ipFamily can not be unset")
    if before and after and after[0] != before[0]:
        errs.invalid(path, ips, fixed)
    if len(before) > len(after) == 1 and new.get("ipFamilyPolicy") != "SingleStack":
        why = "must be set to 'SingleStack' when releasing the secondary ipFamily"
        errs.invalid("spec.ipFamilyPolicy", new.get("ipFamilyPolicy"), why)


def validate_service_update(errs: Errors, new: Obj, old: Obj) -> None:
    after, before = new.get("spec") or {}, old.get("spec") or {}
    if _stopped_by_addresses(errs, after, before):
        return
    if "ExternalName" not in (after.get("type"), before.get("type")):
        _check_ip_changes(errs, after, before)
        _check_family_changes(errs, after, before)
    both_lb = after.get("type") == before.get("type") == "LoadBalancer"
    name = after.get("loadBalancerClass")
    if both_lb and name != before.get("loadBalancerClass"):
        errs.invalid("spec.loadBalancerClass", name, "may not change once set")
    _check_lb_class(errs, after)
    local = after.get("externalTrafficPolicy") == before.get("externalTrafficPolicy") == "Local"
    port = "healthCheckNodePort"
    if both_lb and local and (after.get(port) or 0) != (before.get(port) or 0):
        errs.forbidden(f"spec.{port}", "field is immutable")
    _check(errs, new, before)


def check_load_balancer(errs: Errors, new: Obj, old: Obj, *, ip_mode: bool) -> None:
    """The ``status.loadBalancer`` of a service or an ingress."""
    known = {i.get("ip") or "" for i in old.get("ingress") or ()}
    for i, item in enumerate(new.get("ingress") or ()):
        path = f"status.loadBalancer.ingress[{i}]"
        ip, mode, host = item.get("ip") or "", item.get("ipMode"), item.get("hostname") or ""
        if ip:
            check_ip(errs, ip, f"{path}.ip", known)
        if ip_mode and mode is None:
            if ip:
                errs.required(f"{path}.ipMode", "must be specified when `ip` is set")
        elif ip_mode and not ip:
            errs.forbidden(f"{path}.ipMode", "may not be specified when `ip` is not set")
        elif ip_mode and mode not in ("Proxy", "VIP"):
            errs.not_supported(f"{path}.ipMode", mode, ("Proxy", "VIP"))
        if host:
            errs.format(f"{path}.hostname", host, dns_subdomain)
            if is_ip(host):
                errs.invalid(f"{path}.hostname", host, "must be a DNS name, not an IP address")


def validate_service_status(errs: Errors, new: Obj, old: Obj) -> None:
    after = (new.get("status") or {}).get("loadBalancer") or {}
    before = (old.get("status") or {}).get("loadBalancer") or {}
    if after.get("ingress") and (new.get("spec") or {}).get("type") != "LoadBalancer":
        why = "may only be used when `spec.type` is 'LoadBalancer'"
        errs.forbidden("status.loadBalancer.ingress", why)
        return
    check_load_balancer(errs, after, before, ip_mode=True)


KINDS: Kinds = {
    ("", "Service"): Rules(
        validate_service, validate_service_update, validate_service_status, name_is_label),
}  # fmt: skip
