"""Affinity between pods: required terms as a filter, preferred ones as a score."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from corral.cluster.scheduler.placement.affinity import PodTerm
from corral.cluster.scheduler.placement.nodes import NodeInfo
from corral.cluster.scheduler.placement.pods import PodInfo
from corral.cluster.scheduler.placement.rejections import Rejection
from corral.cluster.scheduler.placement.state import ClusterState

__all__ = ["InterPodFilter", "interpod_scores"]

PLUGIN: Final = "InterPodAffinity"
_AFFINITY: Final = Rejection(PLUGIN, ("node(s) didn't match pod affinity rules",), resolvable=False)
_ANTI: Final = Rejection(PLUGIN, ("node(s) didn't match pod anti-affinity rules",))
_EXISTING: Final = Rejection(PLUGIN, ("node(s) didn't satisfy existing pods anti-affinity rules",))
_HARD_WEIGHT: Final = 1
"""What the required affinity of a placed pod weighs in scores."""

_Place = tuple[str, str]
"""A topology label and its value: all nodes with it are one place."""


class InterPodFilter:
    """The required terms of the pod and of the placed pods.

    Three counts by place: placed pods that do not want this one there, placed pods that this one
    wants to be with, and placed pods that it wants to be away from. ``update`` keeps them right
    while pods are added or removed on trial.
    """

    def __init__(self, state: ClusterState, pod: PodInfo) -> None:
        self.pod = pod
        self.namespaces = state.namespaces
        self.unwelcome: dict[_Place, int] = {}
        self.together: dict[_Place, int] = {}
        self.apart: dict[_Place, int] = {}
        for placed, node in state.anti_affinity_pods.values():
            self._update_unwelcome(placed, node, 1)
        if pod.affinity or pod.anti_affinity:
            for node in state.nodes.values():
                for placed in node.pods.values():
                    self._update_own(placed, node, 1)

    @property
    def needed(self) -> bool:
        """Whether there is anything to check for this pod."""
        return bool(self.unwelcome or self.pod.affinity or self.pod.anti_affinity)

    def check(self, node: NodeInfo) -> Rejection | None:
        if self.pod.affinity and not self._joins(node):
            return _AFFINITY
        return self.check_apart(node)

    def check_apart(self, node: NodeInfo) -> Rejection | None:
        """Anti-affinity alone, the pod's and that of the others."""
        labels = node.labels
        if self.apart:
            for term in self.pod.anti_affinity:
                value = labels.get(term.key)
                if value is not None and self.apart.get((term.key, value), 0) > 0:
                    return _ANTI
        if self.unwelcome:
            for place in labels.items():
                if self.unwelcome.get(place, 0) > 0:
                    return _EXISTING
        return None

    def update(self, pod: PodInfo, node: NodeInfo, sign: int) -> None:
        """Count a pod in (1) or out (-1)."""
        self._update_unwelcome(pod, node, sign)
        self._update_own(pod, node, sign)

    def _joins(self, node: NodeInfo) -> bool:
        found = True
        for term in self.pod.affinity:
            value = node.labels.get(term.key)
            if value is None:
                return False
            if self.together.get((term.key, value), 0) <= 0:
                found = False
        # The first of a series that wants to be with its own kind must not wait for ever.
        return found or (not self.together and self._wants(self.pod))

    def _wants(self, pod: PodInfo) -> bool:
        return all(
            term.matches(pod.namespace, pod.labels, self.namespaces) for term in self.pod.affinity
        )

    def _update_unwelcome(self, placed: PodInfo, node: NodeInfo, sign: int) -> None:
        for term in placed.anti_affinity:
            if term.matches(self.pod.namespace, self.pod.labels, self.namespaces):
                _bump(self.unwelcome, term, node, sign)

    def _update_own(self, placed: PodInfo, node: NodeInfo, sign: int) -> None:
        if self.pod.affinity and self._wants(placed):
            for term in self.pod.affinity:
                _bump(self.together, term, node, sign)
        for term in self.pod.anti_affinity:
            if term.matches(placed.namespace, placed.labels, self.namespaces):
                _bump(self.apart, term, node, sign)


def _bump(counts: dict[_Place, int], term: PodTerm, node: NodeInfo, sign: int) -> None:
    value = node.labels.get(term.key)
    if value is None:
        return
    place = (term.key, value)
    count = counts.get(place, 0) + sign
    if count:
        counts[place] = count
    else:
        counts.pop(place, None)


def interpod_scores(
    state: ClusterState, pod: PodInfo, nodes: Sequence[NodeInfo]
) -> list[int] | None:
    """Scores 0 to 100 for the nodes by preferred terms of all sides; None: there are none."""
    if not pod.preferred_pods and not state.affinity_pods:
        return None
    weights = _weights(state, pod)
    if not weights:
        return None
    raw = [sum(weights.get(place, 0) for place in node.labels.items()) for node in nodes]
    lowest, highest = min(raw), max(raw)
    if highest == lowest:
        return [0] * len(raw)
    return [int(100.0 * ((score - lowest) / (highest - lowest))) for score in raw]


def _weights(state: ClusterState, pod: PodInfo) -> dict[_Place, int]:
    """What each place is worth; one that is worth nothing on balance stays in, with 0."""
    weights: dict[_Place, int] = {}

    def weigh(term: PodTerm, about: PodInfo, node: NodeInfo, weight: int) -> None:
        value = node.labels.get(term.key)
        if value is not None and term.matches(about.namespace, about.labels, state.namespaces):
            weights[term.key, value] = weights.get((term.key, value), 0) + weight

    if pod.preferred_pods:
        for node in state.nodes.values():
            for placed in node.pods.values():
                for own in pod.preferred_pods:
                    weigh(own.term, placed, node, own.weight)
    for placed, node in state.affinity_pods.values():
        for term in placed.affinity:
            weigh(term, pod, node, _HARD_WEIGHT)
        for theirs in placed.preferred_pods:
            weigh(theirs.term, pod, node, theirs.weight)
    return weights
