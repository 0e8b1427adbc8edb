"""What happens in the cluster, in the words that decide who gets another try.

The objects of an event are parsed once, however many waiting pods look at them.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Flag, auto

from corral.cluster.scheduler.placement.gangs.groups import PodGroup
from corral.cluster.scheduler.placement.nodes import NodeInfo
from corral.cluster.scheduler.placement.pods import PodInfo, is_terminal
from corral.kube.types import Obj

__all__ = ["Action", "ClusterEvent", "GroupEvent", "NodeEvent", "PodEvent", "StorageEvent"]


class Action(Flag):
    """What changed. An update that changes nothing of these concerns no scheduling."""

    NONE = 0
    ADD = auto()
    DELETE = auto()
    LABELS = auto()
    TAINTS = auto()
    """Of a node; being uncordoned counts."""
    ALLOCATABLE = auto()
    SCALE_DOWN = auto()
    TOLERATIONS = auto()
    MINIMUM = auto()
    """A group needs fewer members than before."""


@dataclass(frozen=True, slots=True)
class NodeEvent:
    """A node came, changed or went."""

    action: Action
    old: NodeInfo | None
    new: NodeInfo | None

    @staticmethod
    def of(old: Obj | None, new: Obj | None) -> NodeEvent:
        """From the object before and after."""
        before = NodeInfo.parse(old) if old is not None else None
        after = NodeInfo.parse(new) if new is not None else None
        if before is None or after is None:
            return NodeEvent(Action.ADD if after is not None else Action.DELETE, before, after)
        action = Action.NONE
        if before.labels != after.labels:
            action |= Action.LABELS
        if before.taints != after.taints or (before.unschedulable and not after.unschedulable):
            action |= Action.TAINTS
        if before.allocatable != after.allocatable:
            action |= Action.ALLOCATABLE
        return NodeEvent(action, before, after)


@dataclass(frozen=True, slots=True)
class PodEvent:
    """A pod came, changed or went. It is the waiting pod itself if their keys are the same."""

    action: Action
    old: PodInfo | None
    new: PodInfo | None

    @staticmethod
    def of(old: Obj | PodInfo | None, new: Obj | PodInfo | None) -> PodEvent:
        """From the object before and after; being bound counts as coming, having ended as going."""
        before, after = _pod(old), _pod(new)
        if after is None or is_terminal(after.pod):
            return PodEvent(Action.DELETE, before or after, None)
        if before is None or (after.node_name and not before.node_name):
            return PodEvent(Action.ADD, None, after)
        action = Action.NONE
        if before.labels != after.labels:
            action |= Action.LABELS
        if _smaller(before, after):
            action |= Action.SCALE_DOWN
        if before.tolerations != after.tolerations:
            action |= Action.TOLERATIONS
        return PodEvent(action, before, after)

    @property
    def pod(self) -> PodInfo:
        """The latest version."""
        latest = self.new or self.old
        assert latest is not None, "an event is about something"
        return latest

    @property
    def placed(self) -> bool:
        """Whether the pod holds, or has reserved, room on a node."""
        return bool(self.pod.node_name or self.pod.nominated)


@dataclass(frozen=True, slots=True)
class GroupEvent:
    """A PodGroup came or changed."""

    action: Action
    group: PodGroup

    @staticmethod
    def of(old: Obj | None, new: Obj) -> GroupEvent:
        """From the object before and after."""
        group = PodGroup.parse(new)
        if old is None:
            return GroupEvent(Action.ADD, group)
        before = PodGroup.parse(old)
        easier = group.minimum < before.minimum or group.resources != before.resources
        return GroupEvent(Action.MINIMUM if easier else Action.NONE, group)


@dataclass(frozen=True, slots=True)
class StorageEvent:
    """A volume claim, a volume or a storage class came or changed."""

    namespace: str = ""
    claim: str = ""
    """The claim; empty: a volume or a class, which any claim may be waiting for."""


ClusterEvent = NodeEvent | PodEvent | GroupEvent | StorageEvent


def _pod(pod: Obj | PodInfo | None) -> PodInfo | None:
    return pod if pod is None or isinstance(pod, PodInfo) else PodInfo.parse(pod)


def _smaller(old: PodInfo, new: PodInfo) -> bool:
    before, after = old.requests, new.requests
    return (
        before.cpu > after.cpu
        or before.memory > after.memory
        or before.ephemeral > after.ephemeral
        or any(amount > after.scalars.get(name, 0) for name, amount in before.scalars.items())
    )
