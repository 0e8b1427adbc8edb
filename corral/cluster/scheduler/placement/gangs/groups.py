"""PodGroups of both kinds: pods that are only of use together.

Queues are not this module's business: a group's ``spec.queue`` is ignored.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from corral.cluster.scheduler.placement.gangs.membership import (
    COSCHEDULING,
    VOLCANO,
    GroupKey,
    group_of,
)
from corral.cluster.scheduler.placement.pods import PodInfo
from corral.cluster.scheduler.placement.resources import Amounts, amounts
from corral.cluster.scheduler.placement.state import ClusterState
from corral.kube.types import Obj

__all__ = [
    "COSCHEDULING",
    "VOLCANO",
    "GroupKey",
    "PodGroup",
    "group_of",
    "missing_members",
    "missing_resources",
    "placed_members",
]


@dataclass(frozen=True, slots=True)
class PodGroup:
    """What a PodGroup demands."""

    key: GroupKey
    minimum: int
    """Members that must be placed together; with fewer there is no use in any."""
    resources: Amounts = field(default_factory=Amounts)
    """What must be free in the whole cluster before any member is tried."""
    timeout: float | None = None
    """Seconds after which members that wait for the others give up; None: not said."""

    @staticmethod
    def parse(group: Obj) -> PodGroup:
        """Read a PodGroup of either kind, which its ``apiVersion`` tells."""
        meta, spec = group.get("metadata") or {}, group.get("spec") or {}
        family = str(group.get("apiVersion") or "").partition("/")[0]
        timeout = spec.get("scheduleTimeoutSeconds")
        return PodGroup(
            key=(family, meta.get("namespace") or "", meta.get("name") or ""),
            minimum=max(spec.get("minMember") or 1, 1),
            resources=amounts(spec.get("minResources")),
            timeout=None if timeout is None else float(timeout),
        )


def placed_members(state: ClusterState, group: GroupKey) -> list[PodInfo]:
    """The members of a group that have a node already, bound or assumed."""
    return [
        pod for node in state.nodes.values() for pod in node.pods.values() if pod.group == group
    ]


def missing_members(group: PodGroup, pod: PodInfo, members: int) -> str:
    """Why the group must wait for more of its pods to exist; empty: it need not."""
    if members >= group.minimum:
        return ""
    if group.key[0] == VOLCANO:
        return f"pod group is not ready, {members} Pending, {group.minimum} minAvailable"
    return (
        f"pre-filter pod {pod.name} cannot find enough sibling pods, "
        f"current pods number: {members}, minMember of group: {group.minimum}"
    )


def missing_resources(state: ClusterState, wanted: Amounts, own: Iterable[PodInfo] = ()) -> str:
    """The first resource of which the cluster has not this much free; empty: all there.

    What the group's ``own`` placed pods hold counts as free, for it is part of what it wants.
    """
    if wanted.empty():
        return ""
    free = Amounts()
    for node in state.nodes.values():
        if not node.unschedulable:
            free.add(node.allocatable)
            free.add(node.requested, -1)
    for pod in own:
        free.add(pod.requests)
    rows = [
        ("cpu", wanted.cpu, free.cpu),
        ("memory", wanted.memory, free.memory),
        ("ephemeral-storage", wanted.ephemeral, free.ephemeral),
    ]
    rows += [(name, amount, free.scalars.get(name, 0)) for name, amount in wanted.scalars.items()]
    for name, amount, available in rows:
        if amount > available:
            return f"Insufficient {name} for the pod group's minResources"
    return ""
