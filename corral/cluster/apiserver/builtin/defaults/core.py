"""Defaults of the core/v1 kinds."""

from __future__ import annotations

import base64
from typing import Any

from corral.kube.types import Obj

from .podspec import default_pod_spec, default_template
from .quantity import round_up_to_milli
from .volumes import default_claim, default_volume_source

__all__ = ["DEFAULTS"]

_NODE_TYPES = ("NodePort", "LoadBalancer")


def pod(obj: Obj) -> None:
    spec = obj.setdefault("spec", {})
    default_pod_spec(spec)
    if spec["terminationGracePeriodSeconds"] < 0:
        spec["terminationGracePeriodSeconds"] = 1
    if spec.get("enableServiceLinks") is None:
        spec["enableServiceLinks"] = True
    host_network = spec.get("hostNetwork")
    for kind in ("containers", "initContainers"):
        for container in spec.get(kind) or ():
            resources = container.get("resources")
            if resources and resources.get("limits"):
                _request_what_is_limited(resources)
            if host_network:
                for port in container.get("ports") or ():
                    if not port.get("hostPort"):
                        port["hostPort"] = port.get("containerPort", 0)
    status = obj.get("status")
    if status:
        _pod_status(status)


def _request_what_is_limited(resources: Obj) -> None:
    requests = resources.get("requests")
    if requests:
        resources["requests"] = {**resources["limits"], **requests}
    else:
        resources["requests"] = dict(resources["limits"])


def _pod_status(status: Obj) -> None:
    """The one address and the list of them always agree; the single one wins."""
    address, addresses = status.get("podIP"), status.get("podIPs")
    if address:
        if not addresses or addresses[0].get("ip") != address:
            status["podIPs"] = [{"ip": address}]
    elif addresses:
        status["podIP"] = addresses[0].get("ip", "")
    for kind in ("initContainerStatuses", "containerStatuses", "ephemeralContainerStatuses"):
        for container in status.get(kind) or ():
            round_up_to_milli(container.get("allocatedResources"))
            _resources(container.get("resources"))
    round_up_to_milli(status.get("allocatedResources"))
    _resources(status.get("resources"))


def _resources(resources: Obj | None) -> None:
    if resources:
        round_up_to_milli(resources.get("limits"))
        round_up_to_milli(resources.get("requests"))


def pod_template(obj: Obj) -> None:
    default_template(obj.setdefault("template", {}))


def replication_controller(obj: Obj) -> None:
    spec = obj.setdefault("spec", {})
    template = spec.get("template")
    labels = ((template or {}).get("metadata") or {}).get("labels")
    if labels:
        if not spec.get("selector"):
            spec["selector"] = dict(labels)
        metadata = obj.setdefault("metadata", {})
        if not metadata.get("labels"):
            metadata["labels"] = dict(labels)
    if spec.get("replicas") is None:
        spec["replicas"] = 1
    default_template(template)


def service(obj: Obj) -> None:
    spec = obj.setdefault("spec", {})
    _session_affinity(spec)
    kind = spec.get("type")
    if not kind:
        kind = spec["type"] = "ClusterIP"
    for port in spec.get("ports") or ():
        if not port.get("protocol"):
            port["protocol"] = "TCP"
        if not port.get("targetPort"):
            port["targetPort"] = port.get("port", 0)
    reachable = kind in _NODE_TYPES or (kind == "ClusterIP" and spec.get("externalIPs"))
    if reachable and not spec.get("externalTrafficPolicy"):
        spec["externalTrafficPolicy"] = "Cluster"
    if spec.get("internalTrafficPolicy") is None and kind in (*_NODE_TYPES, "ClusterIP"):
        spec["internalTrafficPolicy"] = "Cluster"
    if kind == "LoadBalancer":
        if spec.get("allocateLoadBalancerNodePorts") is None:
            spec["allocateLoadBalancerNodePorts"] = True
        balancer = (obj.get("status") or {}).get("loadBalancer") or {}
        for ingress in balancer.get("ingress") or ():
            if ingress.get("ip"):
                ingress.setdefault("ipMode", "VIP")


def _session_affinity(spec: Obj) -> None:
    affinity = spec.get("sessionAffinity")
    if not affinity:
        affinity = spec["sessionAffinity"] = "None"
    if affinity == "None":
        spec.pop("sessionAffinityConfig", None)
    elif affinity == "ClientIP":
        client = (spec.get("sessionAffinityConfig") or {}).get("clientIP") or {}
        if client.get("timeoutSeconds") is None:
            spec["sessionAffinityConfig"] = {"clientIP": {"timeoutSeconds": 10800}}


def endpoints(obj: Obj) -> None:
    for subset in obj.get("subsets") or ():
        for port in subset.get("ports") or ():
            if not port.get("protocol"):
                port["protocol"] = "TCP"


def secret(obj: Obj) -> None:
    """``stringData`` is a way to write: it ends up in ``data`` and is never read back."""
    written = obj.pop("stringData", None)
    if written:
        encoded = {k: base64.b64encode((v or "").encode()).decode() for k, v in written.items()}
        obj["data"] = {**(obj.get("data") or {}), **encoded}
    if not obj.get("type"):
        obj["type"] = "Opaque"


def namespace(obj: Obj) -> None:
    metadata = obj.setdefault("metadata", {})
    name = metadata.get("name")
    if name:
        labels = metadata.get("labels")
        if labels is None:
            labels = metadata["labels"] = {}
        labels["kubernetes.io/metadata.name"] = name
    status = obj.setdefault("status", {})
    if not status.get("phase"):
        status["phase"] = "Active"


def node(obj: Obj) -> None:
    spec = obj.get("spec")
    if spec:
        single, several = spec.get("podCIDR"), spec.get("podCIDRs")
        if single and (not several or several[0] != single):
            spec["podCIDRs"] = [single]
        elif several and not single:
            spec["podCIDR"] = several[0]
    status = obj.get("status")
    if status:
        capacity = status.get("capacity")
        round_up_to_milli(capacity)
        if capacity and not status.get("allocatable"):
            status["allocatable"] = dict(capacity)
        round_up_to_milli(status.get("allocatable"))


def persistent_volume(obj: Obj) -> None:
    status = obj.setdefault("status", {})
    if not status.get("phase"):
        status["phase"] = "Pending"
    persistent_volume_spec(obj.setdefault("spec", {}))
    spec = obj["spec"]
    if not spec.get("persistentVolumeReclaimPolicy"):
        spec["persistentVolumeReclaimPolicy"] = "Retain"
    spec.setdefault("volumeMode", "Filesystem")


def persistent_volume_spec(spec: Obj) -> None:
    """What a persistent volume's spec gets even where it is inlined elsewhere."""
    round_up_to_milli(spec.get("capacity"))
    default_volume_source(spec)


def limit_range(obj: Obj) -> None:
    for item in (obj.get("spec") or {}).get("limits") or ():
        if item.get("type") == "Container":
            _container_limits(item)
        for key in ("max", "min", "default", "defaultRequest", "maxLimitRequestRatio"):
            round_up_to_milli(item.get(key))


def _container_limits(item: Obj) -> None:
    limits: dict[str, Any] = {**(item.get("max") or {}), **(item.get("default") or {})}
    requests = {**(item.get("min") or {}), **limits, **(item.get("defaultRequest") or {})}
    if limits:
        item["default"] = limits
    if requests:
        item["defaultRequest"] = requests


def resource_quota(obj: Obj) -> None:
    round_up_to_milli((obj.get("spec") or {}).get("hard"))
    status = obj.get("status")
    if status:
        round_up_to_milli(status.get("hard"))
        round_up_to_milli(status.get("used"))


DEFAULTS = {
    ("", "v1", "Pod"): pod,
    ("", "v1", "PodTemplate"): pod_template,
    ("", "v1", "ReplicationController"): replication_controller,
    ("", "v1", "Service"): service,
    ("", "v1", "Endpoints"): endpoints,
    ("", "v1", "Secret"): secret,
    ("", "v1", "Namespace"): namespace,
    ("", "v1", "Node"): node,
    ("", "v1", "PersistentVolume"): persistent_volume,
    ("", "v1", "PersistentVolumeClaim"): default_claim,
    ("", "v1", "LimitRange"): limit_range,
    ("", "v1", "ResourceQuota"): resource_quota,
}
