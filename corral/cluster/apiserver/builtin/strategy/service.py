"""Services: what a change of type takes with it, and the warnings about odd combinations."""

from __future__ import annotations

from corral.kube.types import Obj

from .base import Strategy, at
from .netwarnings import cidr_warnings, ip_warnings

__all__ = ["SERVICE", "needs_cluster_ip", "needs_health_check"]

_TOPOLOGY_HINTS = "service.kubernetes.io/topology-aware-hints"


def needs_cluster_ip(spec: Obj) -> bool:
    return spec.get("type") != "ExternalName"


def needs_health_check(spec: Obj) -> bool:
    """Whether the balancer must ask nodes if they serve the service locally."""
    return spec.get("type") == "LoadBalancer" and spec.get("externalTrafficPolicy") == "Local"


def _exposes_nodes(spec: Obj) -> bool:
    return spec.get("type") in ("NodePort", "LoadBalancer")


def _reachable(spec: Obj) -> bool:
    return _exposes_nodes(spec) or bool(spec.get("type") == "ClusterIP" and spec.get("externalIPs"))


def _node_ports(spec: Obj) -> set[int]:
    return {port["nodePort"] for port in spec.get("ports") or () if port.get("nodePort")}


class ServiceStrategy(Strategy):
    """Fields that only the old type used are dropped, unless the client changed them."""

    def prepare_create(self, obj: Obj) -> tuple[str, ...]:
        _drop_internal_policy(obj["spec"])
        return super().prepare_create(obj)

    def prepare_update(self, new: Obj, old: Obj) -> None:
        super().prepare_update(new, old)
        _drop_internal_policy(new["spec"])
        _drop_fields_of_old_type(new["spec"], old["spec"])
        if new["spec"].get("type") != "LoadBalancer":
            new["status"] = {**(new.get("status") or {}), "loadBalancer": {}}

    def warnings_common(self, obj: Obj) -> list[str]:
        spec, annotations = obj["spec"], obj["metadata"].get("annotations") or {}
        warnings = []
        if _TOPOLOGY_HINTS in annotations:
            warnings.append(
                f"annotation {_TOPOLOGY_HINTS} is deprecated, please use "
                "service.kubernetes.io/topology-mode instead"
            )
        headless = spec.get("type") == "ClusterIP" and spec.get("clusterIP") == "None"
        if not headless:
            for i, address in enumerate(spec.get("clusterIPs") or ()):
                warnings += ip_warnings(f"spec.clusterIPs[{i}]", address)
        warnings += _headless_warnings(spec) if headless else []
        warnings += _external_warnings(spec, headless=headless)
        if spec.get("trafficDistribution") == "PreferClose":
            warnings.append(
                'spec.trafficDistribution: "PreferClose" is deprecated; use "PreferSameZone"'
            )
        return warnings


def _drop_internal_policy(spec: Obj) -> None:
    """A name has no endpoints to choose from."""
    if spec.get("type") == "ExternalName":
        spec.pop("internalTrafficPolicy", None)


def _drop_fields_of_old_type(spec: Obj, before: Obj) -> None:
    if needs_cluster_ip(before) and not needs_cluster_ip(spec):
        same_addresses = all(spec.get(k) == before.get(k) for k in ("clusterIP", "clusterIPs"))
        if same_addresses:
            _drop(spec, "clusterIP", "clusterIPs")
        for key in ("ipFamilies", "ipFamilyPolicy"):
            if spec.get(key) == before.get(key):
                _drop(spec, key)
    if _exposes_nodes(before) and not _exposes_nodes(spec):
        if _node_ports(spec) <= _node_ports(before):
            for port in spec.get("ports") or ():
                port.pop("nodePort", None)
    for used, key in (
        (needs_health_check, "healthCheckNodePort"),
        (_reachable, "externalTrafficPolicy"),
        (lambda s: s.get("type") == "LoadBalancer", "allocateLoadBalancerNodePorts"),
        (lambda s: s.get("type") == "LoadBalancer", "loadBalancerClass"),
    ):
        if used(before) and not used(spec) and spec.get(key) == before.get(key):
            _drop(spec, key)


def _drop(spec: Obj, *keys: str) -> None:
    for key in keys:
        spec.pop(key, None)


def _headless_warnings(spec: Obj) -> list[str]:
    ignored = []
    if spec.get("loadBalancerIP"):
        ignored.append("loadBalancerIP")
    if spec.get("externalIPs"):
        ignored.append("externalIPs")
    if spec.get("sessionAffinity") != "None":
        ignored.append("SessionAffinity")
    return [f"spec.{field} is ignored for headless services" for field in ignored]


def _external_warnings(spec: Obj, *, headless: bool) -> list[str]:
    warnings: list[str] = []
    external, named = spec.get("externalIPs") or [], spec.get("type") == "ExternalName"
    for i, address in enumerate(external):
        warnings += ip_warnings(f"spec.externalIPs[{i}]", address)
    if external and not headless and not named:
        warnings.append(
            "spec.externalIPs is deprecated and may no longer be implemented in some clusters"
        )
    if spec.get("loadBalancerIP"):
        warnings += ip_warnings("spec.loadBalancerIP", spec["loadBalancerIP"])
    for i, cidr in enumerate(spec.get("loadBalancerSourceRanges") or ()):
        warnings += cidr_warnings(f"spec.loadBalancerSourceRanges[{i}]", cidr)
    if named and external:
        warnings.append('spec.externalIPs is ignored when spec.type is "ExternalName"')
    if not named and spec.get("externalName"):
        warnings.append('spec.externalName is ignored when spec.type is not "ExternalName"')
    return warnings


SERVICE = ServiceStrategy(
    group="",
    kind="Service",
    initial_status={"loadBalancer": {}},
    allow_create_on_update=True,
    selectors={"spec.clusterIP": at("spec", "clusterIP"), "spec.type": at("spec", "type")},
    selector_refusal="field label not supported: {}",
)
