"""A pod as the scheduler sees it: everything it compares, read once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from corral.cluster.scheduler.placement.affinity import (
    NodeAffinity,
    PodTerm,
    WeightedNodeTerm,
    WeightedPodTerm,
    preferred_nodes,
    preferred_pods,
    required_pods,
    selector_of,
    with_label_keys,
)
from corral.cluster.scheduler.placement.gangs.membership import GroupKey, group_of
from corral.cluster.scheduler.placement.resources import (
    Amounts,
    HostPort,
    host_ports,
    pod_requests,
)
from corral.kube.selectors import Selector
from corral.kube.types import Obj

__all__ = ["ClaimUse", "PodInfo", "SpreadConstraint", "is_terminal", "pod_key"]

_NOT_STARTED: Final = "~"
"""Sorts after every timestamp: a pod that has not started counts as starting now."""


@dataclass(frozen=True, slots=True)
class SpreadConstraint:
    """One topology spread constraint with its defaults filled in."""

    max_skew: int
    key: str
    selector: Selector
    min_domains: int = 1
    honors_affinity: bool = True
    honors_taints: bool = False


@dataclass(frozen=True, slots=True)
class ClaimUse:
    """A volume claim that a pod mounts."""

    name: str
    ephemeral: bool = False
    """Made for this pod alone, from a template in it."""


@dataclass(slots=True, eq=False)
class PodInfo:
    """What scheduling needs to know of one version of a pod. Never changed after ``parse``."""

    pod: Obj
    key: str
    """The pod's uid, or namespace and name where it has none."""
    name: str
    namespace: str
    labels: Mapping[str, str]
    node_name: str
    """Where it is bound; empty while it is not."""
    nominated: str
    """The node where room is being made for it."""
    priority: int
    created: str
    started: str
    deleting: bool
    requests: Amounts
    scored: Amounts
    """The requests with defaults for what containers leave out."""
    ports: tuple[HostPort, ...]
    tolerations: tuple[Obj, ...]
    gates: tuple[str, ...]
    node_affinity: NodeAffinity | None
    preferred_nodes: tuple[WeightedNodeTerm, ...]
    affinity: tuple[PodTerm, ...]
    anti_affinity: tuple[PodTerm, ...]
    preferred_pods: tuple[WeightedPodTerm, ...]
    has_constraints: bool
    """It names spread constraints of its own, so the default ones do not apply."""
    hard_spread: tuple[SpreadConstraint, ...]
    soft_spread: tuple[SpreadConstraint, ...]
    group: GroupKey | None
    """The PodGroup it belongs to."""
    claims: tuple[ClaimUse, ...]
    """The volume claims that it mounts."""

    @property
    def has_affinity(self) -> bool:
        """Whether the pod says anything about other pods."""
        return bool(self.affinity or self.anti_affinity or self.preferred_pods)

    @property
    def full_name(self) -> str:
        return f"{self.namespace}/{self.name}"

    @staticmethod
    def parse(pod: Obj) -> PodInfo:
        """Read a pod. Raises ValueError where a quantity in it is wrong."""
        meta, spec = pod.get("metadata") or {}, pod.get("spec") or {}
        status = pod.get("status") or {}
        namespace, labels = meta.get("namespace") or "", meta.get("labels") or {}
        requests, scored = pod_requests(pod)
        constraints = spec.get("topologySpreadConstraints") or ()
        return PodInfo(
            pod=pod,
            key=pod_key(pod),
            name=meta.get("name") or "",
            namespace=namespace,
            labels=labels,
            node_name=spec.get("nodeName") or "",
            nominated=status.get("nominatedNodeName") or "",
            priority=spec.get("priority") or 0,
            created=meta.get("creationTimestamp") or "",
            started=status.get("startTime") or _NOT_STARTED,
            deleting=bool(meta.get("deletionTimestamp")),
            requests=requests,
            scored=scored,
            ports=host_ports(pod),
            tolerations=tuple(spec.get("tolerations") or ()),
            gates=tuple(gate.get("name", "") for gate in spec.get("schedulingGates") or ()),
            node_affinity=NodeAffinity.parse(spec),
            preferred_nodes=preferred_nodes(spec),
            affinity=required_pods(spec, "podAffinity", namespace, labels),
            anti_affinity=required_pods(spec, "podAntiAffinity", namespace, labels),
            preferred_pods=preferred_pods(spec, namespace, labels),
            has_constraints=bool(constraints),
            hard_spread=_spread(constraints, "DoNotSchedule", labels),
            soft_spread=_spread(constraints, "ScheduleAnyway", labels),
            group=group_of(pod),
            claims=_claims(meta, spec),
        )

    def updated(self, pod: Obj) -> PodInfo:
        """The same pod in a new version; what has not changed is not read again.

        Most versions of a pod differ in their status alone, or in having a node.
        """
        before, meta = self.pod, pod.get("metadata") or {}
        known, status = before.get("metadata") or {}, pod.get("status") or {}
        if (
            not _same_spec(before.get("spec") or {}, pod.get("spec") or {})
            or known.get("labels") != meta.get("labels")
            or known.get("annotations") != meta.get("annotations")
            or _sizes(before) != _sizes(pod)
        ):
            return PodInfo.parse(pod)
        return replace(
            self,
            pod=pod,
            node_name=(pod.get("spec") or {}).get("nodeName") or "",
            nominated=status.get("nominatedNodeName") or "",
            started=status.get("startTime") or _NOT_STARTED,
            deleting=bool(meta.get("deletionTimestamp")),
        )

    def counts_as(self, other: PodInfo) -> bool:
        """Whether the other version of this pod weighs the same on a node."""
        return (
            self.requests is other.requests
            and self.labels is other.labels
            and self.deleting == other.deleting
        )


def pod_key(pod: Obj) -> str:
    """What identifies a pod for good: its uid, else its namespace and name."""
    meta = pod.get("metadata") or {}
    return meta.get("uid") or f"{meta.get('namespace') or ''}/{meta.get('name') or ''}"


def is_terminal(pod: Obj) -> bool:
    """Whether the pod has ended and holds nothing on its node any more."""
    return (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")


def _spread(
    constraints: Any, action: str, labels: Mapping[str, str]
) -> tuple[SpreadConstraint, ...]:
    found = []
    for item in constraints:
        if item.get("whenUnsatisfiable") != action:
            continue
        selector = selector_of(item.get("labelSelector"))
        found.append(
            SpreadConstraint(
                max_skew=item.get("maxSkew") or 0,
                key=item.get("topologyKey") or "",
                selector=with_label_keys(selector, labels, same=item.get("matchLabelKeys") or ()),
                min_domains=item.get("minDomains") or 1,
                honors_affinity=item.get("nodeAffinityPolicy", "Honor") == "Honor",
                honors_taints=item.get("nodeTaintsPolicy", "Ignore") == "Honor",
            )
        )
    return tuple(found)


def _claims(meta: Mapping[str, Any], spec: Mapping[str, Any]) -> tuple[ClaimUse, ...]:
    found = []
    for volume in spec.get("volumes") or ():
        if claim := volume.get("persistentVolumeClaim"):
            found.append(ClaimUse(claim.get("claimName") or ""))
        elif "ephemeral" in volume:
            found.append(ClaimUse(f"{meta.get('name')}-{volume.get('name')}", ephemeral=True))
    return tuple(found)


def _same_spec(old: Obj, new: Obj) -> bool:
    """Whether two specs say the same but for the node."""
    if len(old) != len(new) and abs(len(old) - len(new)) > 1:
        return False
    keys = (old.keys() | new.keys()) - {"nodeName"}
    return all(key in old and key in new and old[key] == new[key] for key in keys)


def _sizes(pod: Obj) -> list[Any]:
    """What the status says of the containers' resources: it counts while they are resized."""
    status = pod.get("status") or {}
    return [
        (one.get("name"), one.get("allocatedResources"), one.get("resources"))
        for listed in ("initContainerStatuses", "containerStatuses")
        for one in status.get(listed) or ()
        if "allocatedResources" in one or "resources" in one
    ]
