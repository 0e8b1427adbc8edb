"""A node with the pods on it and what they take, kept up to date pod by pod."""

from __future__ import annotations

from collections.abc import Mapping

from corral.cluster.scheduler.placement.pods import PodInfo
from corral.cluster.scheduler.placement.resources import Amounts, HostPort, amounts
from corral.cluster.scheduler.placement.taints import HARD
from corral.kube.selectors import Selector
from corral.kube.types import Obj

__all__ = ["NodeInfo"]

_ANY = "0.0.0.0"
_MAX_COUNTED = 64
"""Selectors whose matches a node keeps counted; beyond that it starts afresh."""


class NodeInfo:
    """One node. ``requested`` and the rest always equal the sum over ``pods``."""

    __slots__ = (
        "_counted",
        "allocatable",
        "hard_taints",
        "labels",
        "name",
        "obj",
        "pods",
        "ports",
        "requested",
        "scored_cpu",
        "scored_memory",
        "soft_taints",
        "taints",
        "unschedulable",
    )

    def __init__(self, name: str) -> None:
        self.name = name
        self.obj: Obj | None = None
        self.labels: Mapping[str, str] = {}
        self.unschedulable = False
        self.taints: tuple[Obj, ...] = ()
        self.hard_taints: tuple[Obj, ...] = ()
        self.soft_taints: tuple[Obj, ...] = ()
        self.allocatable = Amounts()
        self.pods: dict[str, PodInfo] = {}
        self.requested = Amounts()
        self.scored_cpu = 0
        self.scored_memory = 0
        self.ports: dict[tuple[str, int], dict[str, int]] = {}
        """(protocol, port) to how often each address of it is taken."""
        self._counted: dict[tuple[str, Selector], int] = {}

    @staticmethod
    def parse(node: Obj) -> NodeInfo:
        """A node without pods."""
        info = NodeInfo((node.get("metadata") or {}).get("name") or "")
        info.set(node)
        return info

    def set(self, node: Obj | None) -> None:
        """Take over a new version of the object; None: only pods know of this node."""
        self.obj = node
        spec, status = (node or {}).get("spec") or {}, (node or {}).get("status") or {}
        self.labels = ((node or {}).get("metadata") or {}).get("labels") or {}
        self.unschedulable = bool(spec.get("unschedulable"))
        self.taints = tuple(spec.get("taints") or ())
        self.hard_taints = tuple(t for t in self.taints if t.get("effect") in HARD)
        self.soft_taints = tuple(t for t in self.taints if t.get("effect") == "PreferNoSchedule")
        self.allocatable = amounts(status.get("allocatable") or status.get("capacity"))

    def update(self, node: Obj) -> None:
        """As ``set``, at next to no cost where only a heartbeat has changed."""
        old = self.obj
        if (
            old is not None
            and old.get("spec") == node.get("spec")
            and old["metadata"].get("labels") == node["metadata"].get("labels")
            and _resources(old) == _resources(node)
        ):
            self.obj = node
        else:
            self.set(node)

    def copy(self) -> NodeInfo:
        """A node to try things on: changing its pods leaves this one alone."""
        other = NodeInfo(self.name)
        other.obj, other.labels, other.unschedulable = self.obj, self.labels, self.unschedulable
        other.taints, other.hard_taints = self.taints, self.hard_taints
        other.soft_taints, other.allocatable = self.soft_taints, self.allocatable
        other.pods, other.requested = dict(self.pods), self.requested.copy()
        other.scored_cpu, other.scored_memory = self.scored_cpu, self.scored_memory
        other.ports = {port: dict(taken) for port, taken in self.ports.items()}
        other._counted = dict(self._counted)
        return other

    def add(self, pod: PodInfo) -> None:
        """Count a pod in; it must not be on the node yet."""
        self.pods[pod.key] = pod
        self._account(pod, 1)

    def remove(self, pod: PodInfo) -> None:
        """Take a pod off the node; the very one that was added under its key."""
        del self.pods[pod.key]
        self._account(pod, -1)

    def _account(self, pod: PodInfo, sign: int) -> None:
        self.requested.add(pod.requests, sign)
        self.scored_cpu += sign * pod.scored.cpu
        self.scored_memory += sign * pod.scored.memory
        for address, protocol, number in pod.ports:
            taken = self.ports.setdefault((protocol, number), {})
            taken[address] = taken.get(address, 0) + sign
            if not taken[address]:
                del taken[address]
        if not pod.deleting:
            for key in self._counted:
                namespace, selector = key
                if namespace == pod.namespace and selector.matches(pod.labels):
                    self._counted[key] += sign

    def port_taken(self, port: HostPort) -> bool:
        """Whether a host port clashes with one in use: every address clashes with "any"."""
        address, protocol, number = port
        taken = self.ports.get((protocol, number))
        if not taken:
            return False
        return address == _ANY or address in taken or _ANY in taken

    def count_matching(self, namespace: str, selector: Selector) -> int:
        """How many pods of a namespace match, those being deleted left out.

        An empty selector counts nothing. The numbers of recent selectors are kept current, so
        that asking again for every pod of a workload costs one lookup.
        """
        if not selector.requirements:
            return 0
        key = (namespace, selector)
        count = self._counted.get(key)
        if count is None:
            count = sum(
                1
                for pod in self.pods.values()
                if pod.namespace == namespace and not pod.deleting and selector.matches(pod.labels)
            )
            if len(self._counted) >= _MAX_COUNTED:
                self._counted.clear()
            self._counted[key] = count
        return count


def _resources(node: Obj) -> tuple[object, object]:
    status = node.get("status") or {}
    return status.get("allocatable"), status.get("capacity")
