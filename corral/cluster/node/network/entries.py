"""What the network needs to know of a pod and of a service, as values that can be compared.

Most updates of a pod change nothing here, and are over when that is seen.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from corral.kube.types import Obj

_DEFAULT_AFFINITY: Final = 10_800.0
Labels = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class PodEntry:
    """A pod that has an address and has not ended."""

    namespace: str
    name: str
    uid: str
    address: str
    labels: Labels
    ready: bool
    """As its condition says; also while it is being deleted."""
    ending: bool
    hostname: str
    subdomain: str
    ports: tuple[tuple[str, str, int], ...]
    """Names, protocols and numbers of those that have names."""

    @classmethod
    def of(cls, pod: Obj) -> PodEntry | None:
        """None: nobody can be sent to this pod, and no name leads there."""
        status, meta, spec = pod.get("status") or {}, pod["metadata"], pod["spec"]
        address = _first_ipv4(status.get("podIP", ""), status.get("podIPs"))
        if not address or status.get("phase") in ("Succeeded", "Failed"):
            return None
        return cls(
            namespace=meta.get("namespace", ""),
            name=meta["name"],
            uid=meta.get("uid", ""),
            address=address,
            labels=_pairs(meta.get("labels")),
            ready=_is_ready(status),
            ending="deletionTimestamp" in meta,
            hostname=spec.get("hostname") or "",
            subdomain=spec.get("subdomain") or "",
            ports=_named_ports(spec),
        )

    def port(self, target: int | str, protocol: str) -> int:
        """The number behind a service's targetPort; 0 when this pod has no such port."""
        if isinstance(target, int):
            return target
        for name, its_protocol, number in self.ports:
            if name == target and its_protocol == protocol:
                return number
        return 0


class PortEntry(NamedTuple):
    """One port of a service."""

    name: str
    protocol: str
    port: int
    target: int | str
    node_port: int


@dataclass(frozen=True, slots=True)
class ServiceEntry:
    """A service of any type."""

    namespace: str
    name: str
    uid: str
    address: str
    """Empty without one of its own: headless, or a name for something else."""
    headless: bool
    external_name: str
    selector: Labels | None
    """None: its endpoints are somebody else's business."""
    ports: tuple[PortEntry, ...]
    publish_not_ready: bool
    affinity: float
    """Seconds; 0 for none."""

    @property
    def key(self) -> str:
        return f"{self.namespace}/{self.name}"

    @classmethod
    def of(cls, service: Obj) -> ServiceEntry:
        meta, spec = service["metadata"], service.get("spec") or {}
        external = spec.get("type") == "ExternalName"
        address = "" if external else spec.get("clusterIP") or ""
        return cls(
            namespace=meta.get("namespace", ""),
            name=meta["name"],
            uid=meta.get("uid", ""),
            address=_first_ipv4(address, [{"ip": ip} for ip in spec.get("clusterIPs") or ()]),
            headless=address == "None",
            external_name=(spec.get("externalName") or "") if external else "",
            selector=_pairs(spec["selector"]) if spec.get("selector") else None,
            ports=tuple(_port(port) for port in spec.get("ports") or ()),
            publish_not_ready=bool(spec.get("publishNotReadyAddresses")),
            affinity=_affinity(spec),
        )

    def selects(self, pod: PodEntry) -> bool:
        return (
            self.selector is not None
            and self.namespace == pod.namespace
            and set(self.selector) <= set(pod.labels)
        )


def compact_pod(pod: Obj) -> Obj:
    """The part of a pod that is read here: agents keep all pods of the cluster in memory."""
    meta, spec, status = pod["metadata"], pod["spec"], pod.get("status") or {}
    kept = ("name", "namespace", "uid", "resourceVersion", "labels", "deletionTimestamp")
    return {
        "metadata": {key: meta[key] for key in kept if key in meta},
        "spec": {
            **{key: spec[key] for key in ("hostname", "subdomain", "nodeName") if key in spec},
            "containers": [_only_ports(c) for c in spec.get("containers") or () if c.get("ports")],
            "initContainers": [
                _only_ports(c) for c in spec.get("initContainers") or () if c.get("ports")
            ],
        },
        "status": {
            **{key: status[key] for key in ("phase", "podIP", "podIPs") if key in status},
            "conditions": [c for c in status.get("conditions") or () if c.get("type") == "Ready"],
        },
    }


def _only_ports(container: Obj) -> Obj:
    return {"ports": container["ports"], "restartPolicy": container.get("restartPolicy")}


def _pairs(labels: Mapping[str, str] | None) -> Labels:
    return tuple(sorted((labels or {}).items()))


def _first_ipv4(first: str, others: list[Obj] | None) -> str:
    candidates = [first, *(entry.get("ip", "") for entry in others or ())]
    return next((ip for ip in candidates if ip.count(".") == 3 and ":" not in ip), "")


def _is_ready(status: Obj) -> bool:
    conditions = status.get("conditions") or ()
    return any(c.get("type") == "Ready" and c.get("status") == "True" for c in conditions)


def _named_ports(spec: Obj) -> tuple[tuple[str, str, int], ...]:
    sidecars = [c for c in spec.get("initContainers") or () if c.get("restartPolicy") == "Always"]
    return tuple(
        (port["name"], port.get("protocol") or "TCP", port["containerPort"])
        for container in [*(spec.get("containers") or ()), *sidecars]
        for port in container.get("ports") or ()
        if port.get("name")
    )


def _port(port: Obj) -> PortEntry:
    return PortEntry(
        name=port.get("name") or "",
        protocol=port.get("protocol") or "TCP",
        port=port["port"],
        target=port.get("targetPort") or port["port"],
        node_port=port.get("nodePort") or 0,
    )


def _affinity(spec: Obj) -> float:
    if spec.get("sessionAffinity") != "ClientIP":
        return 0.0
    config = (spec.get("sessionAffinityConfig") or {}).get("clientIP") or {}
    return float(config.get("timeoutSeconds") or _DEFAULT_AFFINITY)
