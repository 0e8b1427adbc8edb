"""Which events make it worthwhile to try a pod again that found no node.

Every rule that rejected the pod says so for itself, as kube-scheduler's queueing hints do; one
that sees a chance is enough. A missed event costs a wait of minutes, a needless one an attempt, so
in doubt the answer is yes.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Final

from corral.cluster.scheduler.placement.affinity import PodTerm
from corral.cluster.scheduler.placement.events import (
    Action,
    ClusterEvent,
    GroupEvent,
    NodeEvent,
    PodEvent,
    StorageEvent,
)
from corral.cluster.scheduler.placement.filters import node_resources
from corral.cluster.scheduler.placement.nodes import NodeInfo
from corral.cluster.scheduler.placement.pods import PodInfo
from corral.cluster.scheduler.placement.state import ClusterState
from corral.cluster.scheduler.placement.taints import UNSCHEDULABLE, tolerated, untolerated

__all__ = ["heeding", "worth_retrying"]

_STORAGE_RULES: Final = frozenset({"VolumeBinding", "VolumeRestrictions"})
_GROUP_RULES: Final = frozenset({"GangScheduling"})
_COMING: Final = frozenset({"PodTopologySpread", "InterPodAffinity", "GangScheduling"})
_LEAVING: Final = frozenset(
    {"NodePorts", "NodeResourcesFit", "VolumeRestrictions", "PodTopologySpread", "InterPodAffinity"}
)

_Namespaces = Mapping[str, Mapping[str, str]]


def worth_retrying(
    state: ClusterState, pod: PodInfo, plugins: Collection[str], event: ClusterEvent
) -> bool:
    """Whether the event may help a pod that these rules rejected; no rules: it may."""
    if not plugins:
        return True
    if isinstance(event, GroupEvent):
        return event.action != Action.NONE and pod.group == event.group.key
    if isinstance(event, StorageEvent):
        return _brings_storage(pod, plugins, event)
    if isinstance(event, NodeEvent):
        return any(_NODE_HINTS.get(plugin, _no_node)(pod, event) for plugin in plugins)
    own = event.pod.key == pod.key
    hints = _OWN_HINTS if own else _POD_HINTS
    return any(hints[plugin](state, pod, event) for plugin in plugins if plugin in hints)


def heeding(event: ClusterEvent) -> Iterable[str]:
    """The rules that an event may concern: pods that only others rejected need not be asked."""
    if isinstance(event, PodEvent):
        if event.action is Action.NONE:
            return ()
        if event.action is Action.ADD:
            return _COMING
        return _LEAVING if event.action is Action.DELETE else _POD_HINTS
    if isinstance(event, NodeEvent):
        return _NODE_HINTS
    return _GROUP_RULES if isinstance(event, GroupEvent) else _STORAGE_RULES


def _brings_storage(pod: PodInfo, plugins: Collection[str], event: StorageEvent) -> bool:
    if _STORAGE_RULES.isdisjoint(plugins):
        return False
    if not event.claim:
        return "VolumeBinding" in plugins
    return event.namespace == pod.namespace and any(c.name == event.claim for c in pod.claims)


# Nodes


def _no_node(pod: PodInfo, event: NodeEvent) -> bool:
    return False


def _arrives(pod: PodInfo, event: NodeEvent) -> bool:
    return event.action is Action.ADD


def _named_node(pod: PodInfo, event: NodeEvent) -> bool:
    return event.new is not None and event.old is None and event.new.name == pod.node_name


def _uncordoned(pod: PodInfo, event: NodeEvent) -> bool:
    if event.new is None or event.new.unschedulable:
        return False
    return event.old is None or event.old.unschedulable


def _untainted(pod: PodInfo, event: NodeEvent) -> bool:
    def repelled(node: NodeInfo | None) -> bool:
        return node is None or untolerated(pod.tolerations, node.hard_taints)

    return event.new is not None and repelled(event.old) and not repelled(event.new)


def _now_matches(pod: PodInfo, event: NodeEvent) -> bool:
    affinity = pod.node_affinity

    def matches(node: NodeInfo | None) -> bool:
        return node is not None and (affinity is None or affinity.matches(node.name, node.labels))

    return matches(event.new) and not matches(event.old)


def _has_more(pod: PodInfo, event: NodeEvent) -> bool:
    """Whether the empty node would take the pod, and has more of what it wants than before."""
    if event.new is None or node_resources(pod)(event.new) is not None:
        return False
    if event.old is None:
        return True
    old, new, wanted = event.old.allocatable, event.new.allocatable, pod.requests
    return (
        new.pods > old.pods
        or (wanted.cpu > 0 and new.cpu > old.cpu)
        or (wanted.memory > 0 and new.memory > old.memory)
        or (wanted.ephemeral > 0 and new.ephemeral > old.ephemeral)
        or any(
            amount and new.scalars.get(name, 0) > old.scalars.get(name, 0)
            for name, amount in wanted.scalars.items()
        )
    )


def _domains_change(pod: PodInfo, event: NodeEvent) -> bool:
    keys = [constraint.key for constraint in pod.hard_spread]

    def counted(node: NodeInfo | None) -> bool:
        return node is not None and all(key in node.labels for key in keys)

    old, new = event.old, event.new
    if old is None or new is None or counted(old) != counted(new):
        return counted(old) or counted(new)
    if not counted(new):
        return False
    moved = any(old.labels[key] != new.labels[key] for key in keys)
    return moved or old.taints != new.taints


def _place_changes(pod: PodInfo, event: NodeEvent) -> bool:
    """A node joins a place (for affinity) or leaves one (for anti-affinity)."""
    if event.new is None:
        return False
    new = event.new.labels
    if event.old is None:
        return bool(pod.anti_affinity) or any(term.key in new for term in pod.affinity)
    old = event.old.labels
    joins = any(t.key in new and old.get(t.key) != new[t.key] for t in pod.affinity)
    return joins or any(t.key in old and new.get(t.key) != old[t.key] for t in pod.anti_affinity)


def _relabelled_node(pod: PodInfo, event: NodeEvent) -> bool:
    if event.new is None:
        return False
    return event.old is None or event.old.labels != event.new.labels


_NODE_HINTS: Final[Mapping[str, Callable[[PodInfo, NodeEvent], bool]]] = {
    "NodeName": _named_node,
    "NodeUnschedulable": _uncordoned,
    "TaintToleration": _untainted,
    "NodeAffinity": _now_matches,
    "NodePorts": _arrives,
    "NodeResourcesFit": _has_more,
    "VolumeBinding": _relabelled_node,
    "PodTopologySpread": _domains_change,
    "InterPodAffinity": _place_changes,
}


# Other pods


def _frees_port(state: ClusterState, pod: PodInfo, event: PodEvent) -> bool:
    if event.action is not Action.DELETE or not event.placed:
        return False
    freed = NodeInfo("")
    freed.add(event.pod)
    return any(map(freed.port_taken, pod.ports))


def _frees_resources(state: ClusterState, pod: PodInfo, event: PodEvent) -> bool:
    if event.action is Action.DELETE:
        return event.placed
    if Action.SCALE_DOWN not in event.action or event.old is None or not event.pod.node_name:
        return False
    old, new, wanted = event.old.requests, event.pod.requests, pod.requests
    return (
        (wanted.cpu > 0 and old.cpu > new.cpu)
        or (wanted.memory > 0 and old.memory > new.memory)
        or (wanted.ephemeral > 0 and old.ephemeral > new.ephemeral)
        or any(
            amount and old.scalars.get(name, 0) > new.scalars.get(name, 0)
            for name, amount in wanted.scalars.items()
        )
    )


def _counts_change(state: ClusterState, pod: PodInfo, event: PodEvent) -> bool:
    if not event.placed or event.pod.namespace != pod.namespace:
        return False
    for constraint in pod.hard_spread:
        before = event.old is not None and constraint.selector.matches(event.old.labels)
        after = event.new is not None and constraint.selector.matches(event.new.labels)
        if before != after:
            return True
    return False


def _company_changes(state: ClusterState, pod: PodInfo, event: PodEvent) -> bool:
    """A pod that this one wants to be with comes, or one that stands in its way goes."""
    if not event.placed:
        return False
    names, old, new = state.namespaces, event.old, event.new
    if new is not None:
        if _all(pod.affinity, new, names) and not (old and _all(pod.affinity, old, names)):
            return True
        return bool(
            old and _any(pod.anti_affinity, old, names) and not _any(pod.anti_affinity, new, names)
        )
    return bool(
        old and (_any(pod.anti_affinity, old, names) or _any(old.anti_affinity, pod, names))
    )


def _all(terms: tuple[PodTerm, ...], pod: PodInfo, namespaces: _Namespaces) -> bool:
    return bool(terms) and all(t.matches(pod.namespace, pod.labels, namespaces) for t in terms)


def _any(terms: tuple[PodTerm, ...], pod: PodInfo, namespaces: _Namespaces) -> bool:
    return any(t.matches(pod.namespace, pod.labels, namespaces) for t in terms)


def _frees_claim(state: ClusterState, pod: PodInfo, event: PodEvent) -> bool:
    if event.action is not Action.DELETE or event.pod.namespace != pod.namespace:
        return False
    return not {use.name for use in pod.claims}.isdisjoint(use.name for use in event.pod.claims)


def _joins_group(state: ClusterState, pod: PodInfo, event: PodEvent) -> bool:
    group = pod.group
    return event.action is Action.ADD and group is not None and event.pod.group == group


_PodHint = Callable[[ClusterState, PodInfo, PodEvent], bool]

_POD_HINTS: Final[Mapping[str, _PodHint]] = {
    "NodePorts": _frees_port,
    "NodeResourcesFit": _frees_resources,
    "PodTopologySpread": _counts_change,
    "InterPodAffinity": _company_changes,
    "VolumeRestrictions": _frees_claim,
    "GangScheduling": _joins_group,
}


# The waiting pod itself


def _tolerates_cordon(state: ClusterState, pod: PodInfo, event: PodEvent) -> bool:
    return Action.TOLERATIONS in event.action and tolerated(event.pod.tolerations, UNSCHEDULABLE)


def _tolerates_more(state: ClusterState, pod: PodInfo, event: PodEvent) -> bool:
    return Action.TOLERATIONS in event.action


def _wants_less(state: ClusterState, pod: PodInfo, event: PodEvent) -> bool:
    return Action.SCALE_DOWN in event.action


def _relabelled(state: ClusterState, pod: PodInfo, event: PodEvent) -> bool:
    return Action.LABELS in event.action


def _spreads_otherwise(state: ClusterState, pod: PodInfo, event: PodEvent) -> bool:
    honors = any(constraint.honors_taints for constraint in pod.hard_spread)
    return Action.LABELS in event.action or (Action.TOLERATIONS in event.action and honors)


_OWN_HINTS: Final[Mapping[str, _PodHint]] = {
    "NodeUnschedulable": _tolerates_cordon,
    "TaintToleration": _tolerates_more,
    "NodeResourcesFit": _wants_less,
    "InterPodAffinity": _relabelled,
    "PodTopologySpread": _spreads_otherwise,
}
