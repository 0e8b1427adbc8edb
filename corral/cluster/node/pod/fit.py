"""Whether a pod may run on this node: what a kubelet checks when a pod arrives. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from corral.cluster.scheduler.placement.affinity import NodeAffinity
from corral.cluster.scheduler.placement.resources import (
    Amounts,
    HostPort,
    amounts,
    host_ports,
    pod_requests,
)
from corral.kube.types import Obj

__all__ = ["Rejection", "Room", "check"]

MESSAGE_PREFIX: Final = "Pod was rejected: "


@dataclass(frozen=True, slots=True)
class Rejection:
    """Why a pod is failed at once."""

    reason: str
    message: str
    """As the event says it; in the status it has a prefix."""
    waits: bool = False
    """Room for it may come: pods that are ending still use it."""


class Room:
    """What the pods of the node ask for, kept up to date instead of added up each time."""

    def __init__(self, allocatable: Mapping[str, str]) -> None:
        self.capacity = amounts(allocatable)
        self._pods: dict[str, tuple[Amounts, tuple[HostPort, ...]]] = {}
        self._used = Amounts()

    def take(self, pod: Obj) -> None:
        uid = pod["metadata"]["uid"]
        if uid not in self._pods:
            requests = pod_requests(pod)[0]
            self._pods[uid] = (requests, host_ports(pod))
            self._used.add(requests)

    def give_back(self, uid: str) -> None:
        found = self._pods.pop(uid, None)
        if found is not None:
            self._used.add(found[0], -1)

    def lacks(self, pod: Obj) -> Rejection | None:
        """What there is too little of."""
        wanted = pod_requests(pod)[0]
        for name, asked, used, capacity in self._compare(wanted):
            if asked and asked + used > capacity:
                words = f"requested: {asked}, used: {used}, capacity: {capacity}"
                message = f"Node didn't have enough resource: {name}, {words}"
                return Rejection(f"OutOf{name}", message, waits=asked <= capacity)
        mine = host_ports(pod)
        if any(_clash(a, b) for _, ports in self._pods.values() for a in ports for b in mine):
            words = "node(s) didn't have free ports for the requested pod ports"
            return Rejection("NodePorts", f"Predicate NodePorts failed: {words}", waits=True)
        return None

    def _compare(self, wanted: Amounts) -> Iterable[tuple[str, int, int, int]]:
        has, used = self.capacity, self._used
        yield "pods", 1, len(self._pods), has.pods
        yield "cpu", wanted.cpu, used.cpu, has.cpu
        yield "memory", wanted.memory, used.memory, has.memory
        yield "ephemeral-storage", wanted.ephemeral, used.ephemeral, has.ephemeral
        for name, asked in wanted.scalars.items():
            if name in has.scalars:  # others are resources of the cluster, not of nodes
                yield name, asked, used.scalars.get(name, 0), has.scalars[name]


def _clash(one: HostPort, other: HostPort) -> bool:
    same = one[1:] == other[1:]
    return same and ("0.0.0.0" in (one[0], other[0]) or one[0] == other[0])


def check(pod: Obj, *, node: str, labels: Mapping[str, str], room: Room) -> Rejection | None:
    """Why the pod may not run here; None when it may."""
    spec = pod["spec"]
    system = (spec.get("os") or {}).get("name", "linux")
    if system != "linux":
        why = "Failed to admit pod as the OS field doesn't match node OS"
        return Rejection("PodOSNotSupported", why)
    lacking = room.lacks(pod)
    if lacking is not None:
        return lacking
    affinity = NodeAffinity.parse(spec)
    if affinity is not None and not affinity.matches(node, labels):
        words = "node(s) didn't match Pod's node affinity/selector"
        return Rejection("NodeAffinity", f"Predicate NodeAffinity failed: {words}")
    return None
